"""get, grep and diff on the command line: the piece on stdout, the rest on stderr."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

TEXT = b"".join(b"line %d\n" % number for number in range(1, 2_001))


@pytest.fixture
def ref(shell: Shell) -> str:
    return shell.out("push", "-", "--name", "lines.txt", stdin=TEXT).strip()


def test_the_piece_is_on_stdout_and_what_it_cost_on_stderr(shell: Shell, ref: str) -> None:
    """Promises L2, L4."""
    done = shell.run("get", ref, "--lines", "5:", "--tokens-max", "20")

    assert done.stdout == b"line 5\nline 6\nline 7\nline 8\nline 9\n"
    cost, left_out, following = done.stderr.decode().splitlines()
    assert cost.startswith("… lines 5:10 · 20 tok of 9,001 (0.2 %)")
    assert left_out == "  left out: lines 10 to 2,000 of 2,000"
    assert shell.out(*following.partition("next: relay ")[2].split()).startswith("line 10\n")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--lines", "2:3"), "line 2\n"),
        (("--grep", "^line 7$", "--context", "1"), "6- line 6\n7: line 7\n8- line 8\n"),
        (("--grep", "line 12", "--count"), "111\n"),
    ],
)
def test_each_option_gives_its_piece(
    shell: Shell, ref: str, options: tuple[str, ...], text: str
) -> None:
    """Promise L4."""
    assert shell.out("get", ref[-36:][:8], *options) == text


def test_json_tables_sections_and_symbols_are_cut_by_their_own_places(shell: Shell) -> None:
    """Promise L2."""
    document = shell.out("push", "-", "--name", "o.json", stdin=b'{"a":[{"id":7}]}').strip()
    table = shell.out("push", "-", "--name", "t.csv", stdin=b"id,city\n0,Oslo\n1,Rome\n").strip()
    prose = shell.out("push", "-", "--name", "p.md", stdin=b"# A\nx\n# B\ny\n").strip()
    code = shell.out("push", "-", "--name", "c.py", stdin=b"def f():\n    return 1\n").strip()

    assert shell.out("get", document, "--json-pointer", "/a/0") == '{"id":7}\n'
    assert shell.out("get", document, "--json-path", "$..id") == "/a/0/id\t7\n"
    assert shell.out("get", table, "--rows", "1:2", "--columns", "city") == "city\nRome\n"
    assert shell.out("get", prose, "--heading", "b") == "# B\ny\n"
    assert shell.out("get", code, "--symbol", "f") == "def f():\n    return 1\n"


def test_a_mistake_gets_the_next_step(shell: Shell, ref: str) -> None:
    code, error = shell.fails("get", ref)
    assert (code, "--outline" in error) == (2, True)
    assert shell.fails("get", ref, "--lines", "1:2", "--bytes", "1:2")[0] == 2
    assert shell.fails("get", ref, "--lines", "x")[0] == 2
    code, error = shell.fails("get", ref, "--grep", r"(a)\1")
    assert (code, "RE2" in error) == (2, True)
    assert shell.fails("get", ref, "--heading", "x")[0] == 2


def test_grep_goes_through_everything_or_a_thread(shell: Shell, ref: str) -> None:
    """Promise L3."""
    thread = shell.out("thread", "new", "--name", "work").strip()
    inside = shell.out("artifact", "put", "-", "-t", thread, "--name", "n.txt", stdin=b"line 7\n")

    everywhere = shell.out("grep", "^line 7$")
    here = shell.out("grep", "^line 7$", "--thread", "work")

    assert here == f"{inside[:8]} n.txt\n1: line 7\n"
    assert everywhere == f"{here}{ref[-36:][:8]} lines.txt\n7: line 7\n"


def test_of_several_patterns_the_best_matches_come_first(shell: Shell, ref: str) -> None:
    """Promise L3: `-e` for each, then the ref alone."""
    short = ref[-36:][:8]

    found = shell.out("grep", "-e", "line 19", "-e", "9$", short, "--matches-max", "2")
    again = shell.out("get", short, "--grep", "line 19", "--grep", "9$", "--matches-max", "2")

    assert found == again == "19: line 19\n199: line 199\n"
    assert shell.fails("grep", "-e", "a", short, "b")[0] == 2
    assert shell.fails("grep")[0] == 2


def test_diff_shows_what_differs(shell: Shell, ref: str) -> None:
    """Promise L3."""
    new = shell.out("push", "-", stdin=TEXT.replace(b"line 9\n", b"LINE 9\n")).strip()

    done = shell.run("diff", ref, new, "--context", "0")

    assert done.stdout.decode().splitlines()[2:] == ["@@ -9 +9 @@", "-line 9", "+LINE 9"]
    assert done.stderr.decode().startswith("… 1 line added, 1 removed · ")
