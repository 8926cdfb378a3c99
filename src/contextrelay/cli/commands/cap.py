"""cap list, invoke, purge: list and run capabilities, and delete their cached results."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, author_option, one_of, pair, thread_option
from contextrelay.documents.values import is_object, read_json
from contextrelay.errors import Invalid
from contextrelay.limits import ARGS_BYTES_MAX
from contextrelay.model.capability import Capability


def cap_list(args: Namespace, console: Console) -> None:
    """List the capabilities and the arguments of each."""
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
        f"{'':20} args: {_takes(capability.args_schema)} · {kept}",
    ]


def _takes(schema: dict[str, Any]) -> str:
    """Return the names of the arguments in a JSON Schema. Optional arguments are in brackets."""
    properties, required = schema.get("properties", {}), schema.get("required", ())
    names = [each if each in required else f"[{each}]" for each in properties]
    if schema.get("additionalProperties", True):
        names.append("...")
    return display.clean(" ".join(names)) or "nothing"


@arguments(
    arg("name", metavar="NAME"),
    one_of(
        arg("--json", dest="document", metavar="ARGS", help="all arguments, as one JSON object"),
        arg(
            "--arg",
            dest="pairs",
            action="append",
            type=pair,
            metavar="K=V",
            help="one argument; V is JSON or plain text; may be repeated",
        ),
    ),
    thread_option("attach the result to a thread (default: RELAY_THREAD, or none)"),
    arg("--fresh", action="store_true", help="run the capability even if a result is cached"),
    author_option("name of the invoker (default: RELAY_AGENT, or you)"),
)
def cap_invoke(args: Namespace, console: Console) -> None:
    """Run a capability, or return its cached result. The whole result is stored as an artifact.

    In a thread, each invocation counts as a hop, even if the result was cached. For JSON output,
    use relay --json cap invoke.
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
        *([f"attached to {chosen.label}"] if chosen else []),
        f"--- preview{cut}",
        invoked.preview.text.rstrip("\n"),
    ]
    console.answer(invoked, lines, invoked.artifact_ref)


def _args(args: Namespace) -> dict[str, Any]:
    if args.document is not None:
        document = read_json(args.document, "--json", ARGS_BYTES_MAX)
        if not is_object(document):
            raise Invalid(
                "--json must be a JSON object", """for example: --json '{"query": "tokens"}'"""
            )
        return document
    given: dict[str, Any] = {}
    for key, value in args.pairs or ():
        if key in given:
            raise Invalid(f"duplicate --arg {display.clean(key)}", "to pass a list use --json")
        given[key] = _value(value)
    return given


def _value(text: str) -> Any:
    """Parse a value as JSON, or return the text unchanged if it is not valid JSON."""
    try:
        return read_json(text, "--arg", ARGS_BYTES_MAX)
    except Invalid:
        return text


@arguments(
    arg("name", nargs="?", metavar="NAME", help="delete only the results of this capability")
)
def cap_purge(args: Namespace, console: Console) -> None:
    """Delete cached results. Artifacts that hold the results keep their expiry."""
    purged = console.relay.purge_cache(args.name)
    results = display.count(purged.entries, "cached result")
    console.answer(purged, f"deleted {results}", str(purged.entries))
