"""The command tree: every command with its module and help line, and functions to look one up."""

from __future__ import annotations

from contextrelay.errors import Invalid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class CommandEntry:
    """The module, usage and help line of a command.

    If `takes_json` is true, the command has an option --json that takes a JSON document, so JSON
    output needs `relay --json COMMAND`.
    """

    __slots__ = ("file", "help", "takes_json", "usage")

    def __init__(self, file: str, usage: str, help: str, takes_json: bool = False) -> None:
        self.file = file
        self.usage = usage
        self.help = help
        self.takes_json = takes_json


COMMANDS = {
    "demo": CommandEntry(
        "demo.commands", "[--clean|--show-code]", "Run a demo offline, without a key"
    ),
    "ask": CommandEntry(
        "runs.commands.ask", "WORDS [-m PROVIDER]", 'Ask a model on a thread (short: relay "WORDS")'
    ),
    "run": CommandEntry(
        "runs.commands.ask", "--user TEXT|- [-t THREAD]", "Ask a model from a script"
    ),
    "chat": CommandEntry("runs.commands.ask", "[-m PROVIDER]", "Chat with a model on a thread"),
    "use": CommandEntry("cli.commands.thread", "[THREAD|-]", "Show or choose the current thread"),
    "init": CommandEntry("cli.commands.store", "", "Create the store and its config.json"),
    "push": CommandEntry(
        "cli.commands.push_pull", "[FILE|-]", "Store a file or stdin, print its URL"
    ),
    "pull": CommandEntry("cli.commands.push_pull", "REF [-o FILE]", "Print or save a stored body"),
    "peek": CommandEntry(
        "cli.commands.push_pull", "REF", "Describe a ref without loading its body"
    ),
    "get": CommandEntry(
        "cli.commands.get",
        "REF --lines A:B|--grep RE",
        "Print a part of an artifact: lines, rows, outline",
    ),
    "grep": CommandEntry(
        "cli.commands.get", "PATTERN [REF]", "Search the content by regular expression"
    ),
    "diff": CommandEntry("cli.commands.get", "OLD NEW", "Compare two refs"),
    "search": CommandEntry(
        "cli.commands.search",
        "QUERY [-t THREAD|--ref REF]",
        "Search the content by words, best passages first",
    ),
    "exec": CommandEntry(
        "runs.commands.wrap", "-- CMD", "Run a command, store its output, print a digest"
    ),
    "subscribe": CommandEntry(
        "cli.commands.channels", "CHANNEL [--exec CMD]", "Subscribe to a channel"
    ),
    "publish": CommandEntry(
        "cli.commands.channels", "CHANNEL MESSAGE", "Send a message to a channel"
    ),
    "channels": CommandEntry("cli.commands.channels", "", "List channels"),
    "wait": CommandEntry(
        "cli.commands.channels", "CHANNEL [--since SEQ]", "Wait for the next signals of a channel"
    ),
    "serve": CommandEntry("server.commands", "[--port N]", "Run an HTTP server"),
    "ui": CommandEntry("web.commands", "[--no-open]", "Open the web page in a browser"),
    "mcp": CommandEntry("server.commands", "[--tools NAMES]", "Run an MCP server (stdio)"),
    "events": CommandEntry("cli.commands.events", "[THREAD]", "List the events of a thread"),
    "tail": CommandEntry("cli.commands.events", "[THREAD]", "Follow the events of a thread"),
    "trace": CommandEntry(
        "runs.commands.trace", "[THREAD] [--html|--otlp FILE]", "Show the model runs of a thread"
    ),
    "replay": CommandEntry(
        "runs.commands.trace",
        "[THREAD] [--from vN] [-m MODEL]",
        "Replay the model runs in a copy of the thread",
    ),
    "checkpoint": CommandEntry(
        "cli.commands.events", "LABEL", "Label the current version of a thread"
    ),
    "stats": CommandEntry("report.commands", "[THREAD]", "Show token savings and costs"),
    "report": CommandEntry(
        "report.commands", "[THREAD]", "Write a report of a thread (md, json, html)"
    ),
    "export": CommandEntry(
        "cli.commands.export_import", "[THREAD] [-o FILE]", "Export a thread to a zip file"
    ),
    "import": CommandEntry(
        "cli.commands.export_import", "FILE [--name NAME]", "Import a thread from a zip file"
    ),
    "gc": CommandEntry("cli.commands.store", "", "Delete expired artifacts, free unused bodies"),
    "verify": CommandEntry("cli.commands.store", "", "Check every hash and reference of the store"),
    "backup": CommandEntry("cli.commands.store", "[-o FILE]", "Back up the store to one file"),
    "restore": CommandEntry("cli.commands.store", "FILE", "Restore a backup into an empty store"),
    "migrate": CommandEntry(
        "cli.commands.migrate", "FROM TO [--verify]", "Copy a store to another engine"
    ),
    "doctor": CommandEntry("cli.commands.doctor", "", "Check the installation and the store"),
    "prime": CommandEntry("project.commands", "[--budget N]", "Print instructions for an agent"),
    "completion": CommandEntry(
        "cli.commands.completion", "bash|zsh|fish", "Print the completion script of a shell"
    ),
    "version": CommandEntry("cli.commands.version", "", "Print the version"),
}
GROUPS = {
    "thread": {
        "new": CommandEntry(
            "cli.commands.thread", "[--name NAME]", "Create a thread, print its id"
        ),
        "list": CommandEntry(
            "cli.commands.thread", "", "List threads, newest first (alias: relay runs)"
        ),
        "show": CommandEntry(
            "cli.commands.thread", "[THREAD]", "Show a thread (alias: relay show)"
        ),
        "fork": CommandEntry(
            "cli.commands.thread", "THREAD[@vN]", "Create a thread from the state of another"
        ),
        "close": CommandEntry(
            "cli.commands.thread", "[THREAD]", "Close a thread; it stays readable"
        ),
        "rm": CommandEntry("cli.commands.thread", "THREAD", "Delete a thread and its artifacts"),
        "files": CommandEntry(
            "cli.commands.thread", "[THREAD]", "Write the readable files of a thread"
        ),
    },
    "state": {
        "header": CommandEntry(
            "cli.commands.state",
            "[THREAD[@vN]]",
            "Print the size-limited state header for a prompt",
        ),
        "show": CommandEntry(
            "cli.commands.state", "[THREAD][@vN][:/PATH]", "Print a state, or one value in it"
        ),
        "patch": CommandEntry(
            "cli.commands.state", "--json P | --file F | -", "Change a state by JSON Patch", True
        ),
        "diff": CommandEntry("cli.commands.state", "vA [vB]", "Compare two versions of a state"),
        "log": CommandEntry(
            "cli.commands.state", "[THREAD]", "List the versions of a state: time, author, change"
        ),
        "restore": CommandEntry(
            "cli.commands.state", "vN", "Restore an earlier version of a state"
        ),
        "add": CommandEntry(
            "cli.commands.state_entries",
            "fact|... TEXT",
            "Add a fact, constraint, question, step or decision",
        ),
        "resolve": CommandEntry(
            "cli.commands.state_entries", "ID", "Resolve a question or complete a step"
        ),
        "compact": CommandEntry(
            "cli.commands.state", "[THREAD]", "Shorten the lists of a state that grow automatically"
        ),
        "adopt": CommandEntry(
            "cli.commands.state", "[THREAD]", "Import a manual edit of state.json"
        ),
    },
    "artifact": {
        "put": CommandEntry(
            "cli.commands.artifact", "FILE|-", "Store a file permanently, print its ref"
        ),
        "get": CommandEntry(
            "cli.commands.artifact", "REF [--out FILE]", "Print or save the content of an artifact"
        ),
        "list": CommandEntry(
            "cli.commands.artifact",
            "[--name N --type T --since 7d]",
            "List artifacts, newest first",
        ),
        "show": CommandEntry("cli.commands.artifact", "REF", "Show an artifact with its preview"),
        "pin": CommandEntry(
            "cli.commands.artifact", "REF", "Pin an artifact so that it does not expire"
        ),
        "unpin": CommandEntry(
            "cli.commands.artifact", "REF [--ttl TIME]", "Unpin an artifact so that it can expire"
        ),
        "extend": CommandEntry(
            "cli.commands.artifact", "REF TIME", "Set the expiry of an artifact"
        ),
        "rm": CommandEntry(
            "cli.commands.artifact", "REF...", "Delete artifacts; tombstones remain"
        ),
    },
    "context": {
        "add": CommandEntry(
            "cli.commands.context", "[TEXT]", "Add a block to the context of a thread"
        ),
        "pack": CommandEntry(
            "cli.commands.context",
            "[QUERY] [--budget N]",
            "Pack the most relevant blocks into a budget",
        ),
        "score": CommandEntry("cli.commands.context", "QUERY", "Score each block against a query"),
        "show": CommandEntry("cli.commands.context", "", "List the blocks and their tokens"),
        "prune": CommandEntry(
            "cli.commands.context", "[QUERY] [--budget N]", "Remove the least relevant blocks"
        ),
        "export": CommandEntry(
            "cli.commands.context",
            "[QUERY] [-o FILE]",
            "Export a context package for other programs",
        ),
        "import": CommandEntry(
            "cli.commands.context", "FILE", "Import the blocks of a context package"
        ),
    },
    "handoff": {
        "give": CommandEntry(
            "cli.commands.handoff", "--to AGENT --ask TEXT", "Hand a thread to another agent"
        ),
        "accept": CommandEntry("cli.commands.handoff", "REF|FILE", "Accept a handoff and print it"),
        "return": CommandEntry(
            "cli.commands.handoff", "REF [FILE]", "Return the result of a handoff"
        ),
        "list": CommandEntry("cli.commands.handoff", "[--to AGENT]", "List handoffs, newest first"),
        "show": CommandEntry(
            "cli.commands.handoff", "REF [--why]", "Show a handoff without accepting it"
        ),
    },
    "cap": {
        "list": CommandEntry("cli.commands.cap", "", "List capabilities"),
        "invoke": CommandEntry(
            "cli.commands.cap",
            "NAME [--arg K=V]",
            "Run a capability, or use its cached result",
            True,
        ),
        "purge": CommandEntry("cli.commands.cap", "[NAME]", "Delete cached results"),
    },
    "bridge": {
        "start": CommandEntry(
            "cli.commands.bridge",
            "[--exec CMD|--tmux S]",
            "Run an agent on the tasks of a channel",
        ),
        "send": CommandEntry(
            "cli.commands.bridge", "TASK... [--wait]", "Send a task to the agent behind a bridge"
        ),
    },
    "a2a": {
        "serve": CommandEntry(
            "server.commands", "[--agent NAME=KIND:WHAT]", "Serve agents over A2A"
        ),
        "card": CommandEntry("a2a.commands", "URL", "Print the card of a remote agent"),
        "send": CommandEntry(
            "a2a.commands", "URL TEXT [--ref REF]", "Send a message to a remote agent"
        ),
    },
    "keys": {
        "new": CommandEntry(
            "cli.commands.keys", "[--scope SCOPE]", "Create a key, print its token once"
        ),
        "list": CommandEntry("cli.commands.keys", "", "List keys"),
        "revoke": CommandEntry("cli.commands.keys", "ID", "Revoke a key"),
        "usage": CommandEntry("cli.commands.keys", "[ID]", "Show the usage of keys"),
    },
    "project": {
        "init": CommandEntry(
            "project.commands", "[FOLDER]", "Create the four project files in a folder"
        ),
        "start": CommandEntry(
            "project.commands",
            "[--budget N] [--agent]",
            "Print the brief for starting without context",
        ),
        "finish": CommandEntry(
            "project.commands", "[OPTIONS|-]", "Write changes to the project files: all or none"
        ),
        "status": CommandEntry("project.commands", "", "Show the state of the project"),
        "next": CommandEntry("project.commands", "", "List the next todos, at most five"),
        "decide": CommandEntry("project.commands", "TITLE", "Append a decision"),
        "decisions": CommandEntry("project.commands", "[ADR]", "List the decisions, or print one"),
        "note": CommandEntry("project.commands", "TEXT", "Add a line to the notes"),
        "doctor": CommandEntry("project.commands", "", "Check the project files and suggest fixes"),
        "restore": CommandEntry(
            "project.commands", "vN", "Restore the project files of an earlier version"
        ),
        "heartbeat": CommandEntry(
            "project.commands", "[--exec CMD]", "Work on the next todos (for cron)"
        ),
    },
    "project todo": {
        "add": CommandEntry("project.commands", "TITLE", "Add a todo, print its id"),
        "start": CommandEntry("project.commands", "TODO [NOTE]", "Start a todo"),
        "done": CommandEntry("project.commands", "TODO [NOTE]", "Complete a todo"),
        "block": CommandEntry("project.commands", "TODO [NOTE]", "Block a todo, with a reason"),
        "unblock": CommandEntry("project.commands", "TODO [NOTE]", "Unblock a todo"),
        "cancel": CommandEntry("project.commands", "TODO [NOTE]", "Cancel a todo"),
        "list": CommandEntry("project.commands", "", "List todos"),
        "review": CommandEntry("project.commands", "", "List overdue, stale and stuck todos"),
        "archive": CommandEntry("project.commands", "", "Archive todos completed a week ago"),
    },
    "project task": {
        "give": CommandEntry("project.commands", "TASK", "Add a task for a sub-agent"),
        "take": CommandEntry("project.commands", "[TASK]", "Take a task"),
        "return": CommandEntry("project.commands", "RESULT", "Return the result of a task"),
        "list": CommandEntry("project.commands", "", "List the tasks"),
    },
    "wrap": {
        "run": CommandEntry(
            "runs.commands.wrap", "--cli BIN -- ARGS", "Run an LLM command-line tool on a thread"
        ),
    },
    "pipeline": {
        "run": CommandEntry("pipelines.commands", "FILE [--input K=V]", "Run a pipeline"),
        "validate": CommandEntry("pipelines.commands", "FILE", "Check a pipeline file"),
        "graph": CommandEntry(
            "pipelines.commands", "FILE [--svg|--mermaid]", "Print the graph of a pipeline"
        ),
        "list": CommandEntry("pipelines.commands", "", "List pipeline runs, newest first"),
        "show": CommandEntry("pipelines.commands", "RUN", "Show the steps and results of a run"),
        "resume": CommandEntry("pipelines.commands", "RUN", "Resume an interrupted run"),
        "retry": CommandEntry(
            "pipelines.commands", "RUN STEP", "Run a step and its dependents again"
        ),
        "cancel": CommandEntry("pipelines.commands", "RUN", "Cancel a run and its processes"),
        "approve": CommandEntry("pipelines.commands", "RUN STEP", "Approve a waiting step"),
        "reject": CommandEntry("pipelines.commands", "RUN STEP REASON", "Reject a waiting step"),
    },
    "config": {
        "list": CommandEntry("cli.commands.config", "", "List all settings"),
        "get": CommandEntry("cli.commands.config", "KEY", "Print a setting"),
        "set": CommandEntry("cli.commands.config", "KEY VALUE", "Change a setting"),
        "path": CommandEntry("cli.commands.config", "", "Print the path of config.json"),
    },
}
ALIASES = {"runs": ("thread", "list"), "show": ("thread", "show")}
HELP = ("help", "--help", "-h")
VERSION = ("--version", "-V")
# Options that are also allowed before the command. Each number is the count of words that the
# option takes.
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
# Command words of other tools, each with the `relay` command to suggest.
_LIST = "relay artifact list, or relay thread list"
_REMOVE = "relay artifact rm REF, or relay thread rm THREAD"
OTHER_WORDS = {
    "ls": _LIST,
    "list": _LIST,
    "cat": "relay pull REF, or a part of it: relay get REF --lines 1:50",
    "rm": _REMOVE,
    "del": _REMOVE,
    "delete": _REMOVE,
    "remove": _REMOVE,
    "put": "relay push FILE, or relay artifact put FILE to keep it permanently",
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


def every_command() -> Iterator[tuple[str, CommandEntry]]:
    """Yield each command as it is typed, with its entry, in the order of `relay help`."""
    yield from COMMANDS.items()
    for group, commands in GROUPS.items():
        for name, entry in commands.items():
            yield f"{group} {name}", entry


def grouped(words: list[str]) -> list[str]:
    """Return the words with a nested group, such as `project todo`, joined into one word."""
    first = " ".join(words[:2])
    return [first, *words[2:]] if len(words) > 1 and first in GROUPS else words


def followers(group: str) -> list[str]:
    """Return the names of the commands and nested groups in a group."""
    inside = [each.removeprefix(f"{group} ") for each in GROUPS if each.startswith(f"{group} ")]
    return [*GROUPS[group], *inside]


def leading_options(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words of a command line into the options before the command and the rest.

    Raises:
        Invalid: an option is unknown or has no value.
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
            raise Invalid(f"unknown option {option!r}", hint)
        index += 1 if equals else count
        if index > len(words):
            raise Invalid(f"missing value of {option}", f"use: relay {option} VALUE COMMAND")
    return words[:index], words[index:]


def find_command(words: list[str]) -> tuple[str, CommandEntry, list[str]]:
    """Return the name of the command, its entry and the remaining words.

    Raises:
        Invalid: the command is unknown.
    """
    words = grouped(words)
    if words[0] in COMMANDS:
        return words[0], COMMANDS[words[0]], words[1:]
    if words[0] not in GROUPS:
        known = [*COMMANDS, *GROUPS, *ALIASES]
        hint = f"use: {OTHER_WORDS[words[0]]}" if words[0] in OTHER_WORDS else ""
        hint = hint or _suggested(words[0], known) + _as_words(words[0], known)
        raise Invalid(f"unknown command {words[0]!r}", hint)
    group, commands = words[0], GROUPS[words[0]]
    if len(words) > 1 and words[1] in commands:
        return f"{group} {words[1]}", commands[words[1]], words[2:]
    if len(words) > 1 and not words[1].startswith("-"):
        meant = next((each for each in SYNONYMS.get(words[1], ()) if each in commands), "")
        hint = f"use: relay {group} {meant}" if meant else ""
        raise Invalid(
            f"unknown command {words[1]!r} of relay {group}",
            hint or _suggested(words[1], followers(group), group),
        )
    raise Invalid(
        f"missing command: relay {group} needs one of {', '.join(followers(group))}",
        f"see: relay help {group}",
    )


def overview(group: str = "") -> str:
    """Return the output of `relay help` or `relay help GROUP`."""
    if group:
        lines = [f"relay {group} COMMAND", ""]
        for each in GROUPS:
            if f"{each} ".startswith(f"{group} "):
                lines += _lines((f"{each} {name}", entry) for name, entry in GROUPS[each].items())
        return "\n".join([*lines, "", f"relay {group} COMMAND --help prints details."])
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
        "THREAD is an id, its first six characters or more, or a name. Default: RELAY_THREAD,",
        "then the last thread used in this folder.",
        "The store is set by --store or --url, CONTEXTRELAY_URL or RELAY_HOME; default: ~/.relay.",
        "Use http://HOST:PORT for a server, and CONTEXTRELAY_API_KEY for its key.",
        "relay COMMAND --help prints details. Every command takes --json.",
    ]
    return "\n".join(lines)


def _lines(entries: Iterable[tuple[str, CommandEntry]]) -> list[str]:
    return [f"  {f'{name} {entry.usage}':36} {entry.help}" for name, entry in entries]


def _suggested(word: str, known: list[str], group: str = "") -> str:
    """Return the hint for an unknown command: the most similar command, or the command that prints
    help.
    """
    from difflib import get_close_matches

    # A typing error must not suggest a command that cannot be undone.
    close = get_close_matches(word, [each for each in known if each != "rm"], 1, 0.5)
    start = f"relay {group} " if group else "relay "
    return f"did you mean: {start}{close[0]}" if close else f"see: relay help {group}".rstrip()


def _as_words(word: str, known: list[str]) -> str:
    """Return a hint to use `relay ask`, or "" if the word looks like a misspelled command."""
    from difflib import get_close_matches

    is_typo = not word.isalpha() or get_close_matches(word, known, 1, 0.75)
    return "" if is_typo else f"; to ask a model: relay ask {word}"


def close_option(typed: str, known: Iterable[str]) -> str | None:
    """Return the known option most similar to the typed option, or None."""
    from difflib import get_close_matches

    names = [option[2:] for option in known if option.startswith("--")]
    return next((f"--{name}" for name in get_close_matches(typed.lstrip("-"), names, 1)), None)
