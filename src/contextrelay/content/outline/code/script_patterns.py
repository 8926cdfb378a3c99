"""Patterns for the beginnings of statements and values in masked JavaScript and TypeScript."""

from __future__ import annotations

import re

_NAME = r"[^\W\d][\w$]*+|[$][\w$]*+"
GAP = re.compile(r"[\s;,]*+")
DECORATOR = re.compile(r"@[\w.$]*+[ \t]*+(?=(\()?)")
DEFINES = re.compile(
    r"(?P<export>export\s++)?(?:default\s++)?(?:declare\s++)?(?:abstract\s++)?(?:async\s++)?(?:"
    rf"function\b\s*+\*?\s*+(?P<function>{_NAME})?(?=\s*+[(<])"
    rf"|class\b\s*+(?P<class>(?!extends\b|implements\b)(?:{_NAME}))?(?=[\s{{<]|extends\b|implements\b)"
    rf"|(?P<kind>interface|(?:const\s++)?enum|namespace|module|type)\s++"
    rf"(?:(?P<type>(?:{_NAME})(?:\.[\w$]++)*+)|['\"][^'\"\n]*+['\"])(?=\s*+[{{<=]|\s++extends\b)"
    r"|(?P<global>global)(?=\s*+\{)"
    rf"|(?P<word>const|let|var)\s++(?P<variable>{_NAME})"
    rf"|(?P<target>(?:{_NAME})(?:\.(?:{_NAME}))*+)(?=\s*+=[^=>])"
    r")"
)
MEMBER = re.compile(
    r"(?:(?:public|private|protected|static|abstract|override|readonly|declare|async|accessor|get"
    rf"|set)\s++(?=[\w$#*\[]))*+\*?\s*+(?P<name>\#?(?:{_NAME}))[?!]?(?=\s*+(?P<sign>[(<=:]))"
)
ANNOTATION = re.compile(r"\s*+[?!]?:(?:[^=\n;(){}]++|=>|\([^()\n]{0,300}\)){1,40}+")
ASSIGNS = re.compile(r"\s*+=(?![=>])\s*+|\s*+:\s*+")
CHAINED = re.compile(rf"(?P<target>(?:{_NAME})(?:\.(?:{_NAME}))*+)\s*+=(?![=>])\s*+")
VALUE = re.compile(
    r"(?:\(\s*+(?=(?:async\s++)?(?:function|class)\b))?"
    rf"(?:async\b\s*+)?(?:(?P<function>function)\b\s*+\*?\s*+(?P<named>{_NAME})?"
    r"|(?P<class>class)\b(?:\s++(?!extends\b)(?P<own>[\w$]++))?"
    rf"|(?P<arrow>{_NAME})\s*+=>|(?P<generic><[^()=]{{1,200}}>\s*+)?(?P<open>(?=\())"
    r"|(?P<object>(?=\{)))"
)
ARROW = re.compile(r"\s*+(?::(?:[^=;{}()]++|\{(?:[^{}]++|\{[^{}]*+\})*+\}|\([^()]*+\)){1,20}+)?=>")
RUN = re.compile(r"[^\n;{}()\[\]]*+")
RUN_OF_OBJECT = re.compile(r"[^,{}()\[\]]*+")
GOES_ON = re.compile(r"[ \t]*+[{=.|&?:,()>\[]|\s*+[|&.](?!\.\.)")
ENDS_OPEN = ("=", "=>", "+", ",", "&", "|", "?", ":", "<", "extends")
LINE_GOES_ON = re.compile(r"\s*+(?:[.?:|&+{>](?!\.\.)|=[^>=]|extends\b|implements\b|=>)")
NEXT_NAME = re.compile(r"\s*+[\w$]++\s*+=[^=>]")
RUNS_NOW = re.compile(r"[!+~-]\s*+(?:async\s++)?function\b\s*+[\w$]*+\s*+(?=\()")
CALLS = re.compile(r"[\s)]*+(?:await\s++)?[\w$.]*+[ \t]*+(?=\()")
BODY = re.compile(r"\s*+(?:=>\s*+)?(?=\{)")
DEFAULT = re.compile(r"export\s++default\s++(?=\{)")
# Bundles of modules: by name, or one after the other.
_MODULE_NAME = r"(?:(?P<name>['\"][^'\"\n]*+['\"]|\d[\w$]*+)\s*+:?\s*+)?"
TABLE = re.compile(rf"\(?+\s*+[{{\[](?=\s*+{_MODULE_NAME}\(?\(?\s*+(?:function\b|[\w$, ]*+\)))")
MODULE = re.compile(rf"{_MODULE_NAME}\(?\s*+(?:function\b\s*+[\w$]*+\s*+)?(?=\()")
CALLED = re.compile(r"\s*+\)?\s*+\(")
IMPORT = re.compile(
    r"import\b\s*+(?:[^'\";]{0,4000}?\bfrom\s*+)?\(?['\"]([^'\"\n]*+)"
    r"|export\b\s*+(?:\*|\{|type\b)[^'\";=]{0,4000}?\bfrom\s*+['\"]([^'\"\n]*+)"
)
REQUIRED = re.compile(r"[^;\n]{0,300}?\brequire\s*+\(\s*+['\"]([^'\"\n]*+)")
# An export, unless its value is only a name defined elsewhere.
EXPORTED = re.compile(r"(?:module\.)?exports\.(?!__)")
NO_VALUE = re.compile(r"void 0|exports\.|[\w$.]*+[ \t]*+(?:;|\r?\n|\Z)")
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]{2,}")
BRACE = re.compile(r"\s*+\{")
SIGNATURE_END = re.compile(r"[{};=\n]")
_INNER = r"<(?:[^<>]++|(?<==)>|<[^<>]*+>)*+>"
GENERICS = re.compile(rf"\s*+<(?:[^<>]++|(?<==)>|{_INNER})*+>")
# Names of test functions that take a title.
TEST = re.compile(
    r"(?:(describe|context|suite)|it|test)(?:\.(?:only|skip|concurrent|serial))?\s*+(?=\()"
    r"\(\s*+(?:['\"]([^'\"\n]++)['\"])?"
)
