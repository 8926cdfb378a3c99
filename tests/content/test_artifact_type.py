"""Kinds: the type of an artifact, by media type, by name, by content, never against the bytes."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextrelay.content.artifact_type import (
    MEDIA_TYPE_OF,
    artifact_type,
    extension,
    is_media_type,
)
from contextrelay.limits import HEAD_BYTES_MAX
from contextrelay.model.artifact import ArtifactType

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


@pytest.mark.parametrize(
    ("media_type", "kind"),
    [
        ("Text/HTML; charset=utf-8", "html"),
        ("application/problem+json", "json"),
        ("application/x-something", "text"),
        ("image/svg+xml", "text"),
    ],
)
def test_a_media_type_that_was_given_decides_and_is_kept(media_type: str, kind: str) -> None:
    """Promise A1."""
    assert artifact_type("data.json", media_type, b"# hello", True) == (kind, media_type)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("README.MD", ("markdown", "text/markdown")),
        ("a.tar.json", ("json", "application/json")),
        ("x.py", ("code", "text/x-python")),
        ("x.tsv", ("csv", "text/tab-separated-values")),
        ("server.log", ("log", "text/x-log")),
        ("fix.patch", ("diff", "text/x-diff")),
        ("mail.eml", ("email", "message/rfc822")),
        ("logo.svg", ("text", "image/svg+xml")),
        ("no-extension", ("text", "text/plain")),
        ("photo.png", ("text", "text/plain")),
    ],
)
def test_else_the_name_decides(name: str, expected: tuple[str, str]) -> None:
    """Promise A1."""
    assert artifact_type(name, None, b"some words", True) == expected
    assert artifact_type(name, "application/octet-stream", b"some words", True) == expected


@pytest.mark.parametrize(
    ("text", "kind", "media_type"),
    [
        ("\ufeff  [\n1,\n2]\n", "json", "application/json"),
        ('{"a": 1}\n{"a": 2}\n', "json", "application/x-ndjson"),
        ('{"a": "' + "x" * HEAD_BYTES_MAX, "json", "application/json"),
        ("<!DOCTYPE html>\n<html><body>", "html", "text/html"),
        ("<?xml version='1.0'?><note/>", "text", "application/xml"),
        ("See [this](https://example.org).\n\n- one\n- two\n", "markdown", "text/markdown"),
        ("a\tb\n1\t2\n3\t4\n", "csv", "text/tab-separated-values"),
        ("diff --git a/x b/x\nindex 1..2\n", "diff", "text/x-diff"),
        ("2024-05-01T10:00:00Z INFO up\n" * 4, "log", "text/x-log"),
        ('::1 - - [01/May/2024:10:00:00 +0000] "GET /"\n' * 4, "log", "text/x-log"),
        ("From: a@b.c\nTo: d@e.f\nSubject: hi\n\nHello", "email", "message/rfc822"),
        ("#!/bin/sh\nexit 0\n", "code", "text/x-shellscript"),
        ("import os\n\ndef main():\n    pass\n", "code", "text/x-python"),
        ("#include <stdio.h>\n#define A 1\nint main() {}\n", "code", "text/x-c"),
        ("package main\n\nfunc main() {\n}\n", "code", "text/x-go"),
        ("/* (c)\n" * 60 + "*/\nsize_t n(int a)\n{\nstruct x {\n", "code", "text/x-c"),
        ("/** x */\nexport declare function a(b: T): U;\n", "code", "text/x-typescript"),
        ("const a = 1;\nlet b = {};\n", "code", "text/javascript"),
        ("#include <vector>\nstd::vector<int> a;\n", "code", "text/x-c++"),
        ("package a.b\n\nimport c.d\n\nfun e(f: Int) {\n}\n", "code", "text/x-kotlin"),
        ("require 'a'\n\nmodule B\n  def c\n  end\nend\n", "code", "text/x-ruby"),
        ("a:hover,\n.b {\n  color: red;\n}\n", "code", "text/css"),
        ("<?xml version='1.0'?>\n<!-- a -->\n<svg width='1'/>\n", "text", "image/svg+xml"),
        ("3,4c3\n< a\n< b\n---\n> c\n", "diff", "text/x-diff"),
        ('id,text\n1,"two\nlines"\n2,b\n3,c\n', "csv", "text/csv"),
        ("a,b,c,d,e\n1,2,3,4,5\n1,2,3\n1,2,3,4\n", "csv", "text/csv"),
        ("a,b\r1,2\r3,4\r", "csv", "text/csv"),
        ("---\nShort: 2\nHelp: x y\n---\n\n# A\n\nWords of it.\n", "markdown", "text/markdown"),
        ("# of\n\na.b = 1\nc.d=2 \\\n  3\ne = f\n", "text", "text/x-java-properties"),
        ("[tool]\nname = 'x'\nall = [\n  1,\n]\n", "text", "application/toml"),
        (
            "{{- if .on }}\nkind: A\nmeta:\n  name: {{ .name }}\n{{- end }}\nspec:\n  of: 1\n",
            "text",
            "application/yaml",
        ),
        (
            "<h1>Name</h1>\n\nIt is a thing.\n\n## Use\n\nSo.\n\n## More\n\nAnd [so](a.md).\n",
            "markdown",
            "text/markdown",
        ),
        ("What it does.\n\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n", "diff", "text/x-diff"),
        ('id;"a; b"\n' + '1;"two\nlines"\n' * 40, "csv", "text/csv"),
        ("[[package]]\nname = 'x'\n" * 9_000, "text", "application/toml"),
        ("date,price\n2024-05-01 10:00,1.5\n2024-05-02 10:00,2\n", "csv", "text/csv"),
    ],
)
def test_else_the_content_decides(text: str, kind: str, media_type: str) -> None:
    """Promise A1."""
    head = text.encode()[:HEAD_BYTES_MAX]

    assert artifact_type(None, None, head, True) == (kind, media_type)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1] a footnote\n[2] another",
        "[" * (HEAD_BYTES_MAX - 1),
        "# a comment\n\nkey = 1\n",
        "From: here on, all is well.\nSubject to change.\n",
        "One, two and three,\nfour, five,\nsix, seven.\n",
        "a < b\nc > d\n",
        "%PDF-1.4 in a sentence",
        "ts=1 up=yes\nts=2 up=yes\nts=3 up=no\n",
    ],
)
def test_text_that_could_be_several_things_is_plain_text(text: str) -> None:
    """Promise A1."""
    assert artifact_type(None, None, text.encode(), True) == ("text", "text/plain")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (PNG, ("image", "image/png")),
        (b"\xff\xd8\xff\xe0", ("image", "image/jpeg")),
        (b"GIF89a\0\xff", ("image", "image/gif")),
        (b"RIFF\n\0\xff\0WEBPVP8 ", ("image", "image/webp")),
        (b"%PDF-1.7\n%\xe2\xe3", ("pdf", "application/pdf")),
        (b"\x7fELF\0", ("binary", "application/octet-stream")),
    ],
)
def test_bytes_are_recognised_by_their_magic(head: bytes, expected: tuple[str, str]) -> None:
    """Promise A1."""
    assert artifact_type(None, None, head, False) == expected
    assert artifact_type("notes.md", None, head, False) == expected


TYPES: tuple[ArtifactType, ...] = get_args(ArtifactType)
NAMES = st.none() | st.sampled_from(["a.md", "a.png", "a.pdf", "a.bin", "a.json", "a", "a.", ".b"])
MEDIA_TYPES = st.none() | st.sampled_from([MEDIA_TYPE_OF[kind] for kind in TYPES]) | st.text()


@given(NAMES, MEDIA_TYPES, st.binary(max_size=60), st.booleans())
def test_no_type_contradicts_the_bytes_and_tool_output_is_not_guessed(
    name: str | None, media_type: str | None, head: bytes, is_text: bool
) -> None:
    """Promise A1."""
    kind, decided = artifact_type(name, media_type, head, is_text)

    assert (kind not in {"binary", "image", "pdf"}) is is_text
    assert kind != "tool_output"
    assert is_media_type(decided)


@pytest.mark.parametrize(
    ("kind", "media_type", "expected"),
    [
        ("markdown", "text/markdown; charset=utf-8", ".md"),
        ("json", "application/x-ndjson", ".jsonl"),
        ("json", "application/problem+json", ".json"),
        ("image", "image/jpeg", ".jpg"),
        ("binary", "application/x-unknown", ".bin"),
    ],
)
def test_a_readable_file_gets_a_fitting_extension(
    kind: ArtifactType, media_type: str, expected: str
) -> None:
    """Promise A1."""
    assert extension(kind, media_type) == expected


@pytest.mark.parametrize("kind", TYPES)
def test_every_type_has_a_media_type_and_an_extension(kind: ArtifactType) -> None:
    """Promise A1."""
    assert is_media_type(MEDIA_TYPE_OF[kind])
    assert extension(kind, MEDIA_TYPE_OF[kind]).startswith(".")
