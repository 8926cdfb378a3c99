"""An artifact on the page: pieces of it, never the whole; where it is from; what is gone."""

from __future__ import annotations

import pytest

from contextrelay import Relay
from tests.web.reader import Reader

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


def test_lines_come_two_hundred_at_a_time(page: Reader, relay: Relay) -> None:
    """Promise U3. Promise L4: a large body never reaches the browser whole."""
    ref = relay.push("".join(f"line {n}\n" for n in range(1, 10_001)), name="long.txt").ref

    first = page.open(f"/ui/a/{ref}")
    second = page.open(next(link for link in first.links if "line=201" in link))

    assert "line 200" in first.texts
    assert "line 201" not in first.texts
    assert "line 201" in second.texts
    assert "line 199" not in second.texts


def test_a_body_is_searched_by_pattern_and_by_words(page: Reader, relay: Relay) -> None:
    """Promise U3. Promise L4."""
    ref = relay.push("alpha\nbeta (1)\nship the release\n", name="a.txt").ref

    fixed = page.json(f"/ui/a/{ref}.json?view=grep&pattern=(1)")["found"]
    pattern = page.json(f"/ui/a/{ref}.json?view=grep&pattern=^al&regex=on")["found"]
    words = page.open(f"/ui/a/{ref}?view=search&words=release")

    assert [each["line"] for each in fixed["matches"]] == [2]
    assert [each["line"] for each in pattern["matches"]] == [1]
    assert "<mark>release</mark>" in words.html


def test_json_is_a_tree_and_a_table_has_rows(page: Reader, relay: Relay) -> None:
    """Promise U3."""
    tree = relay.push('{"a": {"b": [1, {"c": "deep"}]}}', name="x.json").ref
    table = relay.push("name,age\nann,3\nbob,4\n", name="t.csv").ref

    assert page.json(f"/ui/a/{tree}.json?pointer=/a/b/1")["value"] == {"c": "deep"}
    assert "deep" in page.open(f"/ui/a/{tree}").text
    assert page.json(f"/ui/a/{table}.json?row=1&columns=age")["rows"] == [["4"]]
    assert "bob" in page.open(f"/ui/a/{table}").texts


def test_somebodys_html_goes_only_into_a_frame_in_which_nothing_runs(
    page: Reader, relay: Relay
) -> None:
    """Promise Z2."""
    ref = relay.push("<h1>hi</h1><script>alert(1)</script>", name="x.html").ref

    shown = page.open(f"/ui/a/{ref}")
    framed = page.web.get(f"/ui/a/{ref}/frame")

    assert "<script>alert" not in shown.html
    assert f'<iframe sandbox src="/ui/a/{ref}/frame"' in shown.html
    assert framed.headers["content-security-policy"].startswith("sandbox; default-src 'none'")


def test_a_picture_is_an_image_that_can_do_nothing(page: Reader, relay: Relay) -> None:
    """Promise Z2."""
    png = relay.push(PNG, name="dot.png").ref
    svg = relay.push(
        '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        name="x.svg",
        media_type="image/svg+xml",
    ).ref

    for ref in (png, svg):
        assert f'<img class="body" src="/ui/a/{ref}/image"' in page.open(f"/ui/a/{ref}").html
        sent = page.web.get(f"/ui/a/{ref}/image")
        assert sent.headers["content-security-policy"].startswith("sandbox; default-src 'none'")
    assert page.web.get(f"/ui/a/{png}/image").content == PNG


def test_markdown_is_rendered_without_anything_of_theirs_and_has_its_source(
    page: Reader, relay: Relay
) -> None:
    """Promise U3. Promise Z2: no HTML, no pictures, no links to this page."""
    text = (
        "# Plan\n\n**bold** <script>alert(1)</script>\n\n![x](http://evil.example/x.png)"
        " [run](javascript:alert(1)) [out](/ui/leave) [site](https://site.example/)\n"
    )
    ref = relay.push(text, name="plan.md").ref

    shown, source = page.open(f"/ui/a/{ref}"), page.open(f"/ui/a/{ref}?view=lines")

    assert "<h1>Plan</h1>" in shown.html
    assert "<strong>bold</strong>" in shown.html
    assert "<script>alert" not in shown.html
    assert shown.tags.count("img") == page.open("/ui/threads").tags.count("img")
    assert [link for link in shown.links if "javascript" in link or "leave" in link] == []
    assert "https://site.example/" in shown.links
    assert "# Plan" in source.texts


def test_two_artifacts_are_compared(page: Reader, relay: Relay) -> None:
    """Promise U3."""
    old, new = (relay.push(text, name="a.txt").ref for text in ("one\ntwo\n", "one\nthree\n"))

    listed = page.open(f"/ui/a/{new}?view=diff")
    shown = page.open(next(link for link in listed.links if f"other={old}" in link))

    assert "+three" in shown.texts
    assert "-two" in shown.texts


def test_what_is_gone_says_so_with_what_is_known_of_it(page: Reader, relay: Relay) -> None:
    """Promise U3: a tombstone, and what to do."""
    ref = relay.push("short lived", name="gone.txt").ref
    relay.remove(ref)

    shown = page.open(f"/ui/a/{ref}")

    assert shown.status == 410
    assert "Gone" in shown.text


def test_an_artifact_is_pinned_and_let_go(page: Reader, relay: Relay) -> None:
    """Promise U3."""
    ref = relay.push("keep me").ref

    page.send(page.open(f"/ui/a/{ref}").form("/pin"))
    pinned = relay.peek(ref).expires_at
    page.send(page.open(f"/ui/a/{ref}").form("/unpin"))

    assert pinned is None
    assert relay.peek(ref).expires_at is not None


def test_of_a_sealed_body_only_sealed_bytes_are_sent(page: Reader, relay: Relay) -> None:
    """Promise Z2: the key is for the browser alone."""
    pushed = relay.push("top secret", name="s.txt", seal=True)

    shown = page.open(f"/ui/a/{pushed.ref}")
    sent = page.web.get(f"/ui/a/{pushed.ref}/sealed").content

    assert "top secret" not in shown.html
    assert b"top secret" not in sent
    assert sent.startswith(b"\x89relayk2")


@pytest.mark.parametrize("view", ["lines", "preview", "hex", "grep", "search", "diff"])
def test_one_line_of_five_megabytes_is_cut(page: Reader, relay: Relay, view: str) -> None:
    """Promise U3: hostile content does not fill a browser."""
    ref = relay.push("x" * 5_000_000, name="line.txt").ref

    shown = page.open(f"/ui/a/{ref}?view={view}&pattern=x&words=x")

    assert shown.status == 200
    assert len(shown.html) < 1_000_000
