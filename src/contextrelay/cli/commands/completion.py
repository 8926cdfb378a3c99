"""completion: shell scripts that call `relay __complete` for the words that can come next.

Rule: completion changes nothing and never fails. It does not create a store, and waits at most one
second for a server. If a shell could read a name as code, completion offers the id instead.
"""

from __future__ import annotations

import re
from argparse import Action, Namespace
from collections.abc import Iterator
from itertools import pairwise

from contextrelay.cli import display
from contextrelay.cli.command_table import (
    ALIASES,
    COMMANDS,
    GLOBAL_OPTIONS,
    GROUPS,
    find_command,
    followers,
    grouped,
    leading_options,
)
from contextrelay.cli.console import Console
from contextrelay.cli.parser import Parser, arg, arguments, command
from contextrelay.errors import RelayError

_LISTED_MAX = 100
_SERVER_S_MAX = 1.0
_PLAIN_WORD = re.compile(r"[\w%+=,./-]+")
_SCRIPTS = {
    "bash": """\
# relay for bash: put this into ~/.bashrc
#   eval "$(relay completion bash)"
COMP_WORDBREAKS=${COMP_WORDBREAKS//@}  # @last is one word
_relay() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("${line%%$'\\t'*}"); done < <(
    "${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _relay relay contextrelay""",
    "zsh": """\
#compdef relay contextrelay
# relay for zsh: put this into ~/.zshrc, after compinit
#   eval "$(relay completion zsh)"
_relay() {
  local -a follow
  follow=(${(f)"$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  follow=(${follow%%$'\\t'*})
  if (( $#follow )); then compadd -- $follow; else _files; fi
}
compdef _relay relay contextrelay""",
    "fish": """\
# relay for fish: put this into ~/.config/fish/completions/relay.fish
#   relay completion fish > ~/.config/fish/completions/relay.fish
function __relay_complete
  set -l words (commandline -opc)
  set -l follow ($words[1] __complete $words[2..] (commandline -ct) 2>/dev/null)
  if set -q follow[1]; printf '%s\\n' $follow
  else; __fish_complete_path (commandline -ct); end
end
complete -c relay -f -a '(__relay_complete)'
complete -c contextrelay -f -a '(__relay_complete)'""",
}


@arguments(arg("shell", choices=tuple(_SCRIPTS)))
def completion(args: Namespace, console: Console) -> None:
    """Print a script that completes commands, options, threads and refs.

    The first lines of the script say how to install it.
    """
    script = _SCRIPTS[args.shell]
    console.answer({"shell": args.shell, "script": script}, script, script)


def candidates(words: list[str], console: Console) -> list[str]:
    """Return the words that can replace the last word, each followed by a tab and a description."""
    *before, current = words or [""]
    found = dict(_candidates(before, current, console))
    return [f"{word}\t{help}" for word, help in found.items() if word.startswith(current)]


def _candidates(before: list[str], current: str, console: Console) -> Iterator[tuple[str, str]]:
    for word, value in pairwise([*before, current]):
        if word in ("--store", "--url"):
            console.store = value
    try:
        _, words = leading_options(before)
        words = grouped([*ALIASES.get(words[0], words[:1]), *words[1:]]) if words else []
        if not words and current.startswith("-"):
            yield from dict.fromkeys(GLOBAL_OPTIONS, "").items()
        elif not words:
            yield from ((name, entry.help) for name, entry in COMMANDS.items())
            yield from ((name, "") for name in (*GROUPS, *ALIASES, "help") if " " not in name)
        elif len(words) == 1 and words[0] in GROUPS:
            entries = GROUPS[words[0]]
            for name in followers(words[0]):
                yield name, entries[name].help if name in entries else ""
        else:
            name, entry, rest = find_command(words)
            yield from _following(command(name, entry)[0], rest, current, console)
    except RelayError:
        return


def _following(
    parser: Parser, words: list[str], current: str, console: Console
) -> Iterator[tuple[str, str]]:
    """Yield the words that can come next, each with its description: values of an option, options,
    or arguments.
    """
    options = {name: each for each in parser.declared for name in each.option_strings}
    places = [each for each in parser.declared if not each.option_strings]
    waiting: Action | None = None
    for word in words:
        if waiting is not None:
            waiting = None
        elif word in options:
            waiting = options[word] if options[word].nargs != 0 else None
        elif not word.startswith("-") and places and places[0].nargs not in ("+", "*"):
            places.pop(0)
    if waiting is not None:
        yield from _values(waiting, console)
    elif current.startswith("-"):
        yield from ((option, each.help or "") for option, each in options.items())
    elif places:
        yield from _values(places[0], console)


def _values(action: Action, console: Console) -> Iterator[tuple[str, str]]:
    """Yield the known values of an argument, each with its description."""
    if action.choices is not None:
        yield from ((str(choice), "") for choice in action.choices)
        return
    metavar = str(action.metavar or "")
    is_thread, is_ref = "THREAD" in metavar, metavar.startswith(("REF", "OLD", "NEW"))
    if not is_thread and not is_ref and metavar != "CHANNEL":
        return
    relay = console.existing_relay(_SERVER_S_MAX)
    if relay is None:
        return
    if is_thread:
        for view in relay.threads(_LISTED_MAX).threads:
            name = view.name or ""
            word = name if _PLAIN_WORD.fullmatch(name) else view.thread_id[:8]
            yield word, display.clean(name) or f"v{view.version}"
    elif is_ref:
        for index, artifact in enumerate(relay.list(_LISTED_MAX).artifacts):
            if index == 0:
                yield "@last", "the last push from here"
            yield artifact.ref[:8], display.clean(artifact.name or artifact.type)
    else:
        for channel in relay.channels(_LISTED_MAX).channels:
            if _PLAIN_WORD.fullmatch(channel.name):
                yield channel.name, ""
