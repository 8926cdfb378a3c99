"""context add, pack, score, prune, show, export, import: the context blocks of a thread."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from contextrelay.cli import display, thread_argument
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments, author_option, budget, thread_option
from contextrelay.content.tokens import count_tokens
from contextrelay.content.untrusted.fence import fenced
from contextrelay.errors import Invalid
from contextrelay.limits import BUDGET_TOKENS_DEFAULT, BUDGET_TOKENS_MAX
from contextrelay.model.package import BLOCK_TYPES, Block
from contextrelay.packing.candidates import BLOCK_METADATA


@arguments(
    arg("text", nargs="?", metavar="TEXT", help="text of the block; - or no TEXT reads stdin"),
    thread_option(),
    arg("--type", choices=[each.lower() for each in BLOCK_TYPES], default="memory"),
    arg("--group", help="name of the conversation that the block belongs to"),
    arg(
        "--relevance", type=float, default=1.0, help="relevance if there is no query (default: 1.0)"
    ),
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def context_add(args: Namespace, console: Console) -> None:
    """Add a block to the context of a thread and print its ref."""
    chosen = thread_argument.choose_thread(console, args)
    is_piped = args.text in (None, "-")
    body = b"".join(display.read_body(args.text)) if is_piped else args.text.encode()
    fields: dict[str, Any] = {"type": args.type.upper(), "relevance_score": args.relevance}
    if args.group is not None:
        fields["group"] = args.group
    # Constructing a block validates the fields before anything is stored.
    Block("x", "", fields["type"], args.relevance)
    artifact = chosen.thread.put(body, metadata={BLOCK_METADATA: fields}, created_by=args.by)
    tokens = count_tokens(body.decode(errors="replace"))
    console.answer(artifact, f"{artifact.ref}  {args.type}  {tokens:,} tok", artifact.ref)


_WINDOW = (
    thread_option(),
    budget(BUDGET_TOKENS_DEFAULT, "token budget"),
    arg(
        "--pin",
        action="append",
        default=[],
        metavar="ID",
        help="id of a block to include in any case; may be repeated",
    ),
)


@arguments(
    arg(
        "query",
        nargs="*",
        metavar="QUERY",
        help="the task or question that the blocks must be relevant to",
    ),
    *_WINDOW,
    arg("--why", action="store_true", help="print why each block was included or left out"),
    arg(
        "--prefix",
        type=int,
        default=0,
        metavar="TOKENS",
        help="number of prompt tokens before the package",
    ),
    arg("--calls", type=int, default=0, help="number of model calls made in the thread so far"),
)
def context_pack(args: Namespace, console: Console) -> None:
    """Select the most relevant blocks of a thread that fit a token budget, and print them for a
    model.
    """
    chosen = thread_argument.choose_thread(console, args)
    package = chosen.thread.pack(
        " ".join(args.query),
        args.budget,
        tuple(args.pin),
        prefix_tokens=args.prefix,
        calls=args.calls,
    )
    if args.why and not console.is_json:
        every = (*package.blocks, *package.dropped)
        console.show("\n".join(f"{block.id}  {package.why(block.id)}" for block in every))
    else:
        console.answer(package, fenced(package.text, f"what {chosen.label} holds"))
    console.note(
        f"{display.count(len(package.blocks), 'block')}, {len(package.dropped)} left out ·"
        f" {package.total_tokens:,} of {args.budget:,} tokens ({package.tokenizer})"
    )


@arguments(
    arg(
        "query",
        nargs="+",
        metavar="QUERY",
        help="the task or question that the blocks must be relevant to",
    ),
    thread_option(),
)
def context_score(args: Namespace, console: Console) -> None:
    """Score each block of a thread against a query, and list the blocks, best first."""
    chosen = thread_argument.choose_thread(console, args)
    package = chosen.thread.pack(" ".join(args.query), BUDGET_TOKENS_MAX)
    ranked = sorted(package.reasons.items(), key=lambda each: each[1].rank or 10**9)
    lines = [
        f"{reason.score:8.2f}  {reason.tokens:>6,} tok  {name}  {', '.join(reason.words)}".rstrip()
        for name, reason in ranked
    ]
    console.answer(package.reasons, lines)


@arguments(thread_option())
def context_show(args: Namespace, console: Console) -> None:
    """List the blocks of a thread with their token counts."""
    chosen = thread_argument.choose_thread(console, args)
    package = chosen.thread.pack("", BUDGET_TOKENS_MAX)
    every = (*package.blocks, *package.dropped)
    lines = [
        f"{block.type:9}  {package.why(block.id).tokens:>6,} tok  {block.id}  "
        f"{display.cut(display.clean(block.content), 60)}"
        for block in every
    ]
    lines.append(f"{display.count(len(every), 'block')}, {package.total_tokens:,} tokens")
    console.answer(every, lines)


@arguments(
    arg(
        "query",
        nargs="*",
        metavar="QUERY",
        help="the task or question that the blocks must be relevant to",
    ),
    *_WINDOW,
    author_option("name of the author (default: RELAY_AGENT, or you)"),
)
def context_prune(args: Namespace, console: Console) -> None:
    """Remove the least relevant blocks from a context that is over 90 % full, until it is 80 %
    full.

    Removed blocks can still be read by their refs. The state records which blocks were removed, and
    why.
    """
    chosen = thread_argument.choose_thread(console, args)
    reply = chosen.thread.prune(" ".join(args.query), args.budget, tuple(args.pin), args.by)
    if not reply.pruned:
        share = f"{reply.kept_tokens / args.budget:.0%} of {args.budget:,} tokens"
        console.answer({"pruned": []}, f"nothing to prune: {share}")
        return
    lines = [f"pruned {each.ref}  {each.why}" for each in reply.pruned]
    lines.append(f"{display.count(len(reply.pruned), 'block')} pruned; to read one: relay get REF")
    refs = "\n".join(each.ref for each in reply.pruned)
    console.answer({"pruned": reply.pruned}, lines, refs)


@arguments(
    arg(
        "query",
        nargs="*",
        metavar="QUERY",
        help="the task or question that the blocks must be relevant to",
    ),
    *_WINDOW,
    arg("--format", choices=("json", "protobuf"), default="json"),
    arg("-o", "--out", metavar="FILE", help="write the package to FILE instead of stdout"),
)
def context_export(args: Namespace, console: Console) -> None:
    """Pack the blocks of a thread, and write the package as JSON or protobuf for other programs."""
    from contextrelay.context.codec import session_of, to_json, to_protobuf

    chosen = thread_argument.choose_thread(console, args)
    package = chosen.thread.pack(" ".join(args.query), args.budget, tuple(args.pin))
    write = to_protobuf if args.format == "protobuf" else to_json
    body = write(session_of(package))
    if args.out:
        size_bytes = display.save(args.out, [body])
        written = {"file": args.out, "size": size_bytes, "sha256": package.sha256}
        console.answer(written, f"{args.out}  {display.size(size_bytes)}", args.out)
    elif args.format == "json":
        console.show_json(body.decode())
    else:
        raise Invalid("protobuf is binary", "write it to a file: --out FILE")


@arguments(
    arg("file", metavar="FILE", help="file with a package, as JSON or protobuf"),
    thread_option(),
    author_option("name of the author of the blocks"),
)
def context_import(args: Namespace, console: Console) -> None:
    """Add the blocks of a package to the context of a thread, and print their refs."""
    from contextrelay.context.codec import from_json, from_protobuf

    body = b"".join(display.read_body(args.file))
    session = from_json(body) if body.lstrip()[:1] == b"{" else from_protobuf(body)
    chosen = thread_argument.choose_thread(console, args)
    blocks = [
        Block(
            block.id,
            block.content,
            block.type.name,
            block.relevance_score,
            {key: each for key, each in block.metadata.items() if key != "group"},
            block.timestamp,
            block.metadata.get("group"),
            tuple(block.references),
        )
        for block in session.blocks
    ]
    refs = [
        made.ref
        for start in range(0, len(blocks), _BLOCKS_AT_ONCE)
        for made in chosen.thread.add_blocks(blocks[start : start + _BLOCKS_AT_ONCE], args.by)
    ]
    label = f"{display.count(len(refs), 'block')} from {session.agent_id or 'a package'}"
    console.answer({"refs": refs}, label, "\n".join(refs))


_BLOCKS_AT_ONCE = 1_000
