"""Ask a model on a thread, as both clients do: from what a caller gives to a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contextrelay.client.flow import Items
from contextrelay.client.transport.local import AsyncLocal, Local, settings_in
from contextrelay.errors import Invalid
from contextrelay.limits import RUN_OUTPUT_TOKENS_DEFAULT, RUN_ROUNDS_MAX
from contextrelay.model.ref import parse_ref
from contextrelay.model.run import RunResult, ToolUse
from contextrelay.model.settings import Settings
from contextrelay.runs.files import TrackedFiles, is_tracked_folder
from contextrelay.runs.price_file import prices_here
from contextrelay.runs.provider import Provider
from contextrelay.runs.providers.account import home_folder
from contextrelay.runs.providers.registry import open_provider
from contextrelay.runs.run import Options, run_thread

Folder = str | os.PathLike[str]


def ask_model(
    thread: Any,
    user: str,
    model: str | Provider | None = None,
    *,
    refs: Sequence[str] = (),
    system: str | None = None,
    budget_tokens: int | None = None,
    files: Folder | None = None,
    rounds_max: int | None = None,
    output_tokens_max: int = RUN_OUTPUT_TOKENS_DEFAULT,
    by: str = "you",
    on_tool: Callable[[ToolUse], object] | None = None,
) -> Items[str | RunResult]:
    """A run on the thread of a handle, ready to begin.

    Raises:
        Invalid: there is no such provider, or a value is out of range.
    """
    settings = settings_of(thread.transport)
    rounds = settings.rounds_max if rounds_max is None else rounds_max
    if not 1 <= rounds <= RUN_ROUNDS_MAX:
        raise Invalid(f"{rounds} rounds", f"take 1 to {RUN_ROUNDS_MAX}")
    if output_tokens_max < 1:
        raise Invalid(f"{output_tokens_max} tokens are no answer", "allow 1 or more")
    options = Options(
        refs=tuple(dict.fromkeys(map(parse_ref, refs))),
        system=system,
        budget_tokens=budget_tokens,
        files=tracked_files(files),
        rounds_max=rounds,
        output_tokens_max=output_tokens_max,
        by=by,
        on_tool=on_tool,
        prices=prices_here(os.environ),
    )
    return run_thread(thread.id, user, chosen_provider(thread.transport, model), options)


def chosen_provider(
    transport: Any, model: str | Provider | None, environ: Mapping[str, str] = os.environ
) -> Provider:
    """The provider that is named; else that of the store's settings, else of RELAY_MODEL.

    Raises:
        Invalid: there is none of this name.
    """
    if model is None or isinstance(model, str):
        return open_provider(model or settings_of(transport, environ).model, environ=environ)
    return model


def settings_of(transport: Any, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of a store in this process.

    Where the thread is on a server, those of RELAY_HOME, as keys and prices: the model is asked
    from here. The server's own are not asked for.
    """
    if isinstance(transport, Local | AsyncLocal):
        return transport.stores.settings
    return settings_in(home_folder(environ))


def tracked_files(folder: Folder | None) -> TrackedFiles | None:
    """The files of a folder that a model may read; None where git tracks none there."""
    if folder is None:
        return None
    path = Path(folder).absolute()
    return TrackedFiles(path) if is_tracked_folder(path) else None
