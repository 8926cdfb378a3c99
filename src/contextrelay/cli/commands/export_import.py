"""export and import: a thread as one zip file."""

from __future__ import annotations

import re
from argparse import Namespace

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, author_option, thread_arguments
from contextrelay.cli.thread_argument import Chosen, label
from contextrelay.client.methods import build
from contextrelay.verbs import ExportThread, ImportThread

_NOT_IN_A_NAME = re.compile(r"[^\w.-]+")
_NAME_CHARS = 60


@arguments(
    *thread_arguments(),
    arg("-o", "--out", metavar="FILE", help="name of the zip file (default: NAME-ID.relay.zip)"),
)
def export(args: Namespace, console: Console) -> None:
    """Export a thread to a zip file that contains its history, its events and the bodies of its
    artifacts.
    """
    chosen = thread_argument.choose_thread(console, args)
    stream = chosen.thread.ask(ExportThread(chosen.thread.id))
    if args.out == "-":
        display.write_bytes(stream.chunks(), "a zip file", "write it to a file: -o FILE")
        return
    file = args.out or _file_name(chosen)
    with console.busy("exporting"):
        size_bytes = display.save(file, stream.chunks())
    text = f"{file}  {display.size(size_bytes)}  {label(stream.value)} v{stream.value.version}"
    console.answer(
        {"file": file, "size": size_bytes, "thread_id": stream.value.thread_id},
        [text, f"  import it: relay import {file}"],
        file,
    )


def _file_name(chosen: Chosen) -> str:
    name = _NOT_IN_A_NAME.sub("-", chosen.view.name or "thread").strip("-.")[:_NAME_CHARS]
    return f"{name or 'thread'}-{display.short(chosen.thread.id)}.relay.zip"


@arguments(
    arg("file", metavar="FILE", help="zip file from relay export; - reads it from stdin"),
    arg("--name", help="name of the new thread (default: the name in the zip file)"),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def import_(args: Namespace, console: Console) -> None:
    """Create a thread from an exported zip file and print its id."""
    verb = build(ImportThread, (args.name, args.by), {})
    body = display.read_body(args.file)
    with console.busy("importing"):
        view = console.relay.transport.ask(verb, body)
    thread_argument.remember(console.relay, view.thread_id)
    text = f"{label(view)} v{view.version}  {display.count(view.artifacts, 'artifact')}"
    console.answer(view, [f"thread_id  {view.thread_id}", text], view.thread_id)
    thread_argument.warn_of_same_name(console, view)
