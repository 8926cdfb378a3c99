"""Definitions of C, JavaScript and TypeScript in outlines, judged by grammars of tree-sitter.

`python -m bench.quality.definitions FOLDER...`, where tree-sitter-c is installed, too. Outlines of
JavaScript and TypeScript are drawn by the same grammars: for these it tells what the walk misses.
Of files with definitions, at most 60 names each, drawn by lot: how many are found, and how many are
in an outline of 500 tokens; of what is found, how much is a definition anywhere in the file.

Rule: only figures are printed, so that a folder may be kept back.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import Struct

from contextrelay.content.outline import outline
from contextrelay.content.outline.code import c, grammars
from contextrelay.content.source import Source

NAMES_MAX, OUTLINE_TOKENS = 60, 500
SIZE_BYTES_MIN, SIZE_BYTES_MAX, LINE_BYTES_MAX = 1_500, 300_000, 150
GRAMMARS = {
    ".c": ("C", "tree_sitter_c", "language", "text/x-c"),
    ".h": ("C", "tree_sitter_c", "language", "text/x-c"),
    ".js": ("JavaScript", "tree_sitter_javascript", "language", "text/javascript"),
    ".mjs": ("JavaScript", "tree_sitter_javascript", "language", "text/javascript"),
    ".ts": ("TypeScript", "tree_sitter_typescript", "language_typescript", "text/x-typescript"),
    ".tsx": ("TypeScript", "tree_sitter_typescript", "language_tsx", "text/x-typescript"),
}
# What nodes are asked for where they stand at the top, or in a class that does.
ASKED = re.compile(
    r"(?:generator_)?function_(?:declaration|definition|signature)|(?:abstract_)?class_declaration"
    r"|method_definition|(?:abstract_)?method_signature|interface_declaration|enum_declaration"
    r"|type_alias_declaration|type_definition|(?:struct|union|enum)_specifier"
)
# What is looked into for more of them.
WRAPS = re.compile(
    r"translation_unit|program|preproc_(?:if|ifdef|else|elif)|linkage_specification|class_body"
    r"|declaration_list|export_statement|ambient_declaration|declaration|type_definition"
    r"|(?:abstract_)?class_declaration|(?:lexical|variable)_declaration"
)
FUNCTIONS = ("arrow_function", "function_expression", "generator_function", "class")
CPLUSPLUS = re.compile(rb"^\s*(?:namespace\s+\w|template\s*<|class\s+\w+[^;]*[:{])", re.MULTILINE)


class Share(Struct):
    """Names asked for, found, and shown; and what is found, and right."""

    files: int = 0
    asked: int = 0
    found: int = 0
    shown: int = 0
    named: int = 0
    right: int = 0


def main(folders: list[str]) -> None:
    grammars.allow()
    shares: dict[str, Share] = {}
    for path in sorted(each for folder in folders for each in Path(folder).rglob("*")):
        if path.suffix in GRAMMARS and path.is_file() and _is_plain(path):
            _judge(path, shares)
    for language, share in shares.items():
        asked, named = max(1, share.asked), max(1, share.named)
        right = 100 * share.right / named
        print(
            f"{language:11} {share.files} files, {share.asked} asked: found "
            f"{100 * share.found / asked:.1f} %, in {OUTLINE_TOKENS} tokens "
            f"{100 * share.shown / asked:.1f} %; of {share.named} named {right:.1f} % right"
        )


def _is_plain(path: Path) -> bool:
    """Whether a file is neither small, nor minified, nor C++ that is called C."""
    body = path.read_bytes()
    is_sized = SIZE_BYTES_MIN <= len(body) <= SIZE_BYTES_MAX
    is_wide = len(body) > LINE_BYTES_MAX * (body.count(b"\n") + 1)
    return is_sized and not is_wide and not (path.suffix == ".h" and CPLUSPLUS.search(body))


def _judge(path: Path, shares: dict[str, Share]) -> None:
    language, module, grammar, media_type = GRAMMARS[path.suffix]
    body = path.read_bytes()
    known: Any = import_module("tree_sitter")
    root = known.Parser(known.Language(getattr(import_module(module), grammar)())).parse(body)
    top = sorted({name for name in _top(root.root_node) if len(name) > 1})
    anywhere = set(_anywhere(root.root_node))
    source = Source.of(body, media_type, path.name, len(body))
    if language == "C":
        found = c.read(source.text)[0].found
    else:
        found = grammars.read(media_type, path.name, source.text, "") or []
    text = outline(source, "code", OUTLINE_TOKENS).text
    words = set(re.findall(r"[#\w$]+", text))
    names = [each.name.rpartition(".")[2] for each in found if each.kind != "test"]
    asked = random.Random(f"{path.name} {len(body)}").sample(top, min(len(top), NAMES_MAX))
    share = shares.setdefault(language, Share())
    share.files += 1
    share.asked += len(asked)
    share.found += len(set(asked) & set(names))
    share.shown += sum(name in words for name in asked)
    share.named += len(names)
    share.right += sum(name in anywhere or name in ("default", "exports") for name in names)


def _top(node: Any) -> Iterator[str]:
    """Names of what is defined at the top of a file, in the classes there, or by a value there."""
    for each in node.named_children:
        if ASKED.fullmatch(each.type) and (each.type[-9:] != "specifier" or _part(each, "body")):
            yield from _names(each)
        elif each.type == "variable_declarator":
            value = _part(each, "value")
            if value is not None and value.type in FUNCTIONS:
                yield from _names(each)
        if WRAPS.fullmatch(each.type):
            yield from _top(each)


def _anywhere(node: Any) -> Iterator[str]:
    """Names of all that is defined, declared or given a value anywhere in a file."""
    pending = [node]
    while pending:
        each = pending.pop()
        pending += each.named_children
        yield from _names(each, "key", "left", "property")


def _names(node: Any, *more: str) -> Iterator[str]:
    for part in ("name", "declarator", *more):
        for each in node.children_by_field_name(part):
            inner = each
            while inner is not None and not inner.type.endswith(("identifier", "string")):
                inner = _part(inner, "declarator") or next(iter(inner.named_children), None)
            if inner is not None and (part != "property" or node.type.endswith("definition")):
                yield inner.text.decode("utf-8", "replace").strip("'\"")
            if part == "left" and each.type == "member_expression":
                yield _part(each, "property").text.decode("utf-8", "replace")


def _part(node: Any, name: str) -> Any:
    return node.child_by_field_name(name)


if __name__ == "__main__":
    main(sys.argv[1:])
