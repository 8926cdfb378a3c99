"""completion: scripts with which a shell completes commands and options, made from the parsers.

Rule: a script is static. Completing starts no Python, and so costs nothing.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from shlex import quote

from msgspec import Struct

from contextrelay.doors.cli.command_table import ALIASES, COMMANDS, GROUPS, every_command, followers
from contextrelay.doors.cli.console import Console
from contextrelay.doors.cli.parser import arg, command, takes


class Completed(Struct, frozen=True):
    """What can follow a command."""

    name: str
    help: str
    options: dict[str, str]
    """Each option, and what it means."""
    choices: dict[str, list[str]]
    """What can follow an option, or "" for the command itself, where that is known."""


@takes(arg("shell", choices=("bash", "zsh", "fish")))
def completion(args: Namespace, console: Console) -> None:
    """Print a script that completes commands and options; see its first lines for how to use it."""
    commands = list(_completed())
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    script = "\n".join(writers[args.shell](commands))
    console.answer({"shell": args.shell, "script": script}, script, script)


def _completed() -> Iterator[Completed]:
    words = {name: [name] for name, _ in every_command()}
    for alias, target in ALIASES.items():
        words[" ".join(target)].append(alias)
    for name, entry in every_command():
        parser, _ = command(name, entry)
        options: dict[str, str] = {}
        choices: dict[str, list[str]] = {}
        for action in parser.declared:
            options |= dict.fromkeys(action.option_strings, action.help or "")
            if action.choices is not None:
                values = [str(choice) for choice in action.choices]
                choices |= dict.fromkeys(action.option_strings or [""], values)
        for spelled in words[name]:
            yield Completed(spelled, entry.help, options, choices)


def _first_words() -> list[str]:
    groups = (group for group in GROUPS if " " not in group)
    return sorted({*COMMANDS, *groups, *ALIASES, "help"})


def _bash(commands: list[Completed]) -> Iterator[str]:
    yield "# relay for bash: put this into ~/.bashrc"
    yield '#   eval "$(relay completion bash)"'
    yield "_relay() {"
    yield "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}"
    yield "  local word command= options= words= skip= index"
    yield "  for ((index = 1; index < COMP_CWORD; index++)); do"
    yield "    word=${COMP_WORDS[index]}"
    yield "    if [[ $skip ]]; then skip=; continue; fi"
    yield "    case $word in --store|--url|--thread|-t) skip=1; continue;; -*) continue;; esac"
    yield "    if [[ -z $command ]]; then command=$word"
    groups = "|".join(GROUPS).replace(" ", "\\ ")
    yield f'    elif [[ $command =~ ^({groups})$ ]]; then command="$command $word"; fi'
    yield "  done"
    yield '  case "$command" in'
    yield f"    '') words={quote(' '.join(_first_words()))}; options='--json --quiet --store';;"
    for group in GROUPS:
        yield f"    {quote(group)}) words={quote(' '.join(followers(group)))};;"
    for each in commands:
        yield f"    {quote(each.name)})"
        yield f"      options={quote(' '.join(each.options))}"
        if "" in each.choices:
            yield f"      words={quote(' '.join(each.choices['']))}"
        for option, values in each.choices.items():
            if option:
                yield (
                    f"      [[ $previous == {option} ]] && "
                    f"{{ words={quote(' '.join(values))}; options=; }}"
                )
        yield "      ;;"
    yield "  esac"
    yield "  [[ $current == -* ]] && words= || options="
    yield '  COMPREPLY=($(compgen -W "$words $options" -- "$current"))'
    yield "}"
    yield "complete -o default -F _relay relay contextrelay"


def _zsh(commands: list[Completed]) -> Iterator[str]:
    yield "#compdef relay contextrelay"
    yield "# relay for zsh: put this into ~/.zshrc, after compinit"
    yield '#   eval "$(relay completion zsh)"'
    yield "_relay() {"
    yield "  local word command= skip= previous=${words[CURRENT-1]}"
    yield "  local -a options follow"
    yield "  for word in ${words[2,CURRENT-1]}; do"
    yield "    if [[ -n $skip ]]; then skip=; continue; fi"
    yield "    case $word in (--store|--url|--thread|-t) skip=1; continue;; (-*) continue;; esac"
    yield "    if [[ -z $command ]]; then command=$word"
    groups = "|".join(map(quote, GROUPS))
    yield f'    elif [[ $command == ({groups}) ]]; then command="$command $word"; fi'
    yield "  done"
    yield "  case $command in"
    yield f"    ('') follow=({' '.join(_first_words())}); options=(--json --quiet --store);;"
    for group in GROUPS:
        yield f"    ({quote(group)}) follow=({' '.join(followers(group))});;"
    for each in commands:
        yield f"    ({quote(each.name)})"
        yield f"      options=({' '.join(each.options)})"
        if "" in each.choices:
            yield f"      follow=({' '.join(each.choices[''])})"
        for option, values in each.choices.items():
            if option:
                yield f"      [[ $previous == {option} ]] && follow=({' '.join(values)})"
        yield "      ;;"
    yield "  esac"
    yield "  if [[ ${words[CURRENT]} == -* ]]; then compadd -- $options"
    yield "  elif (( $#follow )); then compadd -- $follow"
    yield "  else _files; fi"
    yield "}"
    yield "compdef _relay relay contextrelay"


def _fish(commands: list[Completed]) -> Iterator[str]:
    yield "# relay for fish: put this into ~/.config/fish/completions/relay.fish"
    yield "#   relay completion fish > ~/.config/fish/completions/relay.fish"
    yield "function __relay_words"
    yield "  set -l skip"
    yield "  for word in (commandline -opc)[2..]"
    yield "    if set -q skip[1]; set -e skip; continue; end"
    yield "    switch $word"
    yield "      case --store --url --thread -t; set skip 1"
    yield "      case '-*'"
    yield "      case '*'; echo $word"
    yield "    end"
    yield "  end"
    yield "end"
    yield "function __relay_is"
    yield "  set -l words (__relay_words)"
    yield '  set -l first (string join " " -- $words[1..(count $argv)]); test "$first" = "$argv"'
    yield "end"
    yield "function __relay_at"
    yield "  set -l words (__relay_words)"
    yield '  test "$words" = "$argv"'
    yield "end"
    for word in _first_words():
        yield f"complete -c relay -f -n '__relay_at' -a {word}"
    for group, entries in GROUPS.items():
        for name, entry in entries.items():
            at = f"-n '__relay_at {group}'"
            yield f"complete -c relay -f {at} -a {name} -d {_fish_quoted(entry.help)}"
        for name in followers(group)[len(entries) :]:
            yield f"complete -c relay -f -n '__relay_at {group}' -a {name}"
    for each in commands:
        when = f"-n '__relay_is {each.name}'"
        for option, help in each.options.items():
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
            values = each.choices.get(option)
            given = f" -x -a {_fish_quoted(' '.join(values))}" if values else ""
            yield f"complete -c relay {when} {kind}{given} -d {_fish_quoted(help)}"
        if "" in each.choices:
            yield f"complete -c relay -f {when} -a {_fish_quoted(' '.join(each.choices['']))}"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
