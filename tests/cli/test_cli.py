"""The command line as a person or a script uses it: real processes, real exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from contextrelay.identity import user_name
from tests.cli.shell import RELAY, Shell


def test_a_file_keeps_its_name_type_and_metadata(shell: Shell) -> None:
    (shell.home / "orders.md").write_text("# Orders\n")

    pushed = shell.json("push", "orders.md", "--meta", "summary=Orders DB schema", "--ttl", "7d")
    peeked = shell.json("peek", pushed["ref"], "--full")

    assert pushed["url"].endswith(pushed["ref"])
    assert (peeked["name"], peeked["type"], peeked["size"]) == ("orders.md", "markdown", 9)
    assert peeked["ttl_s"] == 7 * 86_400
    assert shell.json("peek", pushed["ref"])["summary"] == "Orders DB schema"


@pytest.mark.parametrize("form", ["full", "prefix", "url", "last"])
def test_a_ref_is_taken_in_any_form(shell: Shell, form: str) -> None:
    ref = shell.out("artifact", "put", stdin=b"content").strip()
    spelled = {"full": ref, "prefix": ref[:6], "url": f"relay:///pull/{ref}", "last": "@last"}

    assert shell.run("artifact", "get", spelled[form]).stdout == b"content"


def test_an_unknown_ref_exits_with_3_and_says_what_was_meant(shell: Shell) -> None:
    (shell.home / "spec.md").write_text("x")
    shell.out("push", "spec.md")

    code, error = shell.fails("peek", "spec.mf")

    assert code == 3
    assert "did you mean" in error
    assert "spec.md" in error


def test_what_is_gone_exits_with_4_and_says_when_and_why(shell: Shell) -> None:
    """Promise R6: a ref never dies silently."""
    ref = shell.out("artifact", "put", stdin=b"x").strip()
    shell.out("artifact", "rm", ref)

    code, error = shell.fails("pull", ref)

    assert code == 4
    assert "was removed at" in error


def test_an_error_is_one_json_object_on_stderr_if_json_is_asked_for(shell: Shell) -> None:
    code, error = shell.fails("peek", "00000000-0000-4000-8000-000000000000", "--json")

    assert code == 3
    assert set(json.loads(error)) == {"error", "message", "hint"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["push", "--ttl", "soon", "-"], "invalid time"),
        (["push", "--meta", "novalue", "-"], "not in the form key=value"),
        (["push", "nothing.txt"], "file not found"),
        (["push", "."], "is a folder"),
        (["pull", "@last", "--bytes", "5"], "invalid byte range"),
        (["--store", "ftp://x", "artifact", "list"], "unknown scheme"),
    ],
)
def test_wrong_use_exits_with_2_and_says_what_to_do(
    shell: Shell, words: list[str], says: str
) -> None:
    shell.out("push", "-", stdin=b"something")

    code, error = shell.fails(*words, stdin=b"x")

    assert code == 2
    assert says in error
    assert len(error.splitlines()) >= 2


def test_a_name_that_is_no_utf_8_is_refused(shell: Shell) -> None:
    """Promise Z3."""
    name = os.fsencode(str(shell.home)) + b"/bad\xff.txt"
    Path(os.fsdecode(name)).write_text("x")

    code, error = shell.fails("push", os.fsdecode(name))

    assert code == 2
    assert "--name" in error or "name" in error
    assert shell.json("artifact", "list")["artifacts"] == []


def test_pull_to_a_file_is_whole_or_absent_and_replaces_a_link(shell: Shell) -> None:
    """Promise Z4."""
    ref = shell.out("artifact", "put", stdin=b"content").strip()
    (shell.home / "precious").write_text("precious")
    (shell.home / "link").symlink_to("precious")

    shell.out("pull", ref, "-o", "link")
    code, _ = shell.fails("pull", "00000000-0000-4000-8000-000000000000", "-o", "absent")

    assert (shell.home / "link").read_text() == "content"
    assert (shell.home / "precious").read_text() == "precious"
    assert code == 3
    assert sorted(path.name for path in shell.home.iterdir()) == ["link", "precious", "store"]


def test_output_to_a_pipe_or_a_device_does_not_replace_it(shell: Shell) -> None:
    ref = shell.out("artifact", "put", stdin=b"content").strip()
    pipe = shell.home / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)

    shell.out("pull", ref, "-o", "pipe")

    assert reader.communicate(timeout=60)[0] == b"content"
    assert pipe.is_fifo()


def test_the_store_is_made_listed_swept_verified_backed_up_and_restored(shell: Shell) -> None:
    """Promises G1, G3."""
    assert shell.out("init").strip() == str(shell.home / "store")
    assert (shell.home / "store" / "config.json").exists()
    refs = [shell.out("artifact", "put", stdin=b"%d" % n).strip() for n in range(3)]

    assert sorted(shell.out("artifact", "list").split()) == sorted(refs)
    assert shell.json("gc")["is_done"]
    assert shell.json("verify")["problem_count"] == 0
    backup = shell.out("backup").strip()
    shell.out("--store", "other", "restore", backup)
    assert shell.run("--store", "other", "pull", refs[1]).stdout == b"1"
    assert shell.run("--store", "other", "restore", backup).returncode == 5


def test_verify_exits_with_1_and_names_what_is_damaged(shell: Shell) -> None:
    ref = shell.out("artifact", "put", stdin=os.urandom(100_000)).strip()
    (blob,) = (shell.home / "store" / "blobs").glob("*-*")
    blob.write_bytes(b"other bytes")

    done = shell.run("verify")

    assert done.returncode == 1
    assert ref.encode() in done.stdout
    assert shell.run("pull", ref).returncode == 1


def test_doctor_shows_a_broken_store_and_exits_with_2(shell: Shell) -> None:
    (shell.home / "store").mkdir()
    (shell.home / "store" / "relay.db").write_text("this is no database, whatever it says" * 50)

    done = shell.run("doctor")

    assert done.returncode == 2
    assert b"relay.db" in done.stdout
    assert b"next:" in done.stdout


def test_ctrl_c_leaves_nothing_half_done(shell: Shell) -> None:
    shell.out("init")
    process = subprocess.Popen(
        [*RELAY, "push", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shell.env,
        cwd=shell.home,
    )
    assert process.stdin is not None
    process.stdin.write(bytes(400_000))
    process.stdin.flush()
    blobs = shell.home / "store" / "blobs"
    while not list(blobs.glob("*.draft")):
        assert process.poll() is None

    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)

    assert process.returncode == 130
    assert b"Traceback" not in error
    assert not list(blobs.glob("*.draft"))
    assert shell.json("artifact", "list")["artifacts"] == []


def test_a_reader_that_goes_away_is_no_error_worth_a_traceback(shell: Shell) -> None:
    ref = shell.out("artifact", "put", stdin=bytes(5_000_000)).strip()

    done = subprocess.run(
        ["bash", "-c", f"{' '.join(RELAY)} pull {ref} | head -c 10"],
        capture_output=True,
        env=shell.env,
        timeout=60,
    )

    assert done.stdout == bytes(10)
    assert done.stderr == b""


def test_output_that_cannot_be_written_is_reported_without_a_traceback(shell: Shell) -> None:
    shell.out("push", stdin=b"x")

    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*RELAY, "artifact", "list"], stdout=full, stderr=subprocess.PIPE, env=shell.env
        )

    assert done.returncode == 1
    assert b"cannot write the output" in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_error_of_the_file_system_is_not_said_to_be_one_of_the_output(shell: Shell) -> None:
    """A folder that was removed while the shell is in it."""
    gone = shell.home.parent / "gone"
    gone.mkdir()
    words = [*RELAY, "project", "init", "orders"]

    done = subprocess.run(
        ["bash", "-c", 'rmdir "$PWD"; exec "$@"', "bash", *words],
        cwd=gone,
        capture_output=True,
        env=shell.env,
        timeout=60,
    )

    assert done.returncode != 0
    assert b"No such file or directory" in done.stderr
    assert b"cannot write the output" not in done.stderr
    assert b"Traceback" not in done.stderr


def test_version_imports_next_to_nothing() -> None:
    code = (
        "import sys; from contextrelay.cli.main import run; run(['version']);"
        "print(sorted(m for m in sys.modules if m.startswith('contextrelay')));"
        "print(sorted(set(sys.modules) & {'msgspec', 'sqlite3', 'typing', 'asyncio', 'hashlib'}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    _, ours, heavy = done.stdout.splitlines()

    assert ours == str(
        sorted(
            [
                "contextrelay",
                "contextrelay.cli",
                "contextrelay.cli.commands",
                "contextrelay.cli.commands.version",
                "contextrelay.cli.terminal",
                "contextrelay.cli.console",
                "contextrelay.cli.main",
                "contextrelay.cli.parser",
                "contextrelay.cli.command_table",
                "contextrelay.errors",
                "contextrelay.limits",
            ]
        )
    )
    assert heavy == "[]"


def test_an_artifact_is_pinned_unpinned_and_extended(shell: Shell) -> None:
    ref = shell.out("artifact", "put", "-", stdin=b"notes").strip()

    assert shell.json("artifact", "unpin", ref)["ttl_s"] == 86_400
    assert shell.json("artifact", "extend", ref, "7d")["ttl_s"] == 7 * 86_400
    assert shell.json("artifact", "extend", ref, "1h")["ttl_s"] == 7 * 86_400
    assert shell.json("artifact", "pin", ref)["expires_at"] is None
    assert shell.json("artifact", "unpin", ref, "--ttl", "2h")["ttl_s"] == 7_200
    assert shell.fails("artifact", "extend", ref, "never")[0] == 2


def test_artifacts_are_listed_by_name_type_time_and_thread(shell: Shell) -> None:
    shell.out("thread", "new", "--name", "orders")
    spec = shell.out("artifact", "put", "-", "--name", "Spec.md", stdin=b"# spec").strip()
    held = ("artifact", "put", "-", "--name", "spec2.md", "-t", "orders")
    other = shell.out(*held, stdin=b"# more").strip()
    data = shell.out("artifact", "put", "-", "--type", "json", stdin=b"{}").strip()

    def listed(*words: str) -> list[str]:
        return shell.out("artifact", "list", *words).split()

    assert listed("--name", "SPEC") == [other, spec]
    assert listed("--name", "spec", "--limit", "1") == [other]
    assert listed("--type", "json") == [data]
    assert listed("--thread", "orders", "--name", "spec") == [other]
    assert listed("--thread", "orders", "--type", "json") == []
    assert listed("--since", "1h") == [data, other, spec]
    assert listed("--since", "2999-01-01") == []
    assert shell.fails("artifact", "list", "--since", "soon")[0] == 2
    code, error = shell.fails("artifact", "list", "--since", "2026")
    assert (code, "2026-01-01" in error) == (2, True)
    assert shell.fails("artifact", "list", "--since", "202605")[0] == 2
    assert listed("--since", "29990101") == []


def test_peek_as_json_has_what_people_are_shown(shell: Shell) -> None:
    """Promise R7: and none of its maker's metadata passes for ours."""
    ref = shell.out(
        "artifact", "put", "-", "--meta", "summary=two", "--meta", "size=0", stdin=b"ab"
    )

    brief = shell.json("peek", ref.strip())

    assert brief.items() >= {"summary": "two", "type": "text", "size": 2, "tokens": 1}.items()
    assert (
        brief.items() >= {"created_by": user_name(), "expires_at": None, "encrypted": False}.items()
    )
