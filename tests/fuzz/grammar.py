"""Hostile bodies by grammar: for each kind of content its own words, in shapes that cost the most.

Rule: a body comes from its seed, number and size alone, so that a failure is told by three numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from msgspec import Struct

Shape = Callable[[Random, int, tuple[bytes, ...]], bytes]


class Kind(Struct, frozen=True):
    """A kind of content: names that mean it, and the words that its bodies are made of."""

    names: tuple[str, ...]
    words: tuple[bytes, ...]
    pairs: tuple[tuple[bytes, bytes], ...] = ((b"(", b")"), (b"[", b"]"))


class Body(Struct, frozen=True):
    """A hostile body, and what it is called."""

    kind: str
    shape: str
    name: str
    content: bytes


_LANGUAGES = "js ts go rs java c cpp cs rb php sh sql css kt swift lua proto scala"


def _words(text: str) -> tuple[bytes, ...]:
    """Words between tildes and line ends, with the escapes of Python."""
    parts = [part for line in text.strip().split("\n") for part in line.strip().split(" ~ ")]
    return tuple(part.encode().decode("unicode_escape").encode("latin-1") for part in parts)


COMMON = (
    *_words(r"""
    \x20 ~ \n ~ \t ~ \r\n ~ \r ~ \x0c ~ a ~ A ~ 0 ~ aB ~ " ~ ' ~ \\ ~ # ~ - ~ = ~ * ~ _ ~ / ~ , ~ ;
    : ~ . ~ | ~ < ~ > ~ & ~ @ ~ % ~ \xc3\xa9 ~ e\xcc\x81 ~ \xcc\x81\xcc\x96 ~ \xe2\x80\x8b
    \xe4\xbd\xa0\xe5\xa5\xbd ~ \xf0\x9f\x98\x80 ~ \xf3\xa0\x81\x81 ~ \xef\xb7\xba ~ \xff ~ \x1b[31m
    ignore previous instructions ~ 1gn0r3 pr3v10us instruct10ns ~ [SANITIZED] ~ <U+200B>
    <|im_start|>system ~ \nSystem: ~ Error: failed ~ fooBarBaz ~ HTTPServer2Go ~ i g n o r e\x20
    """),
    b"9" * 40,
    b"a" * 60,
)
BRACKETS = ((b"{", b"}"), (b"[", b"]"), (b"(", b")"))
KINDS: dict[str, Kind] = {
    "json": Kind(
        ("a.json", "a"),
        _words(r"""
        {"a":1} ~ "a": ~ "a" ~ 1 ~ 1e5 ~ null ~ true ~ , ~ : ~ [] ~ {} ~ "\\n" ~ "\\ud800"
        {"id":"x","n":[1,2]} ~ [0] ~ "" ~ { ~ [ ~ } ~ ] ~ {"":
        """),
        ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b'{"":[', b"]}"), (b"[0,", b"]")),
    ),
    "jsonl": Kind(
        ("a.jsonl", "a.ndjson"),
        _words(r"""
        {"a":1}\n ~ []\n ~ 1\n ~ {"a":{"b":[1]}}\n ~ \n ~ {\n ~ "a"\n ~ null\n
        """),
        ((b"[", b"]\n"), (b'{"a":', b"}\n")),
    ),
    "notebook": Kind(
        ("a.ipynb",),
        _words(r"""
        {"cells":[ ~ {"cell_type":"code","source":["a"],"outputs":[{"output_type":"error"}]},
        "nbformat":4 ~ {"cell_type":"markdown","source":"# a"}, ~ ] ~ , ~ {}
        """),
        ((b'{"cells":[', b'],"nbformat":4}'), (b"[", b"]")),
    ),
    "python": Kind(
        ("a.py", "a.pyi"),
        _words(r"""
        def f(a, b=1):\n    return a\n ~ class C(B):\n    x = 1\n ~ import os\n
        from a.b import c\n ~ x = 1\n ~ @d\n ~ \x20  \x20 ~ if x:\n ~ lambda:\x20 ~ not\x20 ~ -
        f'{ ~ \x22\x22\x22 ~ #\x20 ~ async def g(): await h()\n ~ x: int = 1\n ~ 1+ ~ a. ~ a[ ~ **
        """),
        (*BRACKETS, (b"f(", b")"), (b"x if x else ", b"y")),
    ),
    "code": Kind(
        tuple(f"a.{each}" for each in _LANGUAGES.split()),
        _words(r"""
        function f(a) {\n ~ const f = (a) => {\n ~ class C extends D {\n ~ type A = ~ (
        public static void main(String[] a) {\n ~ func (t *T) Name(a int) error {\n ~ func (
        pub fn f<T>(a: T) -> U {\n ~ impl<T> A for B {\n ~ impl< ~ impl a<
        typedef struct a { int b; } c;\n ~ typedef struct a { ~ #define X 1\n ~ #include <a.h>\n
        import { a } from 'b';\n ~ export default\x20 ~ CREATE TABLE a (b);\n ~ from '
        .a > b { c: d }\n ~ def f\n ~ end\n ~ }\n ~ // x\n ~ /*\x20 ~ *\x20 ~ const A = 1;\n
        public public\x20 ~ f( ~ a b\x20 ~ export\x20 ~ static\x20 ~ const a = ( ~ class\x20
        """),
        (*BRACKETS, (b"<", b">"), (b"class A {\n", b"}\n")),
    ),
    "markdown": Kind(
        ("a.md",),
        _words(r"""
        # a\n ~ ## a b\n ~ ###### x\n ~ a\n===\n ~ a\n---\n ~ ```\n ~ ~~~ py\n ~ - a\n ~ > a\n
        [a](b) ~ ![ ~ ]( ~ **a** ~ | a | b |\n|---|---|\n ~ |--- ~ ---\n ~ #\x20 ~ \x20# ~ # ~ `
        """),
        ((b"[", b"](x)"), (b"> ", b"\n"), (b"**", b"**")),
    ),
    "log": Kind(
        ("a.log",),
        _words(r"""
        2024-01-01T00:00:00Z INFO a=1\n ~ 2024-01-01 00:00:00,123 ERROR x failed\n ~ [error]\x20
        Jan  1 00:00:00 host p[1]: x\n ~ Traceback (most recent call last):\n ~ WARN\x20
        0 errors\x20 ~ level="warn"\x20 ~ /a/b/c\x20 ~ a@b.c\x20 ~ deadbeef1\x20 ~ 1.2.3.4:5\x20
        12345678- ~ at a.b(c)\n ~ ' ~ 0x1f\x20 ~ a.b-c+d ~ abcdef
        """),
    ),
    "tool_output": Kind(
        ("a.txt",),
        _words(r"""
        FAILED a::b - Error\n ~ ok\n ~ \x20 at x (y:1)\n ~ Error: x\n ~ 100%\x20 ~ { ~ [
        <html> ~ diff --git a/b b/b\n ~ a,b\n ~ # a\n ~ no errors\n ~ errors: 0\n
        """),
    ),
    "csv": Kind(
        ("a.csv", "a.tsv"),
        _words(r"""
        a,b,c\n ~ 1,2,3\n ~ , ~ \t ~ ; ~ | ~ " ~ "" ~ "a\n ~ "a,b", ~ 2024-01-01, ~ 1.5, ~ x1,
        \n ~ NA, ~ 1e999, ~ nan, ~ 1_0, ~ ab,
        """),
        ((b'"', b'"'), (b'"",', b",")),
    ),
    "diff": Kind(
        ("a.diff", "a.patch"),
        _words(r"""
        diff --git a/x b/x\n ~ --- a/x\n ~ +++ b/x\n ~ @@ -1,2 +1,2 @@ f\n ~ @@ -1 +1 @@\n
        @@ -1,999999999999 +1,9 @@\n ~ +a\n ~ -a\n ~ \x20a\n ~ \\ No newline\n ~ commit abcdef0\n
        From 0000000000000000000000000000000000000000 x\n ~ Subject: [PATCH] x\n ~ Subject: [PATCH
        new file mode 1\n ~ a/b/ ~ @@ -
        """),
    ),
    "html": Kind(
        ("a.html",),
        _words(r"""
        <div> ~ </div> ~ <h1>a</h1> ~ <h2> ~ <a href='x'>y</a> ~ <a href= ~ <script> ~ </script>
        <style> ~ <svg> ~ <!-- ~ --> ~ <title> ~ <p ~ < ~ > ~ &amp; ~ &# ~ &lt ~ <table> ~ <html>
        <meta name=description content=' ~ <H1\x20 ~ = ~ <a x= ~ <title\x20 ~ <a\x20 ~ a-b
        """),
        ((b"<div>", b"</div>"), (b"<", b">"), (b"<h1>", b"</h1>"), (b"<svg>", b"</svg>")),
    ),
    "email": Kind(
        ("a.eml",),
        _words(r"""
        From: a@b\n ~ To: c@d\n ~ Subject: =?utf-8?q?a?=\n ~ Subject: =? ~ =?utf-8?b?YQ==?=\x20
        Date: x\n ~ Content-Type: multipart/mixed; boundary=x\n ~ name= ~ =? ~ ?=
        Content-Disposition: attachment; filename="a"\n ~ \x20x\n ~ \n ~ --x\n ~ > q\n
        Content-Type: \n\x20 ~ Message-ID: <a>\n ~ From a\n ~ From:\x20
        """),
    ),
    "yaml": Kind(
        ("a.yaml", "a.yml"),
        _words(r"""
        a: 1\n ~ a:\n ~ \x20 b: c\n ~ - a\n ~ - b: c\n ~ &a\x20 ~ *a\n ~ ---\n ~ a b c\x20
        ' :\x20 ~ # x\n ~ :\x20 ~ - - -\x20 ~ ?\x20 ~ |\n ~ {a:\x20 ~ [ ~ \x20\x20
        """),
        ((b"[", b"]"), (b"{a: ", b"}")),
    ),
    "settings": Kind(
        ("a.toml", "a.ini", "a.cfg", "a.env", "a.properties", "a.conf"),
        _words(r"""
        [a]\n ~ [[a.b]]\n ~ a = 1\n ~ a=b\n ~ ; x\n ~ # x\n ~ [ ~ ] ~ = ~ a. ~ a: b\n
        export A=1\n ~ [a ~ \x20\n ~ \x27\x27\x27 ~ " ~ [\x20 ~ ]]
        """),
        ((b"[", b"]"), (b"{a=", b"}")),
    ),
    "xml": Kind(
        ("a.xml", "a.svg"),
        _words(r"""
        <a> ~ </a> ~ <a b='c'> ~ <?xml version='1.0'?>\n ~ <!DOCTYPE a> ~ <a\x20 ~ b= ~ <
        <![CDATA[ ~ ]]> ~ <!-- ~ &a; ~ <!ENTITY a ' ~ <a:b.c-d\x20 ~ > ~ =' ~ a.b:c
        """),
        ((b"<a>", b"</a>"), (b"<a b='", b"'/>"), (b"<!--", b"-->")),
    ),
    "text": Kind(
        ("a.txt", "a.rst", "a", "a.tex"),
        _words(r"""
        word\x20 ~ Sentence one.\x20 ~ \n\n ~ TITLE\n ~ a\n===\n ~ 1. x\n ~ .... ~ ===\n ~ \n\n1.
        Chapter 1 x\n ~ IIIIII ~ 1.1.1.1 ~ _____ ~ \x20\x20 ~ Section x\n ~ 1) ~ 111
        """),
    ),
    "binary": Kind(
        ("a.bin", "a.zip", "a.tar", "a.gz", "a.sqlite"),
        (
            *_words(r"""
            \x00 ~ \xff ~ PK\x03\x04 ~ SQLite format 3\x00 ~ \x7fELF ~ MZ ~ ustar
            \x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x00a
            """),
            b"PK\x01\x02" + bytes(42),
            b"PK\x05\x06" + bytes(18),
            b"a" * 100 + bytes(24) + b"00000000000\0" + bytes(120) + b"ustar" + bytes(250),
        ),
    ),
    "image": Kind(
        ("a.png", "a.jpg", "a.gif", "a.webp"),
        _words(r"""
        \x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR ~ \xff\xd8\xff\xe0\x00\x02 ~ \xff\xd8\xff ~ GIF89a
        \xff\xe1\x00\x00 ~ \xff\xc0\x00\x0b\x08\x00\x01\x00\x01 ~ RIFF\x00\x00\x00\x00WEBP
        \x00 ~ \xff\xe1\x00\x02
        """),
    ),
    "pdf": Kind(
        ("a.pdf",),
        _words(r"""
        %PDF-1.7\n ~ /Type /Page ~ /Type/Page\n ~ 1 0 obj\n ~ endobj\n ~ stream\n ~ \xff ~ << ~ >>
        / ~ \x00
        """),
        ((b"<<", b">>"), (b"[", b"]"), (b"(", b")")),
    ),
}
# What makes a body look like its kind before it turns hostile.
HEADS: dict[str, bytes] = {
    "notebook": b'{"nbformat":4,"cells":',
    "email": b"From: a@b\nTo: c@d\nSubject: x\n",
    "html": b"<!doctype html><html><body>",
    "xml": b"<?xml version='1.0'?>",
    "pdf": b"%PDF-1.7\n",
    "image": b"\x89PNG\r\n\x1a\n",
    "binary": b"PK\x03\x04",
    "diff": b"diff --git a/x b/x\n--- a/x\n+++ b/x\n",
    "python": b"import os\n\n\n",
}


def make(seed: int, number: int, size_bytes: int, kinds: tuple[str, ...] = ()) -> Body:
    """The body of a number: of a kind and a shape, filled up to a size."""
    rng = Random(f"{seed}:{number}:{size_bytes}")
    kind = rng.choice(kinds or tuple(KINDS))
    known = KINDS[kind]
    shape = rng.choice(tuple(SHAPES))
    words = known.words if rng.random() < 0.5 else (*known.words, *COMMON)
    head = HEADS.get(kind, b"") if rng.random() < 0.5 else b""
    if shape == "valid":
        content = _valid(rng, kind, size_bytes) or _repeated(rng, size_bytes, words)
    elif shape == "nested":
        content = head + _nested(rng, size_bytes, words, known.pairs)
    else:
        content = head + SHAPES[shape](rng, size_bytes, words)
    if rng.random() < 0.1:
        content = content[: rng.randrange(1, len(content) + 1)]
    if rng.random() < 0.03 and kind not in ("binary", "image", "pdf"):
        content = content[: size_bytes // 2].decode("utf-8", "replace").encode("utf-16")
    return Body(kind, shape, rng.choice(known.names), content[: 2 * size_bytes])


def _unit(rng: Random, words: tuple[bytes, ...], most: int = 5) -> bytes:
    return b"".join(rng.choices(words, k=rng.randint(1, most)))


def _filled(unit: bytes, size_bytes: int) -> bytes:
    return unit * max(1, size_bytes // max(1, len(unit)))


def _repeated(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """The same few words again and again, with another end."""
    return _unit(rng, words, 2) + _filled(_unit(rng, words), size_bytes) + _unit(rng, words, 2)


def _one_word(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    word = rng.choice(words)
    return rng.choice((b"", _unit(rng, words))) + _filled(word, size_bytes) + _unit(rng, words, 1)


def _one_line(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    return _repeated(rng, size_bytes, words).replace(b"\n", rng.choice((b" ", b"", b",")))


def _numbered(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """Lines that all differ."""
    unit = _unit(rng, words, 3)
    end = rng.choice((b"\n", b" ", b",", b":"))
    count = max(1, size_bytes // (len(unit) + 6))
    return b"".join(b"%b%d%b" % (unit, number, end) for number in range(count))


def _parts(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """A few long runs, one behind the other."""
    count = rng.randint(2, 5)
    return b"".join(_filled(_unit(rng, words, 3), size_bytes // count) for _ in range(count))


def _soup(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """Words in no order, a block of them again and again: random enough, and quickly made."""
    block = b"".join(rng.choices(words, k=2_000))
    return _filled(block, size_bytes) if len(block) < size_bytes else block[:size_bytes]


def _lines(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """Few different lines, many times, in an order that no pattern knows."""
    lines = [_unit(rng, words).replace(b"\n", b"") + b"\n" for _ in range(rng.randint(1, 6))]
    block = b"".join(rng.choices(lines, k=3_000))
    return _filled(block, size_bytes) if len(block) < size_bytes else block[:size_bytes]


def _long_lines(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    count = rng.choice((1, 2, 3, 50))
    line = _filled(_unit(rng, words).replace(b"\n", b"") or b"x", size_bytes // count)
    return (line + b"\n") * count


def _stretched(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """Lines about as long as a pattern is tried on, each a beginning, one word again and again, and
    an end that does not fit: what has a pattern go back has it go back far."""
    length = rng.choice((60, 100, 300, 1_990, 5_000))
    word = rng.choice(words).replace(b"\n", b"") or b"a"
    start, end = _unit(rng, words, 2), rng.choice((b"", b"!", _unit(rng, words, 1)))
    line = start + _filled(word, length - len(start)) + end
    if rng.random() < 0.3:
        return _lettered(rng, size_bytes, (line,))
    return _filled(line + rng.choice((b"\n", b"\n\n")), size_bytes)


def _lettered(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """Lines that all differ, and not in digits."""
    unit = _unit(rng, words, 2)
    count = max(1, size_bytes // (len(unit) + 5))
    names = (number.to_bytes(4).hex().translate(_LETTERS).encode() for number in range(count))
    return b"".join(name[-4:] + unit + b"\n" for name in names)


_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def _blank(rng: Random, size_bytes: int, words: tuple[bytes, ...]) -> bytes:
    """Mostly nothing."""
    sign = rng.choice((b" ", b"\n", b"\t", b"\r", b"\r\n", b" \n", b"\0", b"\xe2\x80\x8b", b"\x0c"))
    return rng.choice((b"", _unit(rng, words))) + _filled(sign, size_bytes) + _unit(rng, words, 1)


def _nested(
    rng: Random, size_bytes: int, words: tuple[bytes, ...], pairs: tuple[tuple[bytes, bytes], ...]
) -> bytes:
    """Brackets: a few levels around much, many levels, or many small nests side by side."""
    before, behind = rng.choice(pairs)
    way = rng.randrange(4)
    if way == 0:
        depth = rng.choice((1, 10, 63, 64, 90, 500))
        return before * depth + _filled(_unit(rng, words), size_bytes) + behind * depth
    if way == 1:
        depth = size_bytes // (len(before) + len(behind))
        return before * depth + rng.choice((b"", b"0", _unit(rng, words))) + behind * depth
    if way == 2:
        return _filled(before, size_bytes)
    depth = rng.choice((1, 2, 3, 10, 65, 150))
    one = before * depth + rng.choice((b"", b"0")) + behind * depth
    apart = rng.choice((b",", b"\n", b"", b" "))
    return rng.choice((b"[", b"", b"{")) + _filled(one + apart, size_bytes) + b"0]"


def _valid(rng: Random, kind: str, size_bytes: int) -> bytes:
    """A body that the parser of its kind takes."""
    if kind == "json":
        return _json(rng, size_bytes)
    if kind == "jsonl":
        line = _json(rng, rng.choice((1, 20, 200, 20_000))).replace(b"\n", b" ") + b"\n"
        return _filled(line, size_bytes)
    if kind == "notebook":
        cell = rng.choice((
            {"cell_type": "code", "source": ["x = 1\n"] * 5, "outputs": []},
            {"cell_type": "markdown", "source": "# a\n" * rng.choice((1, 1_000))},
            {"cell_type": "code", "outputs": [{"output_type": "error", "ename": "E" * 9}] * 3},
            {"cell_type": [1], "source": {"a": 1}},
            [],
        ))  # fmt: skip
        cells = [cell] * max(1, size_bytes // len(json.dumps(cell)))
        return json.dumps({"nbformat": 4, "cells": cells}).encode()
    if kind == "python":
        unit = rng.choice((b"x = 1\n", b"def f(a: int = 1) -> int: pass\n", b"import a.b\n"))
        return rng.choice((b"", b"class C:\n    y = 1\n\n")) + _filled(unit, size_bytes)
    if kind == "csv":
        columns = rng.choice((2, 5, 300, 2_500))
        row = b",".join([rng.choice((b"1", b"a", b"2024-01-01", b'"x ""y"""'))] * columns) + b"\n"
        names = b",".join(b"%b%d" % (rng.choice((b"c", b"")), index) for index in range(columns))
        return names + b"\n" + _filled(row, size_bytes)
    return b""


def _json(rng: Random, size_bytes: int) -> bytes:
    """Valid JSON: wide, deep, of unlike objects, of one long key or text, of many numbers."""
    way = rng.randrange(9)
    count = max(1, size_bytes // 12)
    if way == 0:
        return b"{" + b",".join(b'"k%d":%d' % (each, each) for each in range(count)) + b"}"
    if way == 1:
        return b"[" + b",".join(b'{"k%d":%d}' % (each, each) for each in range(count)) + b"]"
    if way == 2:
        keys = rng.randint(1, 40)
        row = b"{" + b",".join(b'"key%d":%d' % (each, each) for each in range(keys)) + b"}"
        return b"[" + b",".join([row] * max(1, size_bytes // len(row))) + b"]"
    if way == 3:
        depth = rng.choice((5, 12, 60, 400))
        unit = b",".join([rng.choice((b"0", b"[]", b"{}", b'""', b'{"":0}'))] * (count * 3))
        return b"[" * depth + unit + b"]" * depth
    if way == 4:
        key = b"k" * (size_bytes // 2)
        return b'{"' + key + b'":[' + b",".join([b"0"] * (size_bytes // 4)) + b"]}"
    if way == 5:
        return b'["' + rng.choice((b"a", b"\\n", b"\\u00e9", "é😀".encode())) * count + b'"]'
    if way == 6:
        depth = min(300, max(1, size_bytes // 40))
        wide = b",".join(b'"w%d":0' % each for each in range(max(1, size_bytes // 10 // depth)))
        return (b"{" + wide + b',"a":') * depth + b"1" + b"}" * depth
    if way == 7:
        names = [b'"n%d":{"a":1,"b%d":[%d]}' % (each, each, each) for each in range(count // 3 + 1)]
        return b"{" + b",".join(names) + b"}"
    return b"[" + b",".join(b"%d.5e3" % each for each in range(count)) + b"]"


SHAPES: dict[str, Shape] = {
    "repeated": _repeated,
    "one word": _one_word,
    "one line": _one_line,
    "numbered": _numbered,
    "parts": _parts,
    "soup": _soup,
    "lines": _lines,
    "long lines": _long_lines,
    "stretched": _stretched,
    "lettered": _lettered,
    "blank": _blank,
    "nested": lambda rng, size_bytes, words: _nested(rng, size_bytes, words, BRACKETS),
    "valid": _repeated,
}
