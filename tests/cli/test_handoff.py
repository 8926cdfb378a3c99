"""handoff and context on the command line: from one agent to another, under a budget."""

from __future__ import annotations

import zipfile
from pathlib import Path

from tests.cli.shell import Shell
from tests.mcp.connecting import unfenced


def with_thread(shell: Shell) -> None:
    shell.out("thread", "new", "--name", "orders")
    shell.out("state", "add", "fact", "orders live in PostgreSQL")


def test_a_handoff_is_given_and_taken_by_its_ref(shell: Shell) -> None:
    """Promise K7."""
    with_thread(shell)
    spec = shell.out("push", "-", "--name", "spec.md", stdin=b"# Spec\n\n## Orders\n").strip()
    give = ("handoff", "give", "--from", "planner", "--to", "coder", "--ask", "write it")

    ref = shell.out(*give, "--ref", spec, "--budget", "300").strip()

    assert shell.out("handoff", "list", "--to", "coder", "--open").strip() == ref
    taken = shell.out("handoff", "accept", ref[:8], "--by", "coder")
    assert unfenced(taken).startswith("[HANDOFF] from planner to coder\n\nwrite it\n")
    assert "Fact: note: orders live in PostgreSQL" in taken
    assert "## Orders" in taken
    assert "accepted by coder" in shell.out("handoff", "list", human=True)
    result = shell.out("handoff", "return", ref, "-", "--by", "coder", stdin=b"done").strip()
    assert shell.out("pull", result) == "done"
    assert "returned" in shell.out("handoff", "list", human=True)


def test_show_why_explains_what_is_in_it_and_what_is_not(shell: Shell) -> None:
    """Promise K7: why."""
    with_thread(shell)
    shell.out("context", "add", "-", stdin=b"a long note about nothing " * 60)
    ref = shell.out("handoff", "give", "--to", "b", "--ask", "PostgreSQL?", "--budget", "120")

    text = shell.out("handoff", "show", ref.strip(), "--why")

    assert "facts/f1  kept: relevance" in text
    assert "dropped: no room" in text
    assert "relay get " in text


def test_a_handoff_file_works_in_another_store(shell: Shell, tmp_path: Path) -> None:
    """Promise K7: by file; the receiver sees the same bytes."""
    with_thread(shell)
    spec = shell.out("push", "-", "--name", "spec.md", stdin=b"# Spec\n").strip()
    give = ("handoff", "give", "--to", "coder", "--ask", "go", "--ref", spec, "--file", "h.zip")
    ref = shell.out(*give).strip()
    there = Shell(tmp_path / "there")
    there.home.mkdir()

    text = there.json("handoff", "accept", str(tmp_path / "h.zip"))

    assert zipfile.ZipFile(tmp_path / "h.zip").read("handoff.json").decode() == shell.out(
        "pull", ref
    )
    assert text["view"]["handoff"]["ask"] == "go"
    assert there.out("pull", next(iter(text["refs"].values()))) == "# Spec\n"


def test_a_context_is_packed_scored_shown_and_pruned(shell: Shell) -> None:
    """Promises K3, K5: within the budget, with reasons; what is pruned stays to be got."""
    with_thread(shell)
    refs = [
        shell.out("context", "add", f"note {number}: " + "words " * 40, "--group", "g").strip()
        for number in range(6)
    ]

    packed = shell.run("context", "pack", "postgresql", "--budget", "100")
    pruned = shell.json("context", "prune", "postgresql", "--budget", "200")["pruned"]

    assert b"orders live in PostgreSQL" in packed.stdout
    assert b"of 100 tokens (o200k_base)" in packed.stderr
    assert shell.out("context", "score", "postgresql").splitlines()[0].split()[3] == "facts/f1"
    assert pruned
    assert {each["ref"] for each in pruned} < set(refs)
    left = shell.json("context", "show")
    assert len(left) == 7 - len(pruned)
    assert shell.out("pull", pruned[0]["ref"]).startswith("note ")


def test_a_package_goes_to_another_thread_by_file(shell: Shell) -> None:
    """Promise K1: JSON and protobuf."""
    with_thread(shell)
    shell.out("context", "add", "say it in French", "--type", "user", "--group", "talk")

    for form in ("json", "protobuf"):
        shell.out("context", "export", "--format", form, "--out", f"package.{form}")
        shell.out("thread", "new", "--name", form)
        assert len(shell.out("context", "import", f"package.{form}").split()) == 2

        kept = {block["content"]: block for block in shell.json("context", "show")}

        assert kept["say it in French"]["type"] == "USER"
        assert kept["say it in French"]["group"] == "talk"
        assert "Fact: note: orders live in PostgreSQL" in kept
        shell.out("thread", "show", "orders")
