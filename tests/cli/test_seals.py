"""push --encrypt, and pull and peek by a URL with a key, in real processes."""

from __future__ import annotations

import os
import re
import signal

import pytest

from contextrelay import Relay
from tests.cli.shell import Shell

SECRET = b"the secret plan: \x00\xff and more\n"
NOTE = "history"


@pytest.mark.parametrize("form", ["", "k1", "k2"])
def test_what_is_pushed_encrypted_comes_back_by_its_url(shell: Shell, form: str) -> None:
    """Promise E4. Promise E1."""
    words = ("--format", form) if form else ()

    url = shell.out("push", "--encrypt", *words, "--meta", "summary=plan", stdin=SECRET).strip()

    mark = "#key=" if form == "k1" else "#k2="
    assert re.fullmatch(rf"relay:///pull/[0-9a-f-]{{36}}{mark}[\w.=-]+", url)
    assert shell.run("pull", "-", stdin=url.encode()).stdout == SECRET
    assert shell.run("pull", "-", "--bytes", "4:10", stdin=url.encode()).stdout == b"secret"
    brief = shell.json("peek", "-", stdin=url.encode())
    assert (brief["summary"], brief["encrypted"], brief["tokens"]) == ("plan", True, None)
    assert shell.json("peek", url, "--full")["preview"]["text"].startswith("[sealed, ")
    with Relay(shell.home / "store") as relay:
        assert relay.pull(url) == SECRET


def test_a_key_in_the_command_is_noted_and_one_on_stdin_is_not(shell: Shell) -> None:
    """Promise E3: keys are kept out of history and lists of processes."""
    url = shell.out("push", "--encrypt", stdin=SECRET).strip()

    typed, piped = shell.run("pull", url), shell.run("pull", "-", stdin=url.encode() + b"\n")

    assert typed.stdout == piped.stdout == SECRET
    assert NOTE in typed.stderr.decode()
    assert piped.stderr == b""
    assert shell.run("pull", "--quiet", url).stderr == b""
    assert url.partition("=")[2] not in typed.stderr.decode()


def test_a_wrong_key_prints_nothing_but_why_and_never_the_key(shell: Shell) -> None:
    """Promise E2. Promise E3."""
    large = os.urandom(300_000)
    url = shell.out("push", "--encrypt", stdin=large).strip()
    bare, _, fragment = url.partition("#")
    other = shell.out("push", "--encrypt", stdin=large).strip().partition("#")[2]
    cases = {
        f"{bare}#{other}": "Failed to decrypt",
        f"{bare}#k2=": "Failed to decrypt",
        f"{url}#{fragment}": "two fragments",
        url.replace(".", "%2E"): "percent-encoded",
        url[:-1]: "Failed to decrypt",
        f"{bare}#key={'A' * 43}=": "Failed to decrypt",
        bare: "no key",
    }

    for given, message in cases.items():
        for words, stdin in (((given,), b""), (("-",), given.encode())):
            code, error = shell.fails("pull", *words, stdin=stdin)
            assert (code, message in error) == (4, True), error
            assert fragment[4:20] not in error
            assert other[4:20] not in error
        code, error = shell.fails("pull", given, "-o", "out")
        assert code == 4
        assert not (shell.home / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("pull", "URL", "URL"),
        ("pull", "https://relay.example/pul/xFRAGMENT"),
        ("pull", "abcFRAGMENT"),
        ("peek", "http://user:pw@relay.example/pull/REFFRAGMENT"),
        ("pull", "URL", "--bytes", "URL"),
        ("artifact", "rm", "x", "URL"),
        ("URL",),
        ("--store", "URL", "peek", "URL"),
        ("--json", "pull", "URL", "URL"),
    ],
)
def test_no_mistake_in_a_command_shows_the_key(shell: Shell, words: tuple[str, ...]) -> None:
    """Promise E3: keys are not in errors."""
    url = shell.out("push", "--encrypt", stdin=SECRET).strip()
    bare, _, fragment = url.partition("#")
    spelled = [
        word.replace("URL", url).replace("FRAGMENT", f"#{fragment}").replace("REF", bare[-36:])
        for word in words
    ]

    done = shell.run(*spelled)

    assert done.returncode != 0
    assert fragment[4:20].encode() not in done.stdout + done.stderr


def test_a_subscriber_without_the_key_hears_of_it_and_goes_on(shell: Shell) -> None:
    """Promise E3: what is heard has no key, and nothing sealed is taken for content."""
    way = ("--pull",)
    shell.out("push", "--encrypt", "--channel", "plans", stdin=SECRET)
    shell.out("push", "--channel", "plans", stdin=b"for all\n")

    with shell.started("subscribe", "plans", "--since", "0", *way) as heard:
        assert heard.line() == "for all"
        _, _, notes = heard.ended(signal.SIGINT)

    assert "is sealed and no key was given" in notes


def test_what_is_sealed_is_looked_into_by_its_url_on_stdin_and_so_says_the_hint(
    shell: Shell,
) -> None:
    """Promise L4: no key is printed to be copied, and what is printed works."""
    body = b"# Plan\n\nWe ship.\n\n## Risks\n\nNone.\n"
    url = shell.out("push", "--encrypt", "--type", "markdown", stdin=body).strip()

    outlined = shell.run("get", "-", "--outline", stdin=url.encode())

    step = next(line for line in outlined.stderr.decode().splitlines() if "next:" in line)
    command = step.split("relay ")[1].partition("  (")[0].split()
    assert command[:2] == ["get", "-"]
    assert "stdin" in step
    assert url.partition("#")[2].encode() not in outlined.stdout + outlined.stderr
    assert b"None." in shell.run(*command, stdin=url.encode()).stdout
    assert shell.out("grep", "ship", "-", stdin=url.encode()) == "3: We ship.\n"


def test_a_search_in_what_is_sealed_is_refused_never_empty(shell: Shell) -> None:
    """Promise L4."""
    url = shell.out("push", "--encrypt", stdin=SECRET).strip()

    for ref in (url, url.partition("#")[0]):
        code, error = shell.fails("search", "plan", "--ref", ref)

        assert (code, "is sealed" in error, "relay grep PATTERN -" in error) == (4, True, True)
