"""push, pull and peek: store content, and read it back by ref."""

from __future__ import annotations

from argparse import Namespace
from typing import get_args

from msgspec import UNSET, to_builtins

from contextrelay.cli import display, thread_argument, url_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, author_option, one_of, pair, thread_option, ttl
from contextrelay.cli.place import remember_push
from contextrelay.client.seal.push import Pushed
from contextrelay.errors import Invalid
from contextrelay.model.artifact import Artifact, ArtifactType, SealFormat

TYPES = get_args(ArtifactType)
DESCRIPTION = (
    arg("file", nargs="?", metavar="FILE", help="file to store; - or no FILE reads stdin"),
    arg("--name", help="name of the artifact (default: the file name)"),
    arg(
        "--type",
        choices=TYPES,
        metavar="TYPE",
        help=f"type of the artifact: {', '.join(TYPES)} (default: detected)",
    ),
    arg("--media-type", help="media type, for example text/markdown (default: detected)"),
    arg("--meta", type=pair, action="append", default=[], metavar="KEY=VALUE", help="metadata"),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
    arg(
        "--source",
        action="append",
        default=[],
        metavar="REF",
        help="a ref that the content was made from; may be repeated",
    ),
)


def store(
    args: Namespace,
    console: Console,
    ttl_s: object,
    thread: str | None = None,
    channel: str | None = None,
    seal: SealFormat | bool = False,
) -> Pushed:
    """Push the content that the options name, to a thread and a channel if these are given."""
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
    remember_push(console.relay.transport, made.ref)
    return made


@arguments(
    *DESCRIPTION,
    one_of(
        arg(
            "--ttl",
            type=ttl,
            default=UNSET,
            metavar="TIME",
            help="time until expiry: 90s, 30m, 24h, 7d or never",
        ),
        arg("--pin", action="store_true", help="keep the artifact until it is deleted"),
    ),
    arg("--channel", metavar="CHANNEL", help="send the URL to the subscribers of a channel"),
    thread_option("attach the artifact to a thread, so that it does not expire"),
    arg(
        "--encrypt",
        action="store_true",
        help="encrypt the content; only the printed URL can decrypt it",
    ),
    arg(
        "--format",
        choices=get_args(SealFormat),
        help=(
            "with --encrypt: k2 for any content (default), k1 for text that ContextRelay 0.2 "
            "clients can read"
        ),
    ),
)
def push(args: Namespace, console: Console) -> None:
    """Store a file or stdin and print its URL."""
    if args.format and not args.encrypt:
        raise Invalid("--format needs --encrypt", "add --encrypt")
    chosen = thread_argument.thread_if_named(console, args, with_variable=False)
    ttl_s = None if args.pin else args.ttl
    thread = chosen.thread.id if chosen else None
    made = store(args, console, ttl_s, thread, args.channel, args.encrypt and (args.format or True))
    head = display.short(made.ref)
    channel = f"  to channel {display.clean(args.channel)}" if args.channel else ""
    next_step = f"  next: relay peek {head} · relay pull {head}"
    if made.sealed:
        next_step = (
            "  only the whole URL can decrypt it · next: relay pull - (with the URL on stdin)"
        )
    url = made.url
    console.answer(
        {"url": url, **to_builtins(made)}, [display.line(made) + channel, url, next_step], url
    )


@arguments(
    arg("ref", metavar="REF", help=url_argument.FROM_STDIN),
    arg("-o", "--out", metavar="FILE", help="write the content to FILE, atomically"),
    arg("--bytes", metavar="A:B", help="read only bytes A to B, without B; the first byte is 0"),
)
def pull(args: Namespace, console: Console) -> None:
    """Print or save a stored body, exactly as pushed. If REF is a URL with a key, the body is
    decrypted.

    If REF is a URL of another server, the body is read from that server.
    """
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
        # Nothing is printed until the whole body has been decrypted.
        chunks = iter((relay.pull(given.keyed(ref), start, stop),))
    again = f"relay pull {'-' if given.key else display.short(ref)}"
    display.write_bytes(
        chunks,
        display.short(ref),
        f"write it to a file: {again} -o FILE; or pipe it: {again} | COMMAND",
    )


def _range(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    start, colon, stop = text.partition(":")
    if not colon or not (start + stop).isdecimal() or not (start + stop).isascii():
        raise Invalid(
            f"invalid byte range {text!r}", "use START:STOP, for example 0:1000, 1000: or :1000"
        )
    return int(start or 0), int(stop) if stop else None


@arguments(
    arg("ref", metavar="REF", help=url_argument.FROM_STDIN),
    arg(
        "--full",
        action="store_true",
        help="print all fields of the artifact, not only the metadata",
    ),
)
def peek(args: Namespace, console: Console) -> None:
    """Describe a ref without loading its body: metadata, type, size, tokens, author and expiry."""
    relay, ref = url_argument.resolved(console, url_argument.read(console, args.ref).text)
    artifact = relay.peek(ref, args.full)
    console.answer(artifact if args.full else _brief(artifact), about(artifact, args.full))


def _brief(artifact: Artifact) -> dict[str, object]:
    """Return the fields of an artifact that people see. The author may have set fields of the same
    names, so ours replace them.
    """
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
    """Format an artifact for people, as lines."""
    size = display.amount(artifact)
    made = f"{display.author(artifact.provenance.created_by)} · {display.age(artifact.created_at)}"
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
    seen = f", made safe: {', '.join(preview.patterns)}" if preview.patterns else ""
    text = preview.text.rstrip("\n")
    # If the body is shorter than the outline, the body is printed as the outline.
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
