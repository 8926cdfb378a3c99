"""Pieces for models: part of an artifact in its fence, followed by how to read on."""

from __future__ import annotations

import json

from contextrelay.content.untrusted.defuse import defuse
from contextrelay.content.untrusted.fence import fenced
from contextrelay.model.inspect import Digested, Found, Hits, Outlined, Piece


def fenced_piece(piece: Piece | Found | Outlined | Digested, source: str) -> str:
    """Return a piece in its fence; below it the omitted parts, how to read on, and its cost."""
    notes = [f"left out: {piece.left_out}"] if piece.left_out else []
    if piece.next_args:
        following = (
            f"{'grep' if name == 'pattern' else name}={json.dumps(value, ensure_ascii=False)}"
            for name, value in piece.next_args.items()
            if name != "ref"
        )
        notes.append(f"read on: relay_get {' '.join(following)}")
    spent = piece.spent
    notes += [*piece.notes, f"{spent.tokens:,} of {spent.whole_tokens:,} tokens, {spent.basis}"]
    return noted(piece.text, source, notes, "(nothing)")


def fenced_hits(hits: Hits) -> str:
    """Return search results in a fence."""
    notes = [f"{len(hits.hits)} of {hits.found} passages shown"]
    notes += [f"left out: {hits.left_out}"] if hits.left_out else []
    notes += [*hits.notes, "read around a hit: relay_get with its ref and lines"]
    return noted(hits.text, "passages, each with its ref", notes, "no matches")


def noted(text: str, source: str, notes: list[str], nothing: str) -> str:
    """Return a text in its fence, or `nothing`, with notes on one line below it."""
    # Notes are defused too: they may quote the content.
    line = " ".join(defuse("; ".join(notes)).text.split())
    return f"{fenced(text, source) if text else nothing}\n[{line}]"
