"""The command tree: every command, the file it is in, and one line of help."""

from __future__ import annotations

from collections.abc import Iterable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class Entry:
    """One command."""

    __slots__ = ("file", "help", "usage")

    def __init__(self, file: str, usage: str, help: str) -> None:
        self.file = file
        self.usage = usage
        self.help = help


COMMANDS = {
    "init": Entry("store", "", "make the store and its config.json"),
    "push": Entry("relay", "[FILE|-]", "store a file or stdin, print its URL"),
    "pull": Entry("relay", "REF [-o FILE]", "get a body back"),
    "peek": Entry("relay", "REF", "what a ref is, without loading it"),
    "gc": Entry("store", "", "expire what is due, free what nothing holds"),
    "verify": Entry("store", "", "re-derive every hash, follow every reference"),
    "backup": Entry("store", "[-o FILE]", "write the whole store to one file"),
    "restore": Entry("store", "FILE", "fill an empty store from a backup"),
    "doctor": Entry("doctor", "", "is everything all right, and what to do if not"),
    "version": Entry("version", "", "print the version"),
}
GROUPS = {
    "artifact": {
        "put": Entry("artifact", "FILE|-", "store a file for good, print its ref"),
        "get": Entry("artifact", "REF [--out FILE]", "get an artifact's content"),
        "list": Entry("artifact", "", "list artifacts, newest first"),
        "show": Entry("artifact", "REF", "everything about an artifact, with its preview"),
        "pin": Entry("artifact", "REF", "keep an artifact until it is removed"),
        "rm": Entry("artifact", "REF...", "remove artifacts; tombstones stay"),
    },
}


def overview(words: list[str]) -> str:
    """What `relay help` prints."""
    if words and words[0] in GROUPS:
        lines = [f"relay {words[0]} COMMAND", ""]
        lines += _lines((f"{words[0]} {name}", entry) for name, entry in GROUPS[words[0]].items())
        return "\n".join(lines)
    lines = [
        "Context Relay: store content once, pass small refs.",
        "",
        "relay COMMAND [OPTIONS]",
        "",
    ]
    lines += _lines(COMMANDS.items())
    for group, commands in GROUPS.items():
        lines += ["", *_lines((f"{group} {name}", entry) for name, entry in commands.items())]
    lines += [
        "",
        "REF is a ref, its first six characters or more, a URL that ends in /pull/<ref>, or @last.",
        "relay COMMAND --help tells more. --json works everywhere.",
    ]
    return "\n".join(lines)


def _lines(entries: Iterable[tuple[str, Entry]]) -> list[str]:
    return [f"  {f'{name} {entry.usage}':32} {entry.help}" for name, entry in entries]


def close_to(word: str, known: Mapping[str, object], group: str = "") -> str:
    """The next step after a word that is no command."""
    from difflib import get_close_matches

    close = get_close_matches(word, known, 1, 0.5)
    start = f"relay {group} " if group else "relay "
    return f"did you mean: {start}{close[0]}" if close else f"see: relay help {group}".rstrip()
