"""Definitions by the grammars of tree-sitter: JavaScript, TypeScript, Go, Java and Rust.

Only statements at the top level, in types, in namespaces and in wrappers of a whole file are
visited; function bodies are not.

Rule: this runs only in a parser process, which calls `allow`, because the parsing time of some
texts is quadratic and nothing else can stop it (docs/decisions/0014, 0037). Elsewhere `read`
returns None.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from msgspec import Struct

from contextrelay.content.outline.code import (
    Definitions,
    Symbol,
    code_draft,
    listed,
)
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source
from contextrelay.limits import MIB, OUTLINE_PIECES_MAX

# Only this many bytes at the beginning are parsed for an outline.
GRAMMAR_BYTES_MAX = 2 * MIB
_LEVELS_MAX = 12
_SIGNATURE_CHARS_MAX = 400


class _Grammar(Struct, frozen=True):
    """A language: its grammar, and the nodes that define something."""

    name: str
    module: str
    function: str = "language"
    kinds: dict[str, str] = {}
    into: tuple[str, ...] = ()  # Node types whose children are also searched for definitions.
    imports: str = ""  # The node type of an import.


def _kinds(**types: str) -> dict[str, str]:
    return {each: kind for kind, listed in types.items() for each in listed.split()}


_SCRIPT = _kinds(
    function="function_declaration generator_function_declaration function_signature",
    interface="interface_declaration",
    enum="enum_declaration",
    type="type_alias_declaration",
    namespace="internal_module module",
    method="method_definition method_signature abstract_method_signature",
    **{"class": "class_declaration abstract_class_declaration"},
)
_JAVA = _kinds(
    interface="interface_declaration annotation_type_declaration",
    enum="enum_declaration",
    record="record_declaration",
    method="method_declaration constructor_declaration",
    **{"class": "class_declaration"},
)
_RUST = _kinds(
    function="function_item function_signature_item",
    struct="struct_item",
    enum="enum_item",
    union="union_item",
    trait="trait_item",
    impl="impl_item",
    mod="mod_item",
    type="type_item associated_type",
    constant="const_item static_item",
    macro_rules="macro_definition",
)
GRAMMARS = {
    "text/javascript": _Grammar("JavaScript", "tree_sitter_javascript"),
    "text/x-typescript": _Grammar("TypeScript", "tree_sitter_typescript", "language_typescript"),
    "text/x-go": _Grammar("Go", "tree_sitter_go"),
    "text/x-java": _Grammar(
        "Java",
        "tree_sitter_java",
        kinds=_JAVA,
        into=("enum_body_declarations",),
        imports="import_declaration",
    ),
    "text/x-rust": _Grammar(
        "Rust",
        "tree_sitter_rust",
        kinds=_RUST,
        into=("foreign_mod_item", "declaration_list"),
        imports="use_declaration",
    ),
}
# Kinds of definitions that have members; functions among the members are methods.
_OWNERS = ("class", "interface", "enum", "record", "struct", "union", "trait", "impl")
_WRAPPED = frozenset(
    f"{kind}_expression" for kind in ("parenthesized", "unary", "await", "as", "satisfies")
)
_FUNCTIONS = ("arrow_function", "function_expression", "generator_function", "function")
_CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{2,}")
_REQUIRED = re.compile(rb"\brequire\s*\(\s*['\"]([^'\"\n]*)")
_TESTS = re.compile(r"(describe|context|suite|it|test)(?:\.(?:only|skip|concurrent|serial))?")
_IMPL = re.compile(
    r"[&*]{0,2}(?:'\w+ )?(?:(?:mut|dyn|const) )*(\[.*|\(.*|[^<+]*?)(?:<.*| \+.*)?", re.DOTALL
)
_IMPORTED = re.compile(r"[\w.:/@*{}\\-]+")
_BLANKS = re.compile(r"\s++")
_allowed: list[bool] = []


def allow() -> None:
    """Allow parsing by grammars: only for processes that are ended after a timeout."""
    _allowed.append(True)


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of a file, or None if there is no grammar for its language."""
    walk = _walked(source.media_type, source.name, source.text, None)
    if walk is None:
        return None
    language, code = GRAMMARS[source.media_type].name, walk.code
    found = by_type(code.found) if language == "Go" else code.found
    return code_draft(source, language, listed(found), walk.imports, walk.doc, code.more, code.note)


def read(media_type: str, name: str, text: str, wanted: str) -> list[Symbol] | None:
    """Return the definitions of a file, or None if there is no grammar for its language."""
    walk = _walked(media_type, name, text, wanted)
    return None if walk is None else walk.code.found


def by_type(found: list[Symbol]) -> list[Symbol]:
    """Sort methods after their type; prefix those of a type in another file with its name."""
    methods: dict[str, list[Symbol]] = {
        each.name: [] for each in found if not each.owner and each.kind == "type"
    }
    ordered: list[Symbol] = []
    for each in found:
        if each.owner in methods:
            methods[each.owner].append(each)
            continue
        if each.owner:
            each.name, each.owner = f"{each.owner}.{each.name}", ""
        ordered.append(each)
    # If a type is defined again, its methods are listed once.
    return [
        one
        for each in ordered
        for one in (each, *(methods.pop(each.name, ()) if each.kind == "type" else ()))
    ]


def _walked(media_type: str, name: str, text: str, wanted: str | None) -> _Walk | None:
    grammar = GRAMMARS.get(media_type)
    if grammar is None or not _allowed:
        return None
    try:
        tree_sitter: Any = import_module("tree_sitter")
        function = "language_tsx" if name.endswith(".tsx") else grammar.function
        language = getattr(import_module(grammar.module), function)()
    except ImportError:
        return None
    body = text.encode("utf-8", "replace")
    part = body if wanted is not None else body[:GRAMMAR_BYTES_MAX]
    root = tree_sitter.Parser(tree_sitter.Language(language)).parse(part).root_node
    reader = {"JavaScript": _Script, "TypeScript": _Script, "Go": _Go}.get(grammar.name, _Walk)
    walk = reader(grammar, part, Definitions(wanted))
    walk.statements(root, "", 0)
    if len(part) < len(body):
        lines = part.count(b"\n") + 1
        walk.code.note = f"read up to line {lines}"
    return walk


class _Walk:
    """Visits the definitions of a language by the node types in the table of its grammar."""

    def __init__(self, grammar: _Grammar, body: bytes, code: Definitions) -> None:
        self.code = code
        self.imports: list[str] = []
        self.doc = ""
        self._grammar = grammar
        self._body = body

    def statements(self, node: Any, owner: str, level: int) -> None:
        """Visit the children of a node."""
        if level > _LEVELS_MAX:
            return
        for each in node.named_children:
            self._statement(each, owner, level)

    def _statement(self, node: Any, owner: str, level: int) -> None:
        kind = self._grammar.kinds.get(node.type)
        if kind is not None:
            self._definition(node, node, kind, owner, level)
        elif node.type == "package_declaration":
            self.doc = _text(node).rstrip(";")[:60]
        elif node.type == self._grammar.imports:
            words = _IMPORTED.findall(_text(node).partition("{")[0])
            self.imports += [words[-1].rstrip(":")] if len(words) > 1 else []
        elif node.type in (*self._grammar.into, "ERROR"):
            self.statements(node, owner, level + 1)

    def _definition(self, node: Any, whole: Any, kind: str, owner: str, level: int) -> None:
        name, body = _part(node, "type" if kind == "impl" else "name"), _part(node, "body")
        if name is None:
            return
        spelled = _text(name)
        if kind == "impl" and (of := _IMPL.fullmatch(spelled)):
            spelled = of[1]
        if kind == "function" and owner:
            kind = "method"
        found = self._keep(kind, spelled, whole, name, owner)
        if kind == "impl":
            trait = (_text(_part(node, "trait") or node) + "<").partition("<")[0]
            found.signature = f"({trait})" if _part(node, "trait") else ""
        elif kind not in ("constant", "macro_rules"):
            # The value of an alias is not shown: `value` in TypeScript, `type` in Rust.
            value = _part(node, "type") if node.type == "type_item" else _part(node, "value")
            value = body or value
            stop = value.start_byte if value is not None else node.end_byte
            found.signature = self._signature(name.end_byte, stop)
        if body is not None and (kind in _OWNERS or kind in ("namespace", "mod")):
            self.statements(body, spelled if kind in _OWNERS else owner, level + 1)

    def _keep(self, kind: str, name: str, whole: Any, at: Any, owner: str = "") -> Symbol:
        found = Symbol(kind, name, at.start_point.row + 1)
        found.first = whole.start_point.row + 1
        found.last = whole.end_point.row + (whole.end_point.column > 0)
        found.owner = owner
        self.code.keep(found)
        return found

    def _signature(self, start: int, stop: int) -> str:
        if self.code.is_outline and len(self.code.found) > OUTLINE_PIECES_MAX:
            return ""  # No outline shows this signature.
        raw = self._body[start : min(stop, start + _SIGNATURE_CHARS_MAX)].decode("utf-8", "replace")
        return _BLANKS.sub(" ", raw).strip().rstrip(";{= ")


class _Go(_Walk):
    """Visits Go code: grouped constants, variables and types, and methods with their type."""

    def _statement(self, node: Any, owner: str, level: int) -> None:
        match node.type:
            case "package_clause":
                self.doc = f"package {_text(node.named_children[0])[:60]}"
            case "import_declaration" | "import_spec_list":
                self.statements(node, owner, level + 1)
            case "import_spec":
                self.imports.append(_text(_part(node, "path")).strip('"`'))
            case "function_declaration" | "method_declaration":
                self._function(node)
            case "const_declaration" | "var_declaration" | "type_declaration" | "var_spec_list":
                specs = [each for each in node.named_children if each.type != "comment"]
                for each in specs:
                    if each.type == "var_spec_list":
                        self._statement(each, owner, level)
                    else:
                        is_alone = len(specs) == 1 and _text(node).find("(", 0, 8) < 0
                        self._spec(each, node if is_alone else each)
            case "ERROR":
                self.statements(node, owner, level + 1)
            case _:
                pass

    def _function(self, node: Any) -> None:
        name, body = _part(node, "name"), _part(node, "body")
        receiver, owner = _part(node, "receiver"), ""
        if receiver is not None:
            of = re.search(r"(\w+)\s*(?:\[[^\]]*\])?\s*,?\s*\)$", _text(receiver))
            owner = of[1] if of else ""
        found = self._keep("method" if owner else "function", _text(name), node, name, owner)
        found.signature = self._signature(name.end_byte, body.start_byte if body else node.end_byte)

    def _spec(self, node: Any, whole: Any) -> None:
        kind = {"const_spec": "constant", "var_spec": "variable"}.get(node.type, "type")
        for name in node.children_by_field_name("name"):
            if name.type == ",":
                continue
            found = self._keep(kind, _text(name), whole, name)
            of = _part(node, "type")
            if kind == "type" and of is not None:
                shape = self._signature(of.start_byte, of.end_byte).partition("{")[0].strip()
                found.signature = shape if shape[:1].isalpha() else ""

    def _keep(self, kind: str, name: str, whole: Any, at: Any, owner: str = "") -> Symbol:
        if name == "_":
            return Symbol(kind, name, 0)
        found = super()._keep(kind, name, whole, at, owner)
        # `main` and `init` are called from outside.
        found.is_local = kind != "type" and not name[0].isupper() and name not in ("main", "init")
        return found


class _Script(_Walk):
    """Visits JavaScript and TypeScript code, also bundles and functions called in place."""

    def _statement(self, node: Any, owner: str, level: int) -> None:
        self._exported(node, node, owner, level, is_exported=False)

    def _exported(self, node: Any, whole: Any, owner: str, level: int, is_exported: bool) -> None:
        """Visit a statement; `whole` includes `export` and decorators."""
        kind = _SCRIPT.get(node.type)
        if kind == "namespace" and _part(node, "name").type == "string":
            self.statements(_part(node, "body") or node, "", level + 1)
        elif kind is not None:
            self._definition(node, whole, kind, owner, level)
            body = _part(node, "body")
            if kind == "function" and not owner and body is not None and self._is_most(body, 3):
                self.statements(body, "", level + 1)
        else:
            self._other(node, whole, owner, level, is_exported)

    def _other(self, node: Any, whole: Any, owner: str, level: int, is_exported: bool) -> None:
        match node.type:
            case "export_statement":
                self._export(node, level)
            case "import_statement":
                strings = (each for each in node.named_children if each.type == "string")
                source = _part(node, "source") or next(strings, None)
                self.imports += [_text(source).strip("'\"")] if source else []
            case "ambient_declaration":
                for each in node.named_children:
                    if each.type == "statement_block":
                        self.statements(each, owner, level + 1)
                    else:
                        self._exported(each, whole, owner, level, is_exported)
            case "lexical_declaration" | "variable_declaration":
                for each in node.named_children:
                    if each.type == "variable_declarator":
                        place = whole if len(node.named_children) == 1 else each
                        name, value = _part(each, "name"), _part(each, "value")
                        self._value(name, value, place, level, is_exported)
            case "field_definition" | "public_field_definition":
                name, value = _part(node, "name") or _part(node, "property"), _part(node, "value")
                if name is not None and value is not None and value.type in _FUNCTIONS:
                    self._function(_text(name), value, node, name, "method", owner)
            case "expression_statement" | "return_statement":
                for each in node.named_children:
                    self._expression(each, node, level)
            case "ERROR" | "statement_block":
                self.statements(node, owner, level + 1)
            case _:
                pass

    def _export(self, node: Any, level: int) -> None:
        source, value = _part(node, "source"), _part(node, "value")
        declared = _part(node, "declaration")
        self.imports += [_text(source).strip("'\"")] if source else []
        if declared is not None:
            self._exported(declared, node, "", level, is_exported=True)
        elif value is not None and (value.type in (*_FUNCTIONS, "class", "object")):
            self._value(None, value, node, level, is_exported=True, name="default")
        elif value is not None:
            self._expression(value, node, level)

    def _value(
        self, at: Any, value: Any, whole: Any, level: int, is_exported: bool, name: str = ""
    ) -> None:
        """Add a name whose value is a function, class or object, or is exported."""
        name = name or _text(at)
        value = _plain(value)
        is_constant = is_exported or _CONSTANT.fullmatch(name) is not None
        if at is not None and at.type not in ("identifier", "member_expression"):
            is_constant = False
        if value is None:
            if is_exported:
                self._keep("constant", name, whole, at)
            return
        if required := _REQUIRED.search(
            self._body, value.start_byte, min(value.end_byte, value.start_byte + 300)
        ):
            self.imports.append(required[1].decode("utf-8", "replace"))
        at = at or value
        if value.type in _FUNCTIONS:
            own = _part(value, "name")
            name = _text(own) if name == "default" and own is not None else name
            self._function(name, value, whole, at, "function", "")
            body = _part(value, "body")
            if body is not None and self._is_most(body, 3):
                self.statements(body, "", level + 1)
        elif value.type == "class":
            found = self._keep("class", name, whole, at)
            body = _part(value, "body")
            found.signature = self._signature(value.start_byte + 5, body.start_byte)
            self.statements(body, name, level + 1)
        elif value.type == "object" and any(
            each.type == "method_definition" or _is_function(_part(each, "value"))
            for each in value.named_children[:1_000]
        ):
            if not is_exported and self._modules(value, level):
                return
            kind = "constant" if is_constant and name != "default" else "object"
            self._keep(kind, name, whole, at)
            for each in value.named_children:
                if each.type == "method_definition":
                    self._definition(each, each, "method", name, 0)
                elif each.type == "pair" and _is_function(member := _plain(_part(each, "value"))):
                    key = _part(each, "key")
                    self._function(_text(key).strip("'\""), member, each, key, "method", name)
        else:
            if is_constant:
                self._keep("constant", name, whole, at)
            self._wrapper(value, level)

    def _function(self, name: str, value: Any, whole: Any, at: Any, kind: str, owner: str) -> None:
        found = self._keep(kind, name, whole, at, owner)
        start = _part(value, "parameters") or _part(value, "parameter") or value
        body = _part(value, "body")
        text = self._signature(start.start_byte, body.start_byte if body else value.end_byte)
        found.signature = text.removesuffix("=>").rstrip()

    def _expression(self, node: Any, whole: Any, level: int) -> None:
        node = _plain(node)
        if node is None:
            return
        match node.type:
            case "sequence_expression":
                for each in node.named_children:
                    self._expression(each, whole, level)
            case "internal_module" | "class" | "function_expression":
                self._exported(node, whole, "", level, is_exported=False)
            case "assignment_expression":
                self._assignment(node, whole, level)
            case _:
                self._wrapper(node, level)

    def _assignment(self, node: Any, whole: Any, level: int) -> None:
        left, value = _part(node, "left"), _plain(_part(node, "right"))
        names = [left]
        while value is not None and value.type == "assignment_expression":
            names.append(_part(value, "left"))
            value = _plain(_part(value, "right"))
        name = _text(left)
        is_exported = name.startswith(("exports.", "module.exports."))
        if value is None or (
            is_exported and value.type in ("unary_expression", "identifier", "member_expression")
        ):
            return
        spelled = name.removeprefix("module.").removeprefix("exports.")
        if left.type in ("identifier", "member_expression") and len(name) < 200:
            self._value(left, value, whole, level, is_exported, spelled)

    def _wrapper(self, node: Any, level: int) -> None:
        """Visit functions that are called in place, or hold most of the file; and test cases."""
        node = _plain(node)
        if node is None or level > _LEVELS_MAX:
            return
        if node.type != "call_expression":
            if self._is_most(node, 2) and node.type in ("object", "array", *_FUNCTIONS):
                self._modules(node, level)
            return
        called, arguments = _plain(_part(node, "function")), _part(node, "arguments")
        if called is not None and called.type in _FUNCTIONS:
            self.statements(_part(called, "body"), "", level + 1)
        elif called is not None and called.type == "member_expression":
            self._wrapper(_part(called, "object"), level + 1)
        if arguments is None:
            return
        if called is not None and (of := _TESTS.fullmatch(_text(called)[:40])):
            self._test(node, arguments, of[1] in ("describe", "context", "suite"), "", level)
            return
        if required := _REQUIRED.match(self._body, node.start_byte):
            self.imports.append(required[1].decode("utf-8", "replace"))
        for each in arguments.named_children:
            value = _plain(each)
            if value is None or not self._is_most(value, 2):
                continue
            if value.type in _FUNCTIONS:
                self.statements(_part(value, "body"), "", level + 1)
            else:
                self._wrapper(value, level + 1)

    def _modules(self, node: Any, level: int) -> bool:
        """Visit the functions in an object or list that is most of the file, if it is."""
        if not self._is_most(node, 2) or node.type not in ("object", "array"):
            return False
        for each in node.named_children:
            value = _plain(_part(each, "value") if each.type == "pair" else each)
            if value is None or value.type not in (*_FUNCTIONS, "method_definition"):
                continue
            if key := _part(each, "key") or _part(each, "name"):
                self._keep("module", _text(key).strip("'\""), each, key)
            self.statements(_part(value, "body"), "", level + 1)
        return True

    def _test(self, node: Any, arguments: Any, is_group: bool, owner: str, level: int) -> None:
        """Add a test case by its title, or a group of test cases with its contents."""
        title = next(iter(arguments.named_children), None)
        if title is None or title.type not in ("string", "template_string"):
            return
        name = _text(title).strip("'\"`")
        self._keep("test", name, node, node, owner)
        body = next(
            (_part(each, "body") for each in arguments.named_children if _is_function(each)), None
        )
        if not is_group or body is None or level > _LEVELS_MAX:
            return
        for each in body.named_children:
            call = next(iter(each.named_children), None)
            is_call = call is not None and call.type == "call_expression"
            if not is_call or each.type != "expression_statement":
                continue
            of = _TESTS.fullmatch(_text(_part(call, "function"))[:40])
            if of and (inner := _part(call, "arguments")):
                is_group = of[1] in ("describe", "context", "suite")
                self._test(call, inner, is_group, owner or name, level + 1)

    def _is_most(self, node: Any, share: int) -> bool:
        """Return True if a node takes half of the file (share 2), or three quarters (share 3)."""
        size = node.end_byte - node.start_byte
        return 2 * size > len(self._body) if share == 2 else 4 * size > 3 * len(self._body)


def _is_function(node: Any) -> bool:
    return node is not None and node.type in _FUNCTIONS


def _plain(node: Any) -> Any:
    """Return an expression without its brackets, `!`, `await` and casts."""
    for _ in range(_LEVELS_MAX):
        if node is None or node.type not in _WRAPPED:
            break
        if node.type == "unary_expression" and _part(node, "argument").type != "call_expression":
            break
        node = _part(node, "argument") or next(iter(node.named_children), None)
    return node


def _part(node: Any, name: str) -> Any:
    return None if node is None else node.child_by_field_name(name)


def _text(node: Any) -> str:
    return node.text.decode("utf-8", "replace")
