"""Languages: detect the programming language of code by its typical lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from contextrelay.content.prefilter import Prefilters, loosened
from contextrelay.model.artifact import ArtifactType

Guess = tuple[ArtifactType, str]

_CODE_LINES_MIN = 2

_INTERPRETERS = {
    "python": "text/x-python",
    "node": "text/javascript",
    "ruby": "text/x-ruby",
    "perl": "text/x-perl",
    "php": "text/x-php",
    "lua": "text/x-lua",
}
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?([a-z]+)[\d.]*(?:\s+(?:-\S+\s+)*([a-z]+)[\d.]*)?")


def shebang(line: str) -> Guess | None:
    match = _SHEBANG.match(line)
    if not match:
        return None
    program = match[2] if match[1] == "env" and match[2] else match[1]
    return "code", _INTERPRETERS.get(program, "text/x-shellscript")


def without_comments(rows: list[str]) -> list[str]:
    """Remove C-style comments, on one or several lines."""
    kept: list[str] = []
    is_within = False
    for row in rows:
        text = row.strip()
        is_within = is_within or text.startswith("/*")
        if is_within and "*/" in text:
            is_within = False
            row = text = text.rpartition("*/")[2].strip()
            if not text:
                continue
        if not is_within and not text.startswith("//"):
            kept.append(row)
    return kept


def without_strings(rows: Iterable[str]) -> Iterator[str]:
    """Yield the rows that are not inside a triple-quoted string."""
    is_within = False
    for row in rows:
        if not is_within:
            yield row
        is_within ^= (row.count('"""') + row.count("'''")) % 2 == 1


_TRACE = "Traceback (most recent call last):"
_POINTED = re.compile(r"\s*[\^~]+\s*$")


def without_traces(rows: list[str]) -> list[str]:
    """Remove rows of code that a traceback quotes, or that the next row marks with `^`."""
    kept: list[str] = []
    margin = -1
    for row in rows:
        is_within = 0 <= margin < len(row) and row[margin].isspace()
        if row.lstrip()[:1] in ("^", "~") and _POINTED.match(row) and kept and not is_within:
            kept.pop()
        elif not is_within:
            margin = row.find(_TRACE)
            kept.append(row)
    return kept


_NOT_C = "def|else|fn|fun|new|return"
_C_WORDS = r"(?:(?:static|extern|inline|const|unsigned|struct) ){0,3}"
_WORDS = (
    r"(?:public|private|protected|internal|open|fileprivate) "
    r"(?:(?:static|final|abstract|sealed|async|override|readonly|virtual|partial) )*"
)
# The beginnings of typical lines by language. With equal counts, the first language wins.
TYPICAL_LINES: dict[str, tuple[str, ...]] = {
    "text/x-python": (
        r"\s*(?:async )?def \w+[(\[].*(?:\).*:|[,(\[]$)",
        r"class \w+(?:\(.*\))?:|if __name__ == |__all__ = ",
        r"from [\w.]+ import [\w(*]|import [\w.]+(?: as \w+)?(?:, [\w.]+)*$",
    ),
    "text/x-c": (
        r"#\s*(?:include\s*[<\"]|(?:define|ifndef|ifdef|pragma|undef)\s+\w)",
        r"typedef \w|struct \w+\s*\{?$",
        rf"{_C_WORDS}(?!{_NOT_C})\w+ \**\w+\((?:void|(?:const |struct )?\w+ \**\w).*[,){{;]$",
        r"template\s*<|namespace \w+(?:::\w+)* \{$|using namespace ",
    ),
    "text/x-rust": (
        r"\s*(?:pub(?:\(\w+\))? )?(?:unsafe |const |async )*(?:fn \w+[<(]|impl\b.*\{|use [\w:]+::)",
        r"(?:pub(?:\(\w+\))? )?(?:mod \w+(?:;| \{)|(?:enum|trait) \w.*\{)",
        r"#!?\[\w+.*\]$|pub struct \w|(?:const|static) [A-Z_\d]+: |\s*match \w.*\{$|\s*let mut ",
    ),
    "text/x-go": (
        r"package \w+$|func (?:\(.*\) )?\w+[(\[]|import (?:\(|\"[^\"]+\")$",
        r"type \w+ (?:struct|interface) \{|\t\"[\w./-]+\"$|\w+ := ",
    ),
    "text/x-java": (
        r"package [\w.]+;|import (?:static )?[\w.]+(?:\.\*)?;|using [\w.]+;|namespace [\w.]+;?$",
        rf"\s*{_WORDS}(?:class|interface|enum|struct|record|void|[A-Z]\w*|int|bool(?:ean)?|string)\b",
    ),
    "text/javascript": (
        r"(?:export )?(?:default )?(?:declare |abstract |async )*function\*? ?\w*[(<]",
        r"(?:export )?(?:default )?(?:declare |abstract )*class \w+.*\{",
        r"(?:export )?(?:declare )?(?:interface \w+.*\{|type \w+.*[=<]|(?:const )?enum \w+ \{)",
        r"(?:export )?(?:declare )?(?:const|let|var) [\w{\[$]|import (?:.* from )?['\"]",
        r"import type |export (?:\{|\*|default\b)|\} from ['\"]|(?:module\.)?exports\b.*=",
        r"\}\)(?:\(.*\))?;$|\s*const [\w{\[].* = .*[;{(\[]$|[(;!]*function ?\w*\(",
        r"[\w$.]{1,60} = (?:async )?function\b|['\"]use strict['\"]",
    ),
    "text/x-kotlin": (
        r"package [\w.]+$|import [\w.]+(?:\.\*)?(?: as \w+)?$",
        r"\s*(?:\w+ )*fun (?:<.*> )?[\w.<>?`]+\(",
        r"\s*(?:(?:private|internal|override|public|const|protected) )*(?:val \w+|var \w+: \w)",
        r"(?:(?:data|sealed|open|internal|enum) )*(?:class|object|interface) \w+(?:\(| :|$)",
        r"(?:plugins|dependencies|kotlin|repositories|android|buildscript) \{$",
        r"\s+(?:id|alias|implementation|api|testImplementation|kotlin)\(",
    ),
    "text/x-scala": (
        r"package [\w.]+$|import [\w.]+(?:\._|\.\{.*\})?$|\s*(?:override )?def \w+.*=(?: \{)?$",
        r"(?:case )?(?:class|object) \w+.*(?:\{|\))$|(?:sealed )?trait \w+",
    ),
    "text/x-swift": (
        r"import [A-Z]\w+$|\s*guard .*(?:else \{|,)$",
        rf"\s*(?:@\w+ )*(?:{_WORDS})?func \w+.*[{{(]$",
        rf"\s*(?:@\w+ )*(?:{_WORDS})?(?:extension|struct|class|enum|protocol) \w+.*\{{$",
        r"\s*(?:(?:public|private|static|open) )*(?:let|var) \w+: [A-Z\[].*[^;,]$",
    ),
    "text/x-lua": (
        r"\s*local (?:function )?\w+(?:, \w+)*(?: = |\()|(?:local )?function [\w.:]+\(.*\)$",
        r"\s*(?:else)?if [^;\[]* then$|\s*(?:for|while) [^;]* do$|return \w+$",
    ),
    "text/x-ruby": (
        r"require(?:_relative)? ['\"]|\s*def (?:self\.)?\w+[?!=]?(?:\(.*\))?$|\s*attr_\w+ :",
        r"\s*(?:class|module) [A-Z][\w:]*(?: < .*)?$|\s*\w[^;]* do(?: \|.*\|)?$|# frozen_string",
    ),
    "text/x-perl": (
        r"use \w+(?:::\w+)*\b.*;|\s*(?:my|our) [$@%(]|\s*sub \w+\s*\{?$|package \w+(?:::\w+)*;",
        r"=(?:head\d|cut|pod|over|item|encoding)\b|\s*\$\w+(?:->| = |[{\[]).*;$",
    ),
    "text/x-r": (r"\s*[\w.]+ <- |(?:library|test_that)\([\w\"]|#' |\s*[\w.]+\(.*\) (?:%>%|\|>)$",),
    "text/x-proto": (
        r"syntax = ['\"]proto|(?:message|service|enum) \w+ ?\{|package [\w.]+;|option [\w.()]+ = ",
        r"import ['\"].*\.proto['\"];|\s+rpc \w+",
        r"\s+(?:repeated |optional |required )?[\w.<>, ]{1,80} \w+ = \d+\b",
    ),
    "application/sql": (
        r"(?ai:CREATE (?:OR REPLACE )?(?:TABLE|(?:UNIQUE )?INDEX|VIEW|FUNCTION|TYPE|TRIGGER)\b)",
        r"(?ai:INSERT INTO|DROP (?:TABLE|INDEX|VIEW)|ALTER TABLE|SELECT .+ FROM|COMMENT ON) ",
    ),
}


@cache
def _typical(media_type: str) -> re.Pattern[str]:
    """Compile the patterns of a language, when first needed."""
    return re.compile("|".join(TYPICAL_LINES[media_type]))


def possible_languages(text: str) -> list[str]:
    """Return the languages that may have typical lines in a text, in the order of TYPICAL_LINES."""
    media_types = list(TYPICAL_LINES)
    return [media_types[index] for index in _prefilters().find(text)]


@cache
def _prefilters() -> Prefilters:
    return Prefilters(
        f"(?m)^(?:{'|'.join(map(loosened, lines))})" for lines in TYPICAL_LINES.values()
    )


# Languages that share typical lines with another one, and the lines that only they have.
_OVERRIDES: dict[str, tuple[str, re.Pattern[str]]] = {
    "text/javascript": (
        "text/x-typescript",
        re.compile(
            r"import type |(?:export )?(?:declare |interface \w+.*\{|type \w+(?:<.*)? =)"
            r"|(?:export )?(?:abstract |(?:const )?enum \w)|\s*(?:private|public|readonly) \w"
            r"|.*\w\)?\??: (?:readonly )?(?:string|number|boolean|any|void|unknown|never)\b"
            r"|.*\w\)?\??: (?:readonly )?[A-Z]\w*(?:<|\[\]| [|=&{]|[,;)])|.* as (?:any|const)\b"
        ),
    ),
    "text/x-c": (
        "text/x-c++",
        re.compile(
            r"\s*(?:template\s*<|namespace\b|class \w+|using \w|constexpr |(?:public|private):)"
            r"|.*(?:\bstd::|\bnullptr\b|\boperator\W|\w+::\w+\()|#\s*include <\w+>"
        ),
    ),
    "text/x-java": (
        "text/x-csharp",
        re.compile(
            r"\s*(?:using [\w.= ]+;|namespace [\w.]+|#(?:region|if|endregion)\b)"
            r"|\s*\[\w+(?:\(.*\))?\]$|.*(?:\{ get;|\bstring \w|\breadonly \w)"
        ),
    ),
}
# One such line counts as two typical ones.
_SURE_SIGNS = re.compile(
    r"export (?:declare|default|const|function|async|interface|class|type)\b.*[;{(=,]$"
    r"|['\"]use strict|Object\.defineProperty\(exports|module\.exports = "
    r"|#\s*include\s*[<\"]|syntax = ['\"]proto|use strict;"
)
# Minimum share of typical lines in other languages: prose may contain one occasionally.
_COMMON = (
    *("text/x-python", "text/x-c", "text/x-rust", "text/x-go", "text/x-java", "text/javascript"),
    "application/sql",
)
_RARE_SHARE = 0.1
_BLOCK = re.compile(r"\s*[.#@:*&>\w\[][^{};=]{0,300}[{,]$|\{$")
_DECLARATION = re.compile(r"\s*(?:\$|--|@)?[\w-]{1,60}:\s*[^{}]{1,300};$|\s*@\w[\w-]* ")
_ONE_LINE = re.compile(r"[.#@:*\w\[][^{};=]{0,200}\{\s*[\w-]{1,60}\s*:[^{};]{1,200}[;}]")
_STYLE_SHARE = 0.7
_ROW_CHARS, _ROWS_MAX = 300, 400


def language(rows: list[str], share: float = 0) -> Guess | None:
    """Return the language with the most typical lines, if at least two and at least this share."""
    rows = [row[:_ROW_CHARS] for row in rows[:_ROWS_MAX]]
    text = "\n".join(rows)
    possible = possible_languages(text)
    if not possible:
        has_blocks = "{" in text or ",\n" in text or text.endswith(",")
        return ("code", "text/css") if has_blocks and _is_style(rows) else None
    sure = sum(_SURE_SIGNS.match(row) is not None for row in rows)
    count, media_type = 0, ""
    for each in possible:
        found = sum(map(bool, map(_typical(each).match, rows)))
        if found > count:
            count, media_type = found, each
    share = max(share, 0 if media_type in _COMMON else _RARE_SHARE)
    if count and count + sure >= max(_CODE_LINES_MIN, share * len(rows)):
        relative, sign = _OVERRIDES.get(media_type, ("", None))
        is_relative = sign is not None and any(sign.match(row) for row in rows)
        return "code", relative if is_relative else media_type
    return ("code", "text/css") if not count and _is_style(rows) else None


def _is_style(rows: list[str]) -> bool:
    """Return True if the rows are almost only blocks of declarations."""
    whole = sum("{" in row and _ONE_LINE.match(row) is not None for row in rows)
    blocks = sum(row[-1:] in ("{", ",") and _BLOCK.match(row) is not None for row in rows)
    may_declare = [row for row in rows if row[-1:] == ";" or "@" in row]
    declared = sum(_DECLARATION.match(row) is not None for row in may_declare)
    if not whole and not (blocks and declared):
        return False
    ends = sum(row.strip() == "}" for row in rows)
    return whole + blocks + declared + ends >= _STYLE_SHARE * len(rows)
