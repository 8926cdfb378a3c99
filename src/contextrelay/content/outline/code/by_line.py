"""Code by lines: lines that look like definitions, for languages without a parser.

Also for languages with a grammar, if it may not run in this process or was stopped. These patterns
take linear time on any input.
"""

from __future__ import annotations

import re

from contextrelay.content.outline.code import Symbol, code_draft
from contextrelay.content.outline.layout import OutlineDraft
from contextrelay.content.source import Source

LANGUAGES = {
    "text/x-python": "Python",
    "text/javascript": "JavaScript",
    "text/x-typescript": "TypeScript",
    "text/x-shellscript": "Shell",
    "text/x-c": "C",
    "text/x-c++": "C++",
    "text/x-java": "Java",
    "text/x-kotlin": "Kotlin",
    "text/x-csharp": "C#",
    "text/x-go": "Go",
    "text/x-rust": "Rust",
    "text/x-ruby": "Ruby",
    "text/x-php": "PHP",
    "text/x-swift": "Swift",
    "text/x-scala": "Scala",
    "text/x-lua": "Lua",
    "text/x-perl": "Perl",
    "text/x-r": "R",
    "text/css": "CSS",
    "application/sql": "SQL",
    "text/x-proto": "Protocol Buffers",
}
_WORDS = (
    r"(?:export|default|declare|public|private|protected|internal|static|final|abstract|async|pub"
    r"|pub\([\w:]{1,40}\)|unsafe|extern(?: \"C\")?|const|inline|sealed|open|override|virtual"
    r"|partial|data|readonly)"
)
_TYPE = re.compile(
    rf"(?:{_WORDS} ){{0,4}}(enum class|class|interface|enum|struct|trait|module|namespace"
    r"|object|record|union|protocol|message|service|mod|type)\s+"
    r"(?:[A-Z][A-Z0-9_]{2,40} )?([A-Za-z_$][\w$]*(?:(?:::|\.)[\w$]+)*)(.{0,200})"
)
_FUNCTION = re.compile(
    rf"(?:{_WORDS} ){{0,4}}(?:function\*?|func|fn|def|sub|fun|proc)\s+"
    r"(?:\((?:\w+\s+)?\*?(\w+)[^)]{0,80}\)\s*)?([A-Za-z_$][\w$.:?!]*)\s*"
    r"([(<\[].{0,200}|$)"
)
_ASSIGNED = re.compile(
    rf"(?:{_WORDS} ){{0,4}}(?:const|let|var|local)?\s?([A-Za-z_$][\w$.]*)\s*[=:]\s*"
    r"(?:async\s+)?(?:function\b|\([^()]{0,120}\)\s*(?::[^=]{0,60})?=>|[A-Za-z_$][\w$]*\s*=>)(.{0,80})"
)
_IMPL = re.compile(
    r"(?:unsafe )?impl(?:<.{0,120}?>)? (?:!?([\w:]+)(?:<.{0,120}?>)? for )?"
    r"[&*]{0,2}(?:'\w+ )?(?:(?:mut|dyn|const) ){0,2}([\w:]+|\[[^\]{}]{1,40}\]|\([^(){}]{0,40}\))"
)
_ALIAS = re.compile(r"typedef\s+(?:struct|union|enum)\s+(\w+)\s*(?:\{.{0,200}\})?\s*\*?(\w+)\s*;")
# `} Name;` ends a type that had no name before.
_CLOSES = re.compile(r"\}\s*(?:__\w+__\s*\(\(.{0,60}\)\)\s*)?\*?([A-Za-z_]\w*)\s*(?:,.{0,60})?;")
_DECLARES = re.compile(
    r"(?!(?:return|else|typedef|using|new|throw|delete)\b)"
    r"[A-Za-z_][\w*& ]{0,100}?[\s*&]([A-Za-z_]\w*)\s?(\([^(){};=]{0,200}\))[^;{}=]{0,80};$"
)
_C_BODY = re.compile(r"\s*(?:$|\{|/[/*]|(?:final\s*)?:(?!:)|__attribute__)")
_CONSTANT = re.compile(r"(?:export )?(?:pub )?(?:const|static|var|let) ([A-Z][A-Z0-9_]{2,})\b")
_SHELL = re.compile(r"(?:function\s+)?([A-Za-z_][\w-]*)\s*\(\)\s*\{?")
_C_LIKE = re.compile(
    r"(?!(?:return|else|if|for|while|switch|case|goto|typedef|using|new|throw|delete|do)\b)"
    r"[A-Za-z_][\w:<>,*&\[\] ]{0,120}?[\s*&]([A-Za-z_~][\w:~]*)\s*(\([^;]{0,200})$"
)
_METHOD = re.compile(
    rf"(?:{_WORDS} ){{0,4}}"
    r"(?!(?:if|for|while|switch|catch|return|function|else|do|with|new|await)\b)"
    r"(?:[A-Za-z_][\w<>\[\],.? ]{0,60} )?(#?[A-Za-z_$][\w$]*)\s*(\([^;]{0,160}\{)\s*$"
)
# If its line has a modifier that only definitions have, a method needs no brace on that line.
_MODIFIED = re.compile(
    r"(?:(?:public|protected|private|internal|static|final|abstract|synchronized|native|override"
    r"|virtual|async) ){1,6}(?:<[^<>]{1,60}> )?(?:[\w<>\[\],.?]{1,60} ){0,3}"
    r"(#?[A-Za-z_$][\w$]*)(\([^;={]{0,160})"
)
_MACRO = re.compile(r"#\s*define\s+(\w+)")
_RULES = re.compile(r"macro_rules!\s+(\w+)")
_IMPORT = re.compile(
    r"(?:import|from|use|using|require(?:_once|_relative)?|include|package|#\s*include|source)"
    r"\b[\s(]*(.{1,300})|(?:export\b.{0,300}|\}\s*)(?=from\s+['\"])(.{1,160})"
)
_MODULES = tuple(
    map(re.compile, (r"""from\s+['"]([^'"]+)""", r"""['"<]([^'">]+)[>'"]""", r"([\w.:/@*{}-]+)"))
)
_TABLE = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?(?:UNIQUE\s+)?"
    r"(TABLE|VIEW|INDEX|FUNCTION|TRIGGER|TYPE|PROCEDURE)\s+(?:IF\s+NOT\s+EXISTS\s+)?([\w.\"`]+)",
    re.IGNORECASE,
)
_SELECTOR = re.compile(r"([.#@:\w\[*][^{};]{0,160}+)\{")
# Lines that can only be definitions or imports, and not prose in a docstring.
_STARTS = {
    "Python": re.compile(
        r"(?:async )?def \w+ *[(\[]|class \w+ *[(:\[]|type \w+ *[=\[]"
        r"|import [\w.]+ *(?:$|[,#]|as )|from [\w.]+ import "
    )
}
_C_FAMILY = ("C", "C++", "Java", "C#")


def draft_outline(source: Source) -> OutlineDraft | None:
    """Return the outline of code in any language."""
    language = LANGUAGES.get(source.media_type, "code")
    return code_draft(source, language, *by_lines(source, language))


def by_lines(source: Source, language: str) -> tuple[list[Symbol], list[str]]:
    """Return probable definitions and imports in code, each found in a single line."""
    symbols: list[Symbol] = []
    imports: list[str] = []
    starts = _STARTS.get(language)
    for number, line in enumerate(source.short_lines, 1):
        text = line.strip()
        if not text or text.startswith(("//", "*", "/*")):
            continue
        if starts and not starts.match(text):
            continue
        indent = len(line) - len(line.lstrip())
        found = _symbol(language, text, indent, number)
        if found is not None:
            symbols.append(found)
        elif indent == 0 and (match := _IMPORT.match(text)):
            module = match[1] or match[2]
            for each in _MODULES:
                if name := each.search(module):
                    spelled = name[1].partition("::{")[0]
                    imports += [spelled.rstrip(";")] if spelled not in ("", "(", "{", "*") else []
                    break
    return symbols, imports


# Languages with one kind of definition.
_ONLY = {
    "SQL": (_TABLE, "", '"`'),
    "CSS": (_SELECTOR, "rule", " "),
    "Shell": (_SHELL, "function", ""),
}
_SIMPLE = ((_ASSIGNED, "function"), (_CONSTANT, "constant"), (_RULES, "macro_rules"))


def _symbol(language: str, text: str, indent: int, number: int) -> Symbol | None:
    if language in _ONLY:
        pattern, kind, signs = _ONLY[language]
        match = pattern.fullmatch(text) if language == "Shell" else pattern.match(text)
        if match is None:
            return None
        return Symbol(kind or match[1].lower(), match[match.lastindex or 0].strip(signs), number)
    is_member = indent > 0
    is_c = language in ("C", "C++")
    match = _TYPE.match(text)
    # In C, this may also be the type of a variable.
    if match and not (is_c and match[3].strip() != ";" and not _C_BODY.match(match[3])):
        kind, rest = match[1], match[3]
        if kind == "type" and not re.search(r"[={<]|struct|interface", rest):
            return None
        if rest.strip() == ";" and kind not in ("type", "mod"):
            return None  # The function is only declared here and defined elsewhere.
        signature = rest.partition("{")[0].partition("=")[0].rstrip(" ;:")
        is_within = indent > (0 if kind == "type" and language == "Rust" else 4)
        return Symbol(kind, match[2], number, signature, is_member=is_within)
    if match := _FUNCTION.match(text):
        name = f"{match[1]}.{match[2]}" if match[1] else match[2]
        return Symbol("function", name, number, _arguments(match[3]), is_member=is_member)
    if not is_member:
        if match := _IMPL.match(text):
            return Symbol("impl", match[2], number, f"({match[1]})" if match[1] else "")
        for pattern, kind in _SIMPLE:
            if match := pattern.match(text):
                return Symbol(kind, match[1], number)
    if is_c and (match := _MACRO.match(text)):
        return Symbol("macro", match[1], number)
    if is_c and (match := _ALIAS.match(text)):
        return Symbol("type", match[2], number, f"({match[1]})")
    if is_c and not is_member and (match := _CLOSES.match(text)):
        return Symbol("type", match[1], number)
    if is_c and not is_member and (match := _DECLARES.match(text)):
        return Symbol("declaration", match[1], number, _arguments(match[2]))
    if language in _C_FAMILY and not is_member and (match := _C_LIKE.match(text)):
        is_local = is_c and text.startswith("static ")
        return Symbol("function", match[1], number, _arguments(match[2]), is_local=is_local)
    if 0 < indent <= 8 and (match := _MODIFIED.match(text) or _METHOD.match(text)):
        return Symbol("function", match[1], number, _arguments(match[2]), is_member=True)
    return None


def _arguments(text: str) -> str:
    return text.removesuffix("{}").rstrip(" {};")
