"""push, pull and peek: content goes in once, and comes back by ref."""

from __future__ import annotations

from argparse import Namespace
from typing import get_args

from msgspec import UNSET, to_builtins

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, by, one_of, pair, takes, thread_option, ttl
from contextrelay.cli.place import remember_push
from contextrelay.client.seal.push import Pushed
from contextrelay.errors import Invalid
from contextrelay.model.artifact import Artifact, ArtifactType, SealFormat

TYPES = get_args(ArtifactType)
DESCRIPTION = (
    arg("file", nargs="?", metavar="FILE", help="the file; - or none for stdin"),
    arg("--name", help="its name, if not the file's"),
    arg("--type", choices=TYPES, metavar="TYPE", help=f"{', '.join(TYPES)}; else found out"),
    arg("--media-type", help="like text/markdown; else found out"),
    arg("--meta", type=pair, action="append", default=[], metavar="KEY=VALUE", help="metadata"),
    by("who made it"),
    arg("--source", action="append", default=[], metavar="REF", help="what it was made from"),
)


def store(
    args: Namespace,
    console: Console,
    ttl_s: object,
    thread: str | None = None,
    channel: str | None = None,
    seal: SealFormat | bool = False,
) -> Pushed:
    """Push what the options describe, into a thread and to a channel if there is one."""
    made = console.relay.push(
        display.read_body(args.file),
        name=display.name_of(args.file, args.name),
        type=args.type,
        media_type=args.media_type,
        metadata=dict(args.meta),
        created_by=args.by,
        source_refs=tuple(display.resolve(console.relay, text) for text in args.source),
        ttl_s=ttl_s,  # pyright: ignore[reportArgumentType]
        thread=thread,
        channel=channel,
        seal=seal,
    )
    remember_push(console.relay, made.ref)
    return made


@takes(
    *DESCRIPTION,
    one_of(
        arg("--ttl", type=ttl, default=UNSET, metavar="TIME", help="90s, 30m, 24h, 7d or never"),
        arg("--pin", action="store_true", help="keep it until it is removed"),
    ),
    arg("--channel", metavar="CHANNEL", help="notify its subscribers"),
    thread_option("put it into a thread, where it does not expire"),
    arg("--encrypt", action="store_true", help="seal it: only who has the URL printed can read it"),
    arg(
        "--format",
        choices=get_args(SealFormat),
        help="with --encrypt: k2 for any body (what is taken), k1 for text that clients of "
        "ContextRelay 0.2 are to read",
    ),
)
def push(args: Namespace, console: Console) -> None:
    """Store a file or stdin once and print the URL that stands for it."""
    if args.format and not args.encrypt:
        raise Invalid("--format is how it is encrypted", "say --encrypt too")
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    ttl_s = None if args.pin else args.ttl
    thread = chosen.thread.id if chosen else None
    made = store(args, console, ttl_s, thread, args.channel, args.encrypt and (args.format or True))
    head = display.short(made.ref)
    channel = f"  to channel {display.clean(args.channel)}" if args.channel else ""
    next_step = f"  next: relay peek {head} · relay pull {head}"
    if made.sealed:
        next_step = (
            "  who has the whole URL can read it, and nobody else"
            " · next: relay pull - (and the URL on stdin)"
        )
    url = made.url
    console.answer(
        {"url": url, **to_builtins(made)}, [display.line(made) + channel, url, next_step], url
    )


@takes(
    arg("ref", metavar="REF", help=url_argument.FROM_STDIN),
    arg("-o", "--out", metavar="FILE", help="write to a file, whole or not at all"),
    arg("--bytes", metavar="A:B", help="only the bytes from A up to B"),
)
def pull(args: Namespace, console: Console) -> None:
    """Get a body back, exactly as it was stored, or opened if REF is a URL with a key; from its own
    server where REF is a URL of one."""
    given = url_argument.read(console, args.ref)
    relay, ref = url_argument.resolved(console, given.text)
    start, stop = _range(args.bytes)
    if args.out is not None and args.out != "-":
        size_bytes = display.save(args.out, relay.stream(given.keyed(ref), start, stop))
        console.answer({"ref": ref, "file": args.out, "size": size_bytes}, args.out)
        return
    if given.key is None:
        chunks = relay.stream(ref, start, stop)
    else:
        # Nothing is printed before all of it was opened.
        chunks = iter((relay.pull(given.keyed(ref), start, stop),))
    again = f"relay pull {'-' if given.key else display.short(ref)}"
    display.write_bytes(
        chunks,
        display.short(ref),
        f"write it to a file: {again} -o FILE; or pipe it on: {again} | COMMAND",
    )


def _range(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    start, colon, stop = text.partition(":")
    if not colon or not (start + stop).isdecimal() or not (start + stop).isascii():
        raise Invalid(f"{text!r} is no range of bytes", "write it like 0:1000, 1000: or :1000")
    return int(start or 0), int(stop) if stop else None


@takes(
    arg("ref", metavar="REF", help=url_argument.FROM_STDIN),
    arg("--full", action="store_true", help="everything, not the metadata alone"),
)
def peek(args: Namespace, console: Console) -> None:
    """Show what a ref is without loading it: its metadata, type, size, tokens, who made it and when
    it expires; with --full all about it."""
    relay, ref = url_argument.resolved(console, url_argument.read(console, args.ref).text)
    artifact = relay.peek(ref, args.full)
    console.answer(artifact if args.full else _brief(artifact), about(artifact, args.full))


def _brief(artifact: Artifact) -> dict[str, object]:
    """What people are shown, as fields; ours after its maker's, so that none passes for ours."""
    return {
        **artifact.metadata,
        "type": artifact.type,
        "size": artifact.size_bytes,
        "tokens": None if artifact.sealed else display.tokens_in(artifact),
        "token_basis": artifact.token_basis or ("sealed" if artifact.sealed else "estimated"),
        "created_by": artifact.provenance.created_by,
        "created_at": artifact.created_at,
        "expires_at": artifact.expires_at,
        "encrypted": artifact.sealed is not None,
    }


def about(artifact: Artifact, is_full: bool) -> list[str]:
    """An artifact as people read it."""
    size = display.amount(artifact)
    made = f"{display.clean(artifact.provenance.created_by)} · {display.age(artifact.created_at)}"
    lines = [
        *(
            f"{display.filled(display.clean(key), 10)} {display.clean(str(value))}"
            for key, value in artifact.metadata.items()
        ),
        f"{'type':10} {artifact.type}  {size}",
        f"{'from':10} {made} · {display.life(artifact)}",
    ]
    if not is_full:
        return lines
    preview = artifact.preview
    cut = f" of {preview.line_count} lines" if preview.truncated else ""
    seen = f", defused: {', '.join(preview.patterns)}" if preview.patterns else ""
    text = preview.text.rstrip("\n")
    # A body that is shorter than its outline is its own.
    outline = (artifact.outline or "").rstrip("\n")
    return [
        f"{'ref':10} {artifact.ref}",
        *([f"{'name':10} {display.clean(artifact.name)}"] if artifact.name else []),
        *lines,
        *([f"{'thread':10} {artifact.thread}"] if artifact.thread else []),
        f"{'media type':10} {artifact.media_type}",
        f"{'sha256':10} {artifact.sha256}",
        *(f"{'made from':10} {ref}" for ref in artifact.provenance.source_refs),
        *(["--- outline", outline] if outline not in ("", text) else []),
        f"--- preview{cut}{seen}",
        text,
    ]
