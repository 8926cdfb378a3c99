"""Signatures of the clients' methods, for `help`, `inspect.signature` and docs/python.md."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from inspect import Parameter, Signature
from typing import Any, TypeVar, cast, get_args, get_type_hints

from contextrelay.a2a.schema import AgentAnswer
from contextrelay.client.content import Content
from contextrelay.client.run_stream import AsyncRunStream, RunStream
from contextrelay.model.run import Replay, RunResult, ToolUse, Trace
from contextrelay.runs.provider import Provider
from contextrelay.verbs.routes import reply_type

_SELF = Parameter("self", Parameter.POSITIONAL_ONLY)
_BODY = Parameter("body", Parameter.POSITIONAL_ONLY, annotation=Content)
# Types that methods use but their files do not import, because most starts need no runs.
_OF_RUNS: dict[str, Any] = {
    each.__name__: each
    for each in (
        AgentAnswer,
        AsyncRunStream,
        Provider,
        Replay,
        RunResult,
        RunStream,
        ToolUse,
        Trace,
    )
}


def signature_of(
    source: Any,
    is_async: bool,
    *,
    has_body: bool = False,
    without: str = "",
    returns: Any = None,
    then: Callable[[Any], Any] | None = None,
    is_items: bool = False,
    is_direct: bool = False,
) -> Signature:
    """Return the signature of a method built from a verb or a flow, with the types that a caller
    sees.

    `without`: a field that the handle fills in. `then`: the function that converts the reply.
    `returns`: the return type, or a pair of types for the two kinds of clients. `is_direct`: the
    method is not awaited in either client.
    """
    hints = get_type_hints(source, localns=_OF_RUNS)
    if inspect.isfunction(source):
        steps, _, result = get_args(hints["return"])
        returns = returns or (get_args(get_args(steps)[-1])[0] if is_items else result)
    elif returns is None:
        returns = get_type_hints(then)["return"] if then else reply_type(source)
        returns = reply_type(source) if isinstance(returns, TypeVar) else returns
    parameters = [_SELF, _BODY] if has_body else [_SELF]
    for each in inspect.signature(source).parameters.values():
        if each.name not in ("self", without):
            default: Any = {} if str(each.default) == "<factory>" else each.default
            parameters.append(each.replace(annotation=hints[each.name], default=default))
    if isinstance(returns, tuple):
        returns = cast("tuple[Any, Any]", returns)[is_async]
    if isinstance(returns, str):
        returns = _OF_RUNS.get(returns, returns)
    if is_items:
        returns = AsyncIterator[returns] if is_async else Iterator[returns]
    elif is_async and not is_direct:
        returns = Awaitable[returns]
    return Signature(parameters, return_annotation=returns)
