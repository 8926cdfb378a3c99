"""cap list, invoke, purge: what can be done by name, done, and its cached results."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, by, one_of, pair, takes, thread_option
from contextrelay.documents.values import is_object, read_json
from contextrelay.errors import Invalid
from contextrelay.limits import ARGS_BYTES_MAX
from contextrelay.model.capability import Capability


def cap_list(args: Namespace, console: Console) -> None:
    """List what can be invoked by name, and the arguments each takes."""
    listing = console.relay.capabilities()
    lines = [line for each in listing.capabilities for line in _about(each)]
    names = "\n".join(each.name for each in listing.capabilities)
    console.answer(listing, lines, names)
    for problem in listing.problems:
        console.note(f"note: {display.clean(problem)}")


def _about(capability: Capability) -> list[str]:
    kept = "not cached"
    if capability.cacheable:
        kept = f"cached {display.span(capability.cache_ttl_s)}"
        if capability.cache_hits:
            kept += f", {display.count(capability.cache_hits, 'hit')}"
    return [
        f"{capability.name:20} {display.clean(capability.description)}",
        f"{'':20} takes {_takes(capability.args_schema)} · {kept}",
    ]


def _takes(schema: dict[str, Any]) -> str:
    """The names of arguments; those that may be left out in brackets."""
    properties, required = schema.get("properties", {}), schema.get("required", ())
    names = [each if each in required else f"[{each}]" for each in properties]
    if schema.get("additionalProperties", True):
        names.append("...")
    return display.clean(" ".join(names)) or "nothing"


@takes(
    arg("name", metavar="NAME"),
    one_of(
        arg("--json", dest="document", metavar="ARGS", help="the arguments as JSON"),
        arg(
            "--arg",
            dest="pairs",
            action="append",
            type=pair,
            metavar="K=V",
            help="one argument; V is JSON, or else text",
        ),
    ),
    thread_option("put the result into a thread; else RELAY_THREAD, else into none"),
    arg("--fresh", action="store_true", help="run it though a result is cached"),
    by("who invokes it"),
)
def cap_invoke(args: Namespace, console: Console) -> None:
    """Run a capability, or take its cached result; the whole result is an artifact.

    In a thread each counts as a hop, cached or not. The answer as JSON: relay --json cap invoke ...
    """
    chosen = thread_argument.thread_if_named(console, args, with_variable=True)
    thread = None if chosen is None else chosen.thread.id
    with console.busy("invoking"):
        invoked = console.relay.invoke(args.name, _args(args), thread, args.by, not args.fresh)
    how = "cached" if invoked.cache_hit else f"{invoked.duration_ms:,} ms"
    size = display.size(invoked.preview.size_bytes)
    cut = " (cut)" if invoked.preview.truncated else ""
    ref = display.short(invoked.artifact_ref)
    lines = [
        f"{ref}  {invoked.capability}  {how}  {size}    whole: relay pull {ref}",
        f"--- preview{cut}",
        invoked.preview.text.rstrip("\n"),
    ]
    console.answer(invoked, lines, invoked.artifact_ref)


def _args(args: Namespace) -> dict[str, Any]:
    if args.document is not None:
        document = read_json(args.document, "--json", ARGS_BYTES_MAX)
        if not is_object(document):
            raise Invalid(
                "--json is no JSON object", """write it like --json '{"query": "tokens"}'"""
            )
        return document
    given: dict[str, Any] = {}
    for key, value in args.pairs or ():
        if key in given:
            raise Invalid(f"--arg {display.clean(key)} is given twice", "give a list with --json")
        given[key] = _value(value)
    return given


def _value(text: str) -> Any:
    """10 is a number, true is true, and what is no JSON is text."""
    try:
        return read_json(text, "--arg", ARGS_BYTES_MAX)
    except Invalid:
        return text


@takes(arg("name", nargs="?", metavar="NAME", help="only those of one capability"))
def cap_purge(args: Namespace, console: Console) -> None:
    """Forget cached results; the artifacts stay as long as they would have."""
    purged = console.relay.purge_cache(args.name)
    results = display.count(purged.entries, "cached result")
    console.answer(purged, f"forgot {results}", str(purged.entries))
