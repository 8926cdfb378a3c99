"""relay get --outline and --digest, and a full peek, as a person or a script uses them."""

from __future__ import annotations

from tests.cli.shell import Shell

CODE = "import os\n\n\nclass Box:\n    def area(self):\n        return 1\n" + "X = 1\n" * 500


def test_the_outline_is_on_stdout_and_its_cost_on_stderr(shell: Shell) -> None:
    """Promises L1, L4, L5."""
    (shell.home / "box.py").write_text(CODE)
    ref = shell.json("push", "box.py")["ref"]

    done = shell.run("get", ref, "--outline")
    text = shell.json("get", ref, "--outline", "--tokens-max", "100")

    assert done.stdout.decode().startswith("Python, 506 lines")
    assert "class Box:4" in done.stdout.decode()
    assert f"next: relay get {ref[:8]} --symbol Box" in done.stderr.decode()
    assert text["spent"]["tokens"] <= 100
    assert shell.out("get", ref, *_words(text["next_args"])).startswith("class Box:")


def _words(args: dict[str, str]) -> list[str]:
    return [word for way, value in args.items() for word in (f"--{way.replace('_', '-')}", value)]


def test_the_digest_is_within_its_budget(shell: Shell) -> None:
    """Promises L4, L6."""
    (shell.home / "box.py").write_text(CODE)
    ref = shell.json("push", "box.py")["ref"]

    text = shell.json("get", ref, "--digest", "--tokens-max", "200")

    assert text["spent"]["tokens"] <= 200
    assert "--- lines" in text["text"]
    assert text["omitted_lines"] > 400


def test_a_full_peek_shows_the_exact_count_and_the_outline(shell: Shell) -> None:
    """Promise R7."""
    (shell.home / "box.py").write_text(CODE)
    ref = shell.json("push", "box.py")["ref"]

    full = shell.json("peek", ref, "--full")

    assert full["token_basis"] == "measured"
    assert full["outline"].startswith("Python, 506 lines")
    assert f"{full['tokens']:,} tok" in shell.out("peek", ref, "--full", human=True)


def test_what_has_no_piece_to_show_proposes_none(shell: Shell) -> None:
    """Promise L1."""
    for body, step in ((b"", ""), (b"\0\1\2", "relay pull")):
        url = shell.out("push", stdin=body).strip()

        shown = shell.run("get", url, "--outline").stderr.decode()

        assert ("next:" in shown, step in shown) == (bool(step), True)
