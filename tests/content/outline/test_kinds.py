"""Outlines, kind by kind: what a reader has to find in them."""

from __future__ import annotations

import io
import json
import random
import zipfile

import pytest

from tests.content.outline.drawing import outlined


def test_json_is_outlined_by_keys_types_counts_ranges_and_samples() -> None:
    """Promise L1."""
    users = [
        {"id": number, "name": f"user {number % 3}", "tags": ["a"] * (number % 4), "ok": True}
        for number in range(1, 121)
    ]
    text = outlined(json.dumps({"version": "1.2", "users": users}), "u.json").text

    assert "JSON object" in text
    assert "2 keys" in text
    assert 'version = "1.2"' in text
    assert "users: [120] of {}" in text
    assert "id: int 1..120" in text
    assert '"user 1"' in text
    assert "tags: [0..3]: str" in text


def test_keys_that_differ_in_a_number_and_maps_are_reported_once() -> None:
    """Promise L1."""
    keyed = {f"session_{number}": {"at": number, "who": "x"} for number in range(1, 36)}
    mapped = {word: {"size": 1, "path": word} for word in "abcdefghijklmnop"}

    assert "session_1 .. session_35 (35)" in outlined(json.dumps({**keyed, "z": 1}), "a.json").text
    assert "map of 16 keys: a, b, c" in outlined(json.dumps(mapped), "b.json").text


def test_json_lines_say_which_lines_are_none() -> None:
    """Promise L1."""
    text = outlined('{"a":1}\n{"a":2}\nnot json\n{"a":30}\n', "x.jsonl").text

    assert "3 documents" in text
    assert "lines that are no JSON: 1 (at 3)" in text
    assert "a: int 1..30" in text


def test_broken_json_is_reported_as_far_as_it_can_be_read() -> None:
    """Promise L1."""
    whole = json.dumps({"meta": {"v": 1}, "rows": [{"id": number} for number in range(500)]})
    text = outlined(whole[:3_000], "cut.json").text

    assert "broken, cut or too deep" in text
    assert "meta" in text
    assert "elements read" in text
    assert "id: int 0.." in text


def test_python_is_outlined_by_imports_classes_and_signatures_with_lines() -> None:
    """Promise L1."""
    code = '"""Shapes."""\nimport os\nfrom a.b import c\nLIMIT = 3\n\n\nclass Box(Base):\n'
    code += '    """A box."""\n\n    def area(self, by: int = 2) -> int:\n        return by\n\n\n'
    code += "async def main(*names: str) -> None:\n    pass\n"
    shape = outlined(code, "s.py")

    for answer in ("imports: os, a.b", "class Box(Base):7", "A box.", "LIMIT:4", "Shapes."):
        assert answer in shape.text
    assert "area(self, by: int=2) -> int:10" in shape.text
    assert "main(*names: str) -> None:14" in shape.text
    assert (shape.way, shape.value) == ("symbol", "Box")


def test_markdown_is_outlined_by_headings_and_not_by_what_is_in_code() -> None:
    """Promise L1."""
    body = "---\ntitle: x\n---\n# One\ntext\n\nTwo\n---\n```sh\n# no heading\n```\n### Three *it*\n"
    text = outlined(body, "a.md").text

    assert "3 headings" in text
    for answer in ("# One:4", "## Two:7", "### Three it:12", "code blocks: sh 1"):
        assert answer in text
    assert "no heading" not in text


def test_what_is_in_a_comment_of_markdown_is_no_heading() -> None:
    text = "# Real\n\n<!--\n# Hidden\n```\n-->\n\n<!-- # Short -->\n## Next\n\n" + "Words. " * 500

    shown = outlined(text, "a.md").text

    assert "2 headings" in shown
    assert "# Real:1" in shown
    assert "## Next:9" in shown


def test_a_log_is_outlined_by_templates_times_and_every_kind_of_error() -> None:
    """Promise L1: the only occurrence of an error is not hidden by a thousand others."""
    lot = random.Random(1)
    lines = [
        f"2026-01-05 10:{second // 60:02}:{second % 60:02} INFO request {lot.randrange(9999)} done"
        for second in range(3_000)
    ]
    lines[1_000] = "2026-01-05 10:16:40 ERROR disk /dev/sda is full"
    lines[2_000:2_500] = ["2026-01-05 10:40:00 ERROR timeout after 30 s"] * 500
    text = outlined("\n".join(lines), "a.log").text

    assert "time 2026-01-05 10:00:00 to 2026-01-05 10:49:59" in text
    assert "error lines: 501, 2 kinds" in text
    assert "each line: 2026-01-05 10:00:00 INFO <message>" in text
    assert "1001: 2026-01-05 10:16:40 ERROR disk /dev/sda is full" in text
    assert "2001 x500, last 2500: 2026-01-05 10:40:00 ERROR timeout after 30 s" in text
    assert " 1000: request" in text
    assert "x2499 1: request" in text
    assert "INFO 2499, ERROR 501" in text


def test_names_that_have_error_in_them_are_no_errors() -> None:
    """Promise L1."""
    lines = ["2026-01-05 10:00:00 install libgpg-error-dev", "2026-01-05 10:00:01 0 errors"] * 5

    assert "error lines" not in outlined("\n".join(lines), "a.log").text


def test_a_table_is_outlined_by_columns_types_ranges_and_rows() -> None:
    """Promise L1."""
    rows = "".join(
        f"{number},n{number % 4},{number / 10},2026-01-{number:02}\n" for number in range(1, 29)
    )
    text = outlined(f"id,name,price,day\n{rows}", "a.csv").text

    assert "28 rows, 4 columns" in text
    assert "id: int 1..28" in text
    assert "name: str 4 distinct" in text
    assert "price: float 0.1..2.8" in text
    assert "day: date 2026-01-01..2026-01-28" in text


def test_a_diff_is_outlined_by_files_hunks_and_counts() -> None:
    """Promise L1."""
    body = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n"
    body += "@@ -1,2 +1,3 @@ def f():\n one\n+two\n+three\n-four\n@@ -10 +12 @@\n-x\n+y\n"
    body += (
        "diff --git a/src/b.py b/src/b.py\nnew file mode 100644\n--- /dev/null\n+++ b/src/b.py\n"
    )
    body += "@@ -0,0 +1 @@\n+++i\n"
    text = outlined(body, "c.diff").text

    assert "2 files, 3 hunks, +4 -2" in text
    assert "all in src/" in text
    assert "a.py +3 -2:1 (1-3 def f():, 12)" in text
    assert "b.py new +1 -0" in text


def test_a_page_is_outlined_by_title_headings_and_links() -> None:
    """Promise L1."""
    body = "<!doctype html><title>A &amp; B</title>\n<script>var h='<h1>no</h1>'</script>\n"
    body += "<h1>Top <b>it</b></h1>\n<!-- <h2>no</h2> --><a href='https://x.org/a'>one</a>"
    text = outlined(body, "a.html").text

    assert "title: A & B" in text
    assert "h1 Top it:3" in text
    assert "1 headings, 1 links" in text
    assert "one <https://x.org/a>" in text


def test_mails_notebooks_settings_and_markup_are_reported() -> None:
    """Promise L1."""
    mail = "From: a@x.org\nTo: b@x.org\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\nDate: Mon\n\nHello.\n"
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {
            "cell_type": "code",
            "source": "run()",
            "outputs": [{"output_type": "error", "ename": "KeyError", "evalue": "'x'"}],
        },
    ]
    notebook = json.dumps({"cells": cells, "nbformat": 4, "metadata": {}})

    assert "subject: Grüße" in outlined(mail, "a.eml").text
    assert "!KeyError" in outlined(notebook, "a.json").text
    assert "/cells/0 md # Title" in outlined(notebook, "a.json").text
    assert "server:1" in outlined("server:\n  port: 80\nother: 1\n", "a.yaml").text
    assert "[a.b]:1, c" in outlined("[a.b]\nc = 1\n", "a.toml").text
    assert "root x, 3 elements" in outlined("<?xml version='1.0'?>\n<x><y/><y/></x>", "a.xml").text


def test_plain_text_is_outlined_by_its_headings_or_paragraphs() -> None:
    """Promise L1."""
    titled = "Intro\n=====\n\nSome text.\n\nMore\n----\n\nEnd.\n"

    assert "6: More" in outlined(titled, "a.txt").text
    assert "3: second" in outlined("first\n\nsecond\n\nthird\n", "a.txt").text


def test_bytes_are_outlined_by_kind_size_and_an_archive_by_its_entries() -> None:
    """Promise L1."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/large.txt", "0" * 1_000_000)
        archive.writestr("b.txt", "x")
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4) + (480).to_bytes(4)

    text = outlined(packed.getvalue(), "innocent.txt").text
    assert "zip archive" in text
    assert "a/large.txt 1000000" in text
    assert "640 x 480 pixels" in outlined(png, "a.png").text
    assert "first bytes: 89 50" in outlined(png, "a.png").text


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252"])
def test_text_in_another_encoding_is_outlined_as_the_text_it_is(encoding: str) -> None:
    """Promise L1."""
    text = "# Café\n\nSome words of it.\n\n## Crème brûlée\n\nSugar, cream and eggs.\n" * 5

    shape = outlined(text.encode(encoding), "notes")

    assert shape.kind == "markdown"
    assert "10 headings" in shape.text


def test_what_has_no_name_is_known_by_its_content() -> None:
    """Promise L1."""
    log = "commit " + "a" * 40 + "\nAuthor: A <a@b>\n\n    Say why\n\ndiff --git a/x.py b/x.py\n"
    log += "--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n one\n+two\n"
    yaml = "# how\nservices:\n  web:\n    image: a\n    ports:\n      - 80\n  db:\n    image: b\n"
    toml = "[package]\nname = 1\n\n[package.more]\nsize = 2\nkind = 3\n"
    table = "id,name,at\n" + "".join(f'{n},"a, b",2026-01-05 10:00:00\n' for n in range(9))

    assert outlined(log, "").kind == "diff"
    assert "Say why" in outlined(log, "").text
    assert outlined(yaml, "").kind == "yaml"
    assert outlined(toml, "").kind == "settings"
    assert outlined(table, "").kind == "table"


def test_without_a_name_what_goes_on_behind_a_line_hides_no_kind() -> None:
    """Promise L1: long values of settings, and what stands before a document."""
    properties = "".join(
        f"Part{n}.about=A text \\\nthat goes on: here, \\\nand ends.\n" for n in range(9)
    )
    toml = (
        'title = "x"\nabout = """\nA long text, which\nhas lines.\n"""\n[part]\nsize = 1\nto = 2\n'
    )
    document = "---\nc: somebody\nTitle: a\n---\n# NAME\n\nIt is a text.\n\n# MORE\n\nText.\n"

    assert "9 keys" in outlined(properties, "").text
    assert "[part]:6, size = 1" in outlined(toml, "").text
    assert outlined(document, "").kind == "markdown"


def test_sections_that_repeat_are_shown_once_with_their_keys() -> None:
    """Promise L1."""
    body = "".join(f'[[package]]\nname = "p{n}"\nversion = "{n}"\n\n' for n in range(600))

    text = outlined(body, "a.toml").text

    assert "600 sections, 1200 keys" in text
    assert '[package] x600, lines 1-2397, name = "p0" …, version = "0" …' in text


def test_sections_below_one_name_are_one_kind_where_they_are_many() -> None:
    """Promise L1: thousands of sections, whatever their names are, take a few lines."""
    words = [f"{first}{second}" for first in "abcdefgh" for second in "ijklmnop"]
    numbered = "".join(f"[part.p{n}]\nsize = {n}\n" for n in range(3_000))
    named = "".join(f'[package.{word}]\nversion = "1"\n' for word in words)
    between = "".join(f"[job.{word}.run]\nsteps = 1\n" for word in words)

    text = outlined(f"title = 1\n{numbered}{named}{between}[tool]\nat = 1\n", "a.toml").text

    assert "[part.p0] .. [part.p2999] x3000, lines 2-6000, size = 0 …" in text
    assert "[package.*] (ai, aj, ak, " in text
    assert "x64, lines 6002-6128, version" in text
    assert "[job.ai.run] .. [job.hp.run] x64, lines 6130-6256, steps" in text
    assert "[tool]:6258, at = 1" in text


def test_short_values_of_settings_are_shown() -> None:
    """Promise L1: also of arrays with a line for each entry, and below the second level."""
    toml = outlined('[a]\nwords = [\n  "one",\n  "two",\n]\n' + "# ….\n" * 99, "a.toml").text
    yaml = outlined(
        "on:\n  push:\n    branches: [main]\n    tags:\n      - v1\n      - v2\n" + "# ….\n" * 99,
        "a.yaml",
    ).text

    assert 'words = ["one", "two"]' in toml
    assert "push:2, branches: [main], tags: [v1, v2]" in yaml


def test_what_is_in_a_comment_is_no_element() -> None:
    """Promise L1."""
    text = outlined("<?xml version='1.0'?><all><!-- <old a='1'/> --><new/></all>", "a.xml").text

    assert "2 elements" in text
    assert "old" not in text


def test_lines_that_begin_with_the_same_word_are_one_kind_where_kinds_are_very_many() -> None:
    """Promise L1."""
    words = [f"{first}{last}" for first in "abcdefghijklmnop" for last in "qrstuvwxyz"]
    lines = [f"2026-01-02 10:00:00 {act} {word} of" for act in ("add", "drop") for word in words]

    text = outlined("\n".join(lines), "a.log").text

    assert "x160 1: add * of" in text
    assert "x160 161: drop * of" in text


def test_a_small_object_is_shown_with_its_values() -> None:
    """Promise L1."""
    package = {
        "name": "shop",
        "engines": {"node": ">=18"},
        "files": ["dist", "src"],
        "bin": {"shop": "bin/shop.js", "more": [{"at": 1}]},
        "dependencies": {f"left-pad-{letter}": "^1.0.0" for letter in "abcdefghijklmnopqrst"},
        "long": ["y" * 99] * 9,
    }
    text = outlined(json.dumps(package), "package.json").text

    assert 'engines = {node: ">=18"}, files = ["dist", "src"]' in text
    assert 'bin = {shop: "bin/shop.js", more: [{at: 1}]}' in text
    assert 'dependencies: map of 20 keys: left-pad-a = "^1.0.0", left-pad-b' in text
    assert "engines: {node}" in outlined(json.dumps(package), "package.json", 60).text


def test_fields_that_have_no_room_are_named_at_the_end() -> None:
    """Promise L1: every field has its name in 500 tokens, however deep it is."""
    deep = {
        f"part{chr(97 + n)}": {"type": "object", "properties": {f"deep{chr(97 + n)}": n}}
        for n in range(26)
    }
    other = {f"kind{chr(97 + n)}": [{"inner": {f"last{chr(97 + n)}": n}}] for n in range(26)}
    text = outlined(json.dumps({"a": deep, "b": other}), "schema.json").text

    assert "also: " in text
    for letter in "abcdefghijklmnopqrstuvwxyz":
        assert f"deep{letter}" in text
        assert f"last{letter}" in text


def test_files_of_a_diff_that_have_no_room_are_named_at_the_end() -> None:
    """Promise L1."""
    names = [f"{chr(97 + n % 26)}{chr(97 + n // 26)}.py" for n in range(120)]
    diff = "".join(
        f"--- a/some/far/folder/{name[0]}/{name}\n+++ b/some/far/folder/{name[0]}/{name}\n"
        "@@ -1,1 +1,1 @@\n-a\n+b\n"
        for name in names
    )
    text = outlined(diff, "all.diff").text

    assert "diff, 120 files" in text
    assert all(name in text for name in names)


def test_fields_far_below_are_named_and_not_silently_cut() -> None:
    """Promise L1: nested deeper than an outline goes, it says that something is left out."""
    deep: dict[str, object] = {"deepest": 1}
    for number in range(20):
        deep = {f"level{number}": deep}
    assert "deepest" in outlined(json.dumps({"top": deep}), "a.json").text
    for number in range(40):
        deep = {f"more{number}": deep}

    assert outlined(json.dumps({"top": deep}), "a.json", 4_000).omitted > 0


def test_files_of_a_diff_without_hunks_are_counted_apart() -> None:
    """Promise L1."""
    body = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+y\n"
    body += "diff --git a/b.py b/c.py\nsimilarity index 100%\nrename from b.py\nrename to c.py\n"

    assert "diff, 2 files (1 with hunks), 1 hunks" in outlined(body, "c.diff").text
