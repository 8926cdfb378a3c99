"""Reading for models: pieces of an artifact, and search in all of them.

Rule: a piece has a budget in tokens, says what it leaves out, and how to read on from there.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from contextrelay import verbs
from contextrelay.client.inspect import Look
from contextrelay.content.untrusted.fence import fenced
from contextrelay.content.untrusted.pieces import fenced_hits, fenced_piece
from contextrelay.errors import Invalid
from contextrelay.limits import (
    MCP_TEXT_BYTES_MAX,
    MCP_TOKENS_MAX,
    PIECE_TOKENS_DEFAULT,
    SUMMARY_CHARS_MAX,
)
from contextrelay.mcp.ref_argument import Named, artifact_of
from contextrelay.mcp.tools.push_pull import Url, as_text
from contextrelay.mcp.tools.tool import Answer, Tool, Visit, listed, of_verb
from contextrelay.model.artifact import spell
from contextrelay.model.inspect import Digested, Found, Hits, Outlined, Piece
from contextrelay.model.reports import Listing


class RelayGet(Look, frozen=True, kw_only=True):
    url: Url
    tokens_max: Annotated[int, Meta(ge=50, le=MCP_TOKENS_MAX, description="Of the answer.")] = (
        PIECE_TOKENS_DEFAULT
    )


async def _get(visit: Visit, asked: RelayGet) -> Answer:
    named = await artifact_of(visit, asked.url)
    ways = asked.ways()
    if named.key is not None:
        return await _unsealed(named, asked, ways)
    ask = named.relay.transport.ask
    source = named.ref[:8]
    if asked.grep is not None:
        grep = verbs.Grep(
            asked.grep,
            named.ref,
            context=asked.context,
            after_line=asked.after_line,
            tokens_max=asked.tokens_max,
        )
        return _piece(await ask(grep), source)
    if asked.outline:
        return _piece(await ask(verbs.Outline(named.ref, asked.tokens_max)), source)
    if ways:
        piece = await ask(verbs.Slice(named.ref, **ways, tokens_max=asked.tokens_max))
        return _piece(piece, f"{source} {piece.way} {piece.at}")
    return _piece(await ask(verbs.Digest(named.ref, asked.tokens_max)), source)


def _piece(piece: Piece | Found | Outlined | Digested, source: str) -> Answer:
    return Answer(fenced_piece(piece, source))


async def _unsealed(named: Named, asked: RelayGet, ways: dict[str, str]) -> Answer:
    """A range of bytes of a sealed body, unsealed here: the store cannot look into it."""
    if set(ways) != {"bytes"}:
        raise Invalid(
            "it is sealed, so that only its bytes can be read in parts",
            f"give bytes, such as 0:{MCP_TEXT_BYTES_MAX}",
        )
    start_text, colon, stop_text = ways["bytes"].partition(":")
    if not colon or not (start_text + stop_text).isdecimal():
        raise Invalid(f"{ways['bytes']!r} is no range of bytes", "write it like 0:8000")
    start = int(start_text or 0)
    stop = int(stop_text) if stop_text else start + MCP_TEXT_BYTES_MAX
    if not 0 < stop - start <= MCP_TEXT_BYTES_MAX:
        raise Invalid(f"at most {MCP_TEXT_BYTES_MAX:,} bytes fit here", "ask for less at once")
    text = as_text(await named.relay.pull(named.url, start, stop))
    return Answer(fenced(text, f"{named.ref[:8]} bytes {start}:{start + len(text.encode())}"))


def _hits(hits: Hits) -> Answer:
    return Answer(fenced_hits(hits))


def _listed(page: Listing) -> Answer:
    """A page of artifacts, each in brief."""
    items: list[dict[str, object]] = [
        {
            "ref": each.ref,
            "name": each.name,
            "type": each.type,
            "size": each.size_bytes,
            "summary": str(each.metadata.get("summary", ""))[:SUMMARY_CHARS_MAX] or None,
            "created_by": each.provenance.created_by,
            "created_at": spell(each.created_at),
        }
        for each in page.artifacts
    ]
    brief = [{name: value for name, value in each.items() if value is not None} for each in items]
    return listed("artifacts", brief, page.next, "name", "summary", "created_by")


TOOLS = (
    Tool(
        name="relay_get",
        description=(
            "Read one piece of a URL or ref without loading it: outline, lines, grep, a place in"
            " JSON, a section, a symbol. Without any: a digest (shape, head, tail, errors)."
        ),
        takes=RelayGet,
        act=_get,
        rare=("after_line", "bytes"),
        is_read_only=True,
    ),
    of_verb(
        "relay_search",
        verbs.Search,
        "Find passages by words, best first, in all that was stored, a thread, or one ref.",
        _hits,
        rare=("limit", "tokens_max"),
    ),
    of_verb(
        "relay_artifact_list",
        verbs.List,
        "List artifacts, newest first: with a text in their name, of a type, in a thread, or made"
        " since a time (since_ms since 1970). after: the next of the page before.",
        _listed,
    ),
)
