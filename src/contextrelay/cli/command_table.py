"""The command tree: every command, its file and its line of help; and how one is found in it."""

from __future__ import annotations

from contextrelay.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Entry:
    """One command. `takes_json`: its own --json brings a document, the answer is `relay --json`."""

    __slots__ = ("file", "help", "takes_json", "usage")

    def __init__(self, file: str, usage: str, help: str, takes_json: bool = False) -> None:
        self.file = file
        self.usage = usage
        self.help = help
        self.takes_json = takes_json


COMMANDS = {
    "demo": Entry(
        "demo.commands", "[--clean|--show-code]", "see it work: offline, no key, in seconds"
    ),
    "ask": Entry(
        "runs.commands.ask", "WORDS [-m PROVIDER]", 'ask a model on a thread (also: relay "WORDS")'
    ),
    "run": Entry("runs.commands.ask", "--user TEXT|- [-t THREAD]", "the same, for scripts"),
    "chat": Entry("runs.commands.ask", "[-m PROVIDER]", "ask again and again"),
    "init": Entry("cli.commands.store", "", "make the store and its config.json"),
    "push": Entry("cli.commands.push_pull", "[FILE|-]", "store a file or stdin, print its URL"),
    "pull": Entry("cli.commands.push_pull", "REF [-o FILE]", "get a body back"),
    "peek": Entry("cli.commands.push_pull", "REF", "what a ref is, without loading it"),
    "get": Entry(
        "cli.commands.get", "REF --lines A:B|--grep RE", "a piece of a ref instead of all of it"
    ),
    "grep": Entry(
        "cli.commands.get", "PATTERN [REF]", "lines that match, in a ref, a thread or everything"
    ),
    "diff": Entry("cli.commands.get", "OLD NEW", "what differs between two refs"),
    "search": Entry(
        "cli.commands.search", "QUERY [-t THREAD|--ref REF]", "passages by words, best first"
    ),
    "exec": Entry(
        "runs.commands.wrap", "-- CMD", "run a command: its output to a ref, a digest to you"
    ),
    "subscribe": Entry(
        "cli.commands.channels", "CHANNEL [--exec CMD]", "hear what is sent to a channel"
    ),
    "publish": Entry("cli.commands.channels", "CHANNEL MESSAGE", "send a message to a channel"),
    "channels": Entry("cli.commands.channels", "", "list channels"),
    "wait": Entry(
        "cli.commands.channels", "CHANNEL [--since SEQ]", "wait for the next signals of a channel"
    ),
    "serve": Entry("server.commands", "[--port N]", "be a relay server, over HTTP"),
    "ui": Entry("web.commands", "[--no-open]", "see it all in a browser: threads, refs, savings"),
    "mcp": Entry(
        "server.commands", "[--tools NAMES]", "be an MCP server, for a coding agent to start"
    ),
    "events": Entry("cli.commands.events", "[THREAD]", "what happened in a thread"),
    "tail": Entry("cli.commands.events", "[THREAD]", "follow what happens in a thread"),
    "trace": Entry(
        "runs.commands.trace", "[THREAD] [--html|--otlp FILE]", "what models did in a thread"
    ),
    "replay": Entry(
        "runs.commands.trace", "[THREAD] [--from vN] [-m MODEL]", "do that again, in a copy of it"
    ),
    "checkpoint": Entry("cli.commands.events", "LABEL", "give the version of now a label"),
    "stats": Entry("report.commands", "[THREAD]", "what refs have saved, and what they cost"),
    "report": Entry("report.commands", "[THREAD]", "a thread to read: md, json or html"),
    "export": Entry(
        "cli.commands.export_import", "[THREAD] [-o FILE]", "write a thread to one zip"
    ),
    "import": Entry(
        "cli.commands.export_import", "FILE [--name NAME]", "make a thread from an exported zip"
    ),
    "gc": Entry("cli.commands.store", "", "expire what is due, free what nothing holds"),
    "verify": Entry("cli.commands.store", "", "re-derive every hash, follow every reference"),
    "backup": Entry("cli.commands.store", "[-o FILE]", "write the whole store to one file"),
    "restore": Entry("cli.commands.store", "FILE", "fill an empty store from a backup"),
    "migrate": Entry(
        "cli.commands.migrate", "FROM TO [--verify]", "move a store to another engine"
    ),
    "doctor": Entry("cli.commands.doctor", "", "is everything all right, and what to do if not"),
    "prime": Entry("project.commands", "[--budget N]", "print instructions for an agent"),
    "completion": Entry(
        "cli.commands.completion", "bash|zsh|fish", "complete what is typed, in a shell"
    ),
    "version": Entry("cli.commands.version", "", "print the version"),
}
GROUPS = {
    "thread": {
        "new": Entry("cli.commands.thread", "[--name NAME]", "make a thread, print its id"),
        "list": Entry("cli.commands.thread", "", "list threads, newest first (also: relay runs)"),
        "show": Entry(
            "cli.commands.thread", "[THREAD]", "a thread as it stands (also: relay show)"
        ),
        "fork": Entry(
            "cli.commands.thread", "THREAD[@vN]", "begin a thread with the state of another"
        ),
        "close": Entry("cli.commands.thread", "[THREAD]", "end a thread: it stays readable"),
        "rm": Entry("cli.commands.thread", "THREAD", "remove a thread and what only it holds"),
        "files": Entry("cli.commands.thread", "[THREAD]", "write the files to read a thread in"),
    },
    "state": {
        "header": Entry(
            "cli.commands.state", "[THREAD[@vN]]", "the bounded view that goes into a prompt"
        ),
        "show": Entry(
            "cli.commands.state", "[THREAD][@vN][:/PATH]", "a whole state, or a place in it"
        ),
        "patch": Entry(
            "cli.commands.state", "--json P | --file F | -", "change a state by JSON Patch", True
        ),
        "diff": Entry("cli.commands.state", "vA [vB]", "what changed between two versions"),
        "log": Entry("cli.commands.state", "[THREAD]", "versions: when, who, what"),
        "restore": Entry("cli.commands.state", "vN", "make an old version the newest"),
        "add": Entry(
            "cli.commands.state_entries",
            "fact|... TEXT",
            "add a fact, constraint, question, step, decision",
        ),
        "resolve": Entry(
            "cli.commands.state_entries", "ID", "a question is resolved, a step is done"
        ),
        "compact": Entry(
            "cli.commands.state", "[THREAD]", "shorten the lists that grow by themselves"
        ),
        "adopt": Entry("cli.commands.state", "[THREAD]", "take in a hand edit of state.json"),
    },
    "artifact": {
        "put": Entry("cli.commands.artifact", "FILE|-", "store a file for good, print its ref"),
        "get": Entry("cli.commands.artifact", "REF [--out FILE]", "get an artifact's content"),
        "list": Entry(
            "cli.commands.artifact",
            "[--name N --type T --since 7d]",
            "list artifacts, newest first",
        ),
        "show": Entry(
            "cli.commands.artifact", "REF", "everything about an artifact, with its preview"
        ),
        "pin": Entry("cli.commands.artifact", "REF", "keep an artifact until it is removed"),
        "unpin": Entry(
            "cli.commands.artifact", "REF [--ttl TIME]", "let a pinned artifact expire again"
        ),
        "extend": Entry(
            "cli.commands.artifact", "REF TIME", "let an artifact live so long from now"
        ),
        "rm": Entry("cli.commands.artifact", "REF...", "remove artifacts; tombstones stay"),
    },
    "context": {
        "add": Entry("cli.commands.context", "[TEXT]", "add a block to a thread's context"),
        "pack": Entry("cli.commands.context", "[QUERY] [--budget N]", "what goes into a window"),
        "score": Entry("cli.commands.context", "QUERY", "how much each block says to a query"),
        "show": Entry("cli.commands.context", "", "every block, and what each takes"),
        "prune": Entry(
            "cli.commands.context", "[QUERY] [--budget N]", "take the least relevant out"
        ),
        "export": Entry(
            "cli.commands.context", "[QUERY] [-o FILE]", "a package for other programs"
        ),
        "import": Entry("cli.commands.context", "FILE", "add the blocks of a package"),
    },
    "handoff": {
        "give": Entry(
            "cli.commands.handoff", "--to AGENT --ask TEXT", "hand a thread to another agent"
        ),
        "accept": Entry("cli.commands.handoff", "REF|FILE", "take a handoff, print what it says"),
        "return": Entry("cli.commands.handoff", "REF [FILE]", "give back what came of it"),
        "list": Entry("cli.commands.handoff", "[--to AGENT]", "list handoffs, newest first"),
        "show": Entry("cli.commands.handoff", "REF [--why]", "look at one without taking it"),
    },
    "cap": {
        "list": Entry("cli.commands.cap", "", "what can be invoked by name"),
        "invoke": Entry(
            "cli.commands.cap", "NAME [--arg K=V]", "run one, or take its cached result", True
        ),
        "purge": Entry("cli.commands.cap", "[NAME]", "forget cached results"),
    },
    "bridge": {
        "start": Entry(
            "cli.commands.bridge",
            "[--exec CMD|--tmux S]",
            "work on the tasks that come on a channel",
        ),
        "send": Entry(
            "cli.commands.bridge", "TASK... [--wait]", "give a task to the agent behind a bridge"
        ),
    },
    "a2a": {
        "serve": Entry(
            "server.commands", "[--agent NAME=KIND:WHAT]", "serve agents to other agents, by A2A"
        ),
        "card": Entry("a2a.commands", "URL", "what an agent elsewhere says of itself"),
        "send": Entry(
            "a2a.commands", "URL TEXT [--ref REF]", "send a message to an agent elsewhere"
        ),
    },
    "keys": {
        "new": Entry(
            "cli.commands.keys", "[--scope SCOPE]", "make a key for a server, print its token once"
        ),
        "list": Entry("cli.commands.keys", "", "which keys there are"),
        "revoke": Entry("cli.commands.keys", "ID", "let a key be good no more"),
        "usage": Entry("cli.commands.keys", "[ID]", "what was done with which key"),
    },
    "project": {
        "init": Entry("project.commands", "[FOLDER]", "create the four files of a project"),
        "start": Entry("project.commands", "[--budget N] [--agent]", "print the cold-start brief"),
        "finish": Entry("project.commands", "[OPTIONS|-]", "write all changes or none"),
        "status": Entry("project.commands", "", "show the state of the project"),
        "next": Entry("project.commands", "", "list the next todos, at most five"),
        "decide": Entry("project.commands", "TITLE", "append a decision"),
        "decisions": Entry("project.commands", "[ADR]", "list the decisions, or print one"),
        "note": Entry("project.commands", "TEXT", "add a line to the notes"),
        "doctor": Entry("project.commands", "", "check the files and tell how to fix them"),
        "restore": Entry("project.commands", "vN", "write the files as in an earlier version"),
        "heartbeat": Entry("project.commands", "[--exec CMD]", "work on the next todos (for cron)"),
    },
    "project todo": {
        "add": Entry("project.commands", "TITLE", "add a todo, print its id"),
        "start": Entry("project.commands", "TODO [NOTE]", "start a todo"),
        "done": Entry("project.commands", "TODO [NOTE]", "complete a todo"),
        "block": Entry("project.commands", "TODO [NOTE]", "block a todo, with a reason"),
        "unblock": Entry("project.commands", "TODO [NOTE]", "unblock a todo"),
        "cancel": Entry("project.commands", "TODO [NOTE]", "cancel a todo"),
        "list": Entry("project.commands", "", "list todos"),
        "review": Entry("project.commands", "", "list overdue, stale and stuck todos"),
        "archive": Entry("project.commands", "", "archive todos completed a week ago"),
    },
    "project task": {
        "give": Entry("project.commands", "TASK", "add a task for a sub-agent"),
        "take": Entry("project.commands", "[TASK]", "take a task"),
        "return": Entry("project.commands", "RESULT", "return the result of a task"),
        "list": Entry("project.commands", "", "list the tasks"),
    },
    "wrap": {
        "run": Entry(
            "runs.commands.wrap", "--cli BIN -- ARGS", "an LLM command line works on a thread"
        ),
    },
    "pipeline": {
        "run": Entry(
            "pipelines.commands", "FILE [--input K=V]", "run a pipeline: steps as a graph"
        ),
        "validate": Entry("pipelines.commands", "FILE", "is it right, and if not, where"),
        "graph": Entry("pipelines.commands", "FILE [--svg|--mermaid]", "what comes after what"),
        "list": Entry("pipelines.commands", "", "list runs, newest first"),
        "show": Entry("pipelines.commands", "RUN", "a run: its steps, results and what it took"),
        "resume": Entry("pipelines.commands", "RUN", "go on with a run that was ended"),
        "retry": Entry(
            "pipelines.commands", "RUN STEP", "run a step again, and what depends on it"
        ),
        "cancel": Entry("pipelines.commands", "RUN", "end a run and its children"),
        "approve": Entry("pipelines.commands", "RUN STEP", "let a step that waits go on"),
        "reject": Entry("pipelines.commands", "RUN STEP REASON", "let a step that waits fail"),
    },
    "config": {
        "list": Entry("cli.commands.config", "", "every setting, its value and what it means"),
        "get": Entry("cli.commands.config", "KEY", "one setting"),
        "set": Entry("cli.commands.config", "KEY VALUE", "change a setting"),
        "path": Entry("cli.commands.config", "", "where config.json is"),
    },
}
ALIASES = {"runs": ("thread", "list"), "show": ("thread", "show")}
HELP = ("help", "--help", "-h")
VERSION = ("--version", "-V")
# Options that may stand before the command too, and how many words each takes.
GLOBAL_OPTIONS = {
    "--json": 1,
    "--quiet": 1,
    "-q": 1,
    "--no-color": 1,
    "--store": 2,
    "--url": 2,
    "--thread": 2,
    "-t": 2,
    "--yes": 1,
}
# What people type out of habit, and the commands for it.
_LIST = "relay artifact list, or relay thread list"
_REMOVE = "relay artifact rm REF, or relay thread rm THREAD"
OTHER_WORDS = {
    "ls": _LIST,
    "list": _LIST,
    "cat": "relay pull REF, or a piece of it: relay get REF --lines 1:50",
    "rm": _REMOVE,
    "del": _REMOVE,
    "delete": _REMOVE,
    "remove": _REMOVE,
    "put": "relay push FILE, or relay artifact put FILE to keep it",
    "store": "relay push FILE",
    "new": "relay thread new --name NAME",
    "log": "relay events, or relay state log",
    "info": "relay peek REF",
    "outline": "relay get REF --outline",
    "digest": "relay get REF --digest",
    "slice": "relay get REF --lines 1:50, or --json-pointer, --rows, --heading, --symbol",
    "pack": "relay context pack QUERY --budget N",
}
SYNONYMS = {
    "ls": ("list",),
    "cat": ("get", "show"),
    "info": ("show",),
    **dict.fromkeys(("del", "delete", "remove"), ("rm", "revoke")),
    **dict.fromkeys(("create", "make"), ("new", "put", "add", "init")),
}


def every_command() -> Iterator[tuple[str, Entry]]:
    """All commands as they are typed, in the order of the overview."""
    yield from COMMANDS.items()
    for group, commands in GROUPS.items():
        for name, entry in commands.items():
            yield f"{group} {name}", entry


def grouped(words: list[str]) -> list[str]:
    """Words in which a group of two, such as `project todo`, is one."""
    first = " ".join(words[:2])
    return [first, *words[2:]] if len(words) > 1 and first in GROUPS else words


def followers(group: str) -> list[str]:
    """What can follow a group: its commands, and the groups in it."""
    inside = [each.removeprefix(f"{group} ") for each in GROUPS if each.startswith(f"{group} ")]
    return [*GROUPS[group], *inside]


def leading_options(words: list[str]) -> tuple[list[str], list[str]]:
    """The options before a command, and the words from the command on.

    Raises:
        Invalid: one is unknown, or has no value.
    """
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] in (*HELP, *VERSION):
            break
        option, equals, _ = words[index].partition("=")
        count = GLOBAL_OPTIONS.get(option)
        if count is None or (equals and count == 1):
            meant = close_option(option, GLOBAL_OPTIONS)
            hint = f"did you mean: relay {meant}" if meant else "see: relay help"
            raise Invalid(f"there is no option {option!r}", hint)
        index += 1 if equals else count
        if index > len(words):
            raise Invalid(f"{option} needs a value", f"write: relay {option} VALUE COMMAND")
    return words[:index], words[index:]


def find_command(words: list[str]) -> tuple[str, Entry, list[str]]:
    """The command as it is typed, its entry, and the words left for it.

    Raises:
        Invalid: there is none of that name.
    """
    words = grouped(words)
    if words[0] in COMMANDS:
        return words[0], COMMANDS[words[0]], words[1:]
    if words[0] not in GROUPS:
        known = [*COMMANDS, *GROUPS, *ALIASES]
        hint = f"use: {OTHER_WORDS[words[0]]}" if words[0] in OTHER_WORDS else ""
        hint = hint or _suggested(words[0], known) + _as_words(words[0], known)
        raise Invalid(f"there is no command {words[0]!r}", hint)
    group, commands = words[0], GROUPS[words[0]]
    if len(words) > 1 and words[1] in commands:
        return f"{group} {words[1]}", commands[words[1]], words[2:]
    if len(words) > 1 and not words[1].startswith("-"):
        meant = next((each for each in SYNONYMS.get(words[1], ()) if each in commands), "")
        hint = f"use: relay {group} {meant}" if meant else ""
        raise Invalid(
            f"relay {group} has no {words[1]!r}",
            hint or _suggested(words[1], followers(group), group),
        )
    raise Invalid(
        f"relay {group} needs one of: {', '.join(followers(group))}", f"see: relay help {group}"
    )


def overview(group: str = "") -> str:
    """What `relay help` prints, or `relay help GROUP`, with the groups in it."""
    if group:
        lines = [f"relay {group} COMMAND", ""]
        for each in GROUPS:
            if f"{each} ".startswith(f"{group} "):
                lines += _lines((f"{each} {name}", entry) for name, entry in GROUPS[each].items())
        return "\n".join([*lines, "", f"relay {group} COMMAND --help says more."])
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
        "THREAD is an id, its first six characters or more, or a name; none for RELAY_THREAD, or",
        "else the thread last used in this folder.",
        "The store is that of --store or --url, else of CONTEXTRELAY_URL, else of RELAY_HOME, else",
        "~/.relay; http://HOST:PORT asks a server, with CONTEXTRELAY_API_KEY if that is set.",
        "relay COMMAND --help says more. --json works everywhere.",
    ]
    return "\n".join(lines)


def _lines(entries: Iterable[tuple[str, Entry]]) -> list[str]:
    return [f"  {f'{name} {entry.usage}':36} {entry.help}" for name, entry in entries]


def _suggested(word: str, known: list[str], group: str = "") -> str:
    """The next step after a word that is no command."""
    from difflib import get_close_matches

    # Never what cannot be undone: a typo must not lead there.
    close = get_close_matches(word, [each for each in known if each != "rm"], 1, 0.5)
    start = f"relay {group} " if group else "relay "
    return f"did you mean: {start}{close[0]}" if close else f"see: relay help {group}".rstrip()


def _as_words(word: str, known: list[str]) -> str:
    """How a word is sent to a model, unless it is all but a command."""
    from difflib import get_close_matches

    is_typo = not word.isalpha() or get_close_matches(word, known, 1, 0.75)
    return "" if is_typo else f"; to ask a model: relay ask {word}"


def close_option(typed: str, known: Iterable[str]) -> str | None:
    """The option that is nearly what was typed; the dashes, which all have, do not count."""
    from difflib import get_close_matches

    names = [option[2:] for option in known if option.startswith("--")]
    return next((f"--{name}" for name in get_close_matches(typed.lstrip("-"), names, 1)), None)
