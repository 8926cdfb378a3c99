"""Languages: which one code is written in, by the lines that are typical of it."""

from __future__ import annotations

import re

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
    """Rows that are no comments as C has them, alone or over several lines."""
    kept: list[str] = []
    is_within = False
    for row in rows:
        text = row.strip()
        is_within = is_within or text.startswith("/*")
        if not is_within and not text.startswith("//"):
            kept.append(row)
        is_within = is_within and "*/" not in text
    return kept


_TRACE = "Traceback (most recent call last):"


def without_traces(rows: list[str]) -> list[str]:
    """Rows that are not the code which a trace quotes."""
    if not any(_TRACE in row for row in rows):
        return rows
    kept: list[str] = []
    margin = -1
    for row in rows:
        is_within = 0 <= margin < len(row) and row[margin].isspace()
        if not is_within:
            margin = row.find(_TRACE)
            kept.append(row)
    return kept


# What a typical line of any of these languages begins with; few other lines do.
_CODE_START = re.compile(
    r"\s*(?:[@#}]|alter|async|bool|char|class|const|create|def|drop|export|extern|fn|from|func|if|impl"
    r"|import|inline|insert|int|let|long|module|package|private|protected|pub|select|size_t|static"
    r"|struct|type|u?int\d|unsigned|use|var|void|\w+ \**\w+\(|[(;!]*function"
    r"|[\w$.]{1,60} = (?:async )?function)",
    re.IGNORECASE,
)
_CODE: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "text/x-python",
        re.compile(
            r"\s*(?:async )?def \w+\(.*|class \w+(?:\(.*\))?:$|from [\w.]+ import [\w(*]"
            r"|import [\w.]+(?: as \w+)?$|if __name__ == |@\w[\w.]*(?:\(.*\))?$"
        ),
    ),
    (
        "text/x-c",
        re.compile(
            r"#\s*include\s*[<\"]|#\s*(?:define|ifndef|ifdef|pragma)\s+\w|typedef \w"
            r"|struct \w+\s*\{?$|(?:(?:static|extern|inline|const|unsigned|struct) ){0,3}"
            r"(?!def|else|fn|fun|new|return)\w+ \**\w+\("
            r"(?:void|(?:const |struct )?\w+ \**\w).*[,){]$"
        ),
    ),
    (
        "text/x-rust",
        re.compile(r"\s*(?:pub(?:\(\w+\))? )?(?:fn \w+[<(]|impl\b.*\{|use [\w:]+::)|pub struct \w"),
    ),
    ("text/x-go", re.compile(r"package \w+$|func (?:\(.*\) )?\w+\(|import \($|type \w+ struct \{")),
    (
        "text/x-java",
        re.compile(
            r"package [\w.]+;|import (?:static )?[\w.]+(?:\.\*)?;|\s*(?:public|private|protected) "
            r"(?:static |final |abstract )*(?:class|interface|enum|void|[A-Z]\w*|int|boolean) "
        ),
    ),
    (
        "text/javascript",
        re.compile(
            r"export (?:declare )?(?:interface|type|enum|abstract class|class) \w"
            r"|\s*(?:export )?(?:default )?(?:async )?function\*? ?\w*\("
            r"|(?:export )?(?:const|let|var) [\w{\[].*=|import .* from ['\"]"
            r"|(?:module\.)?exports\b.*=|\}\);?$|\s*const [\w{\[].* = .*[;{(\[]$"
            r"|[(;!]*function ?\w*\(|[\w$.]{1,60} = (?:async )?function\b"
        ),
    ),
    (
        "application/sql",
        re.compile(
            r"(?:CREATE (?:TABLE|INDEX|VIEW)|INSERT INTO|DROP TABLE|ALTER TABLE|SELECT .+ FROM) .*",
            re.IGNORECASE,
        ),
    ),
)


def language(rows: list[str], share: float = 0) -> Guess | None:
    """The language with the most typical lines, if they are more than one, and such a share."""
    least = max(_CODE_LINES_MIN, share * len(rows))
    rows = [row for row in rows if _CODE_START.match(row)]
    if len(rows) < _CODE_LINES_MIN:
        return None
    counts = [
        (sum(sign.match(row) is not None for row in rows), media_type) for media_type, sign in _CODE
    ]
    count, media_type = max(counts, key=lambda pair: pair[0])
    return ("code", media_type) if count >= least else None
