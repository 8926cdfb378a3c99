"""Portable packages: encode a session as JSON or protobuf, and decode it.

Rule: input is validated; every decoded session could have been encoded here. In protobuf all
metadata are strings, so other values are stored as JSON, and scores have 32 bits.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from contextrelay.context.blocks import (
    MAX_TOKENS,
    ContextBlock,
    ContextMetrics,
    ContextPackage,
    ContextType,
)
from contextrelay.errors import Invalid, TooLarge, Unavailable
from contextrelay.limits import BODY_BYTES_MAX
from contextrelay.model.package import Package

if TYPE_CHECKING:
    from contextrelay.context import pycontext_pb2

_HINT = "export it again"


def session_of(package: Package) -> ContextPackage:
    """Convert a package to a session of the article; a block's group goes into its metadata."""
    session = ContextPackage(
        session_id=package.session_id,
        agent_id=package.agent_id,
        blocks=[
            ContextBlock(
                id=block.id,
                content=block.content,
                relevance_score=block.relevance_score,
                type=ContextType[block.type],
                metadata=dict(block.metadata) | ({"group": block.group} if block.group else {}),
                timestamp=block.timestamp,
                references=list(block.references),
            )
            for block in package.blocks
        ],
        metrics=ContextMetrics(0, 0.0, {}),
        version=package.version,
        trace_id=package.trace_id,
        max_tokens=package.budget.tokens_max,
    )
    session.calculate_metrics()
    return session


def to_json(session: ContextPackage) -> bytes:
    """Encode a session as JSON."""
    return msgspec.json.encode(session.to_dict(), order="sorted")


def from_json(body: bytes, max_tokens: int = MAX_TOKENS) -> ContextPackage:
    """Decode a session from JSON.

    Raises:
        Invalid: it is malformed.
    """
    _check_size(body)
    try:
        return _checked(ContextPackage.from_dict(json.loads(body), max_tokens))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid(f"invalid package: {error!r:.200}", _HINT) from error


def to_protobuf(session: ContextPackage) -> bytes:
    """Encode a session as protobuf, with the article's messages."""
    messages = _messages()
    return messages.ContextPackage(
        session_id=session.session_id,
        agent_id=session.agent_id,
        blocks=[
            messages.ContextBlock(
                id=block.id,
                timestamp=block.timestamp,
                content=block.content,
                relevance_score=block.relevance_score,
                metadata={key: _text(value) for key, value in block.metadata.items()},
                type=block.type.name,
                token_count=block.token_count,
                references=block.references,
            )
            for block in session.blocks
        ],
        metrics=messages.ContextMetrics(**asdict(session.metrics)),
        version=session.version,
        trace_id=session.trace_id,
    ).SerializeToString(deterministic=True)


def from_protobuf(body: bytes, max_tokens: int = MAX_TOKENS) -> ContextPackage:
    """Decode a session from protobuf.

    Raises:
        Invalid: it is malformed or incomplete.
    """
    _check_size(body)
    messages = _messages()
    from google.protobuf.message import DecodeError

    read = messages.ContextPackage()
    try:
        read.ParseFromString(body)
        return _checked(
            ContextPackage(
                session_id=read.session_id,
                agent_id=read.agent_id,
                blocks=[_block(each) for each in read.blocks],
                metrics=ContextMetrics(
                    read.metrics.total_tokens,
                    read.metrics.context_saturation,
                    dict(read.metrics.type_distribution),
                ),
                version=read.version,
                trace_id=read.trace_id,
                max_tokens=max_tokens,
            )
        )
    except (DecodeError, ValueError) as error:
        raise Invalid(f"invalid package: {error!r:.200}", _HINT) from error


def _block(read: pycontext_pb2.ContextBlock) -> ContextBlock:
    return ContextBlock(
        id=read.id,
        content=read.content,
        relevance_score=read.relevance_score,
        type=ContextType(read.type),
        metadata=dict(read.metadata),
        timestamp=read.timestamp,
        token_count=read.token_count,
        references=list(read.references),
    )


def _checked(session: ContextPackage) -> ContextPackage:
    """Return a session after checking its consistency.

    Raises:
        ValueError: it is inconsistent.
    """
    if not session.session_id or not isinstance(session.version, int) or session.version < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError("missing session id or version")
    seen: set[str] = set()
    for block in session.blocks:
        block.as_block()  # Raises for an invalid block.
        if not math.isfinite(block.relevance_score) or block.id in seen:
            wrong = "is a duplicate, or its relevance is not a number"
            raise ValueError(f"block {block.id!r:.80} {wrong}")
        seen.add(block.id)
    return session


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _check_size(body: bytes) -> None:
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"a package of {len(body):,} bytes", f"at most {BODY_BYTES_MAX:,}")


def _messages() -> Any:
    try:
        from contextrelay.context import pycontext_pb2
    except ImportError as error:
        hint = "pip install 'contextrelay[proto]'"
        raise Unavailable("protobuf is not installed", hint) from error
    return pycontext_pb2
