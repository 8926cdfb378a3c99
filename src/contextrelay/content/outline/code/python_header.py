"""Headers of Python classes and functions: bases, arguments and return types."""

from __future__ import annotations

import re

# Every alternative matches whatever follows its first characters, so that nothing is read twice:
# an unclosed string continues to the end of its line, or of the text.
STRING = (
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\\?\Z)'
    r"|'''(?:[^'\\]++|\\.|'(?!''))*+(?:'''|\\?\Z)"
    r'|"(?:[^"\\\n]++|\\.)*+"?|'
    r"'(?:[^'\\\n]++|\\.)*+'?"
)
NAME = r"[^\W\d]\w*+"
# Maximum length of a header that is read for its arguments.
HEADER_CHARS_MAX = 4_000

_KEYWORD = re.compile(rf"{NAME}=(?!=)")
_ARGUMENT = re.compile(rf"\*{{0,2}}{NAME}")
_SPELLED = re.compile(
    rf"(?P<string>{STRING})|#[^\n]*+|\\\r?\n|(?P<equals>[ \t]*+(?<![=!<>:])=(?!=)[ \t]*+)"
    r"|(?P<edge>(?<=[(\[{])\s++|,?+[ \t]*+\r?\n\s*+(?=[)\]}]))|\s++",
    re.DOTALL,
)


def bases_in(statement: str, name: str) -> str:
    """Return the bases of a class in parentheses; "" for none."""
    parts, _ = _taken_apart(_in_one_line(statement), name)
    bases = ", ".join(part for part in parts if not _KEYWORD.match(part))
    return f"({bases})" if bases else ""


def signature_in(statement: str, name: str) -> tuple[str, str]:
    """Return the arguments and return type of a function, and the arguments without types."""
    parts, returns = _taken_apart(_in_one_line(statement), name)
    names = [match[0] for match in map(_ARGUMENT.match, parts) if match]
    return f"({', '.join(parts)}){returns}", f"({', '.join(names)})"


def _in_one_line(statement: str) -> str:
    """Return a header on one line without comments, formatted like `ast.unparse`: `a: int=1`."""

    def spelled(match: re.Match[str]) -> str:
        if match["string"]:
            return match[0]
        return "=" if match["equals"] else "" if match["edge"] else " "

    return _SPELLED.sub(spelled, statement)


_PART = re.compile(rf"[(\[{{)\]}}]|->|[:,]|{STRING}", re.DOTALL)


def _taken_apart(header: str, name: str) -> tuple[list[str], str]:
    """Return the parts between the parentheses after a name, and the return type."""
    at = header.find(name) + len(name)
    depth = 0
    parts: list[str] = []
    begins, arrow = at, -1
    is_open, returns = False, ""
    for token in _PART.finditer(header, at):
        sign = token[0]
        if sign in ("(", "[", "{"):
            depth += 1
            if depth == 1 and sign == "(" and not is_open:
                is_open, begins = True, token.end()
        elif sign in (")", "]", "}"):
            depth -= 1
            if depth == 0 and is_open and arrow < 0:
                parts.append(header[begins : token.start()])
                begins = token.end()
        elif depth == 1 and sign == "," and is_open and arrow < 0:
            parts.append(header[begins : token.start()])
            begins = token.end()
        elif depth == 0 and sign == "->":
            arrow = token.end()
        elif depth == 0 and sign == ":":
            returns = f" -> {header[arrow : token.start()].strip()}" if arrow >= 0 else ""
            break
    else:
        if depth > 0 and is_open:
            parts.append(header[begins:])  # Longer than the limit, or never closed.
    return [part.strip() for part in parts if part.strip()], returns
