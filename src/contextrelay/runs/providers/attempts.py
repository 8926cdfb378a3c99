"""Attempts: a model is asked again where that can help, and not once it has begun to answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, NamedTuple

from contextrelay.errors import Failed, Forbidden, Invalid, Limited, RelayError, Unavailable
from contextrelay.limits import (
    PROVIDER_BACKOFF_S_MAX,
    PROVIDER_PAUSE_S_MAX,
    PROVIDER_RETRIES_MAX,
)
from contextrelay.runs.provider import Reply
from contextrelay.runs.providers.account import ANOTHER, Account


class Refusal(NamedTuple):
    """Why there is no answer, and whether asking again may help."""

    error: RelayError
    is_transient: bool = False
    pause_s: float | None = None
    """How long the provider asks us to wait."""


def answered(
    ask: Callable[[], Generator[str | Reply]],
    explain: Callable[[Any], Refusal],
    sleep: Callable[[float], None],
) -> Iterator[str | Reply]:
    """Ask, and ask again after transient refusals; an empty piece says that the answer begins.

    Raises:
        RelayError: what `explain` makes of the last failure.
    """
    for retries in range(PROVIDER_RETRIES_MAX + 1):
        has_begun = False
        try:
            with closing(ask()) as parts:
                for part in parts:
                    has_begun = True
                    if part != "":
                        yield part
            return
        except RelayError:
            raise
        except Exception as error:
            # SDKs raise whatever a malformed answer leads to, with parts of it in the text: their
            # errors are in no traceback either.
            refusal = _own(error) or explain(error)
            if has_begun and refusal.is_transient:
                raise _broken_off(refusal.error) from None
            pause_s = _pause_s(retries, refusal.pause_s)
            is_last = retries == PROVIDER_RETRIES_MAX or pause_s > PROVIDER_PAUSE_S_MAX
            if is_last or not refusal.is_transient:
                raise refusal.error from None
        sleep(pause_s)


def refused(
    account: Account, model: str, status: int, said: str, headers: Mapping[str, str]
) -> Refusal:
    """What an answer means that is an error by its HTTP status."""
    name, said = account.name, account.said(said)
    if status == 401:
        error = Forbidden(
            f"{name} refuses the key (401)",
            f"put a valid one into {account.variable}, {ANOTHER}",
            status=401,
        )
    elif status == 403:
        error = Forbidden(f"{name} does not allow this: {said}", f"use another key, {ANOTHER}")
    elif status == 404:
        error = Invalid(
            f"{name} has no model {model!r}: {said}", "name another: -m PROVIDER:MODEL", status=404
        )
    elif status in {402, 429}:
        error = Limited(
            f"{name} answers no more for now ({status}): {said}",
            f"wait, raise its limit, {ANOTHER}",
        )
        return Refusal(error, status == 429, retry_after_s(headers))
    elif status in {408, 409} or status >= 500:
        error = Unavailable(f"{name} cannot answer now ({status}): {said}", f"try later, {ANOTHER}")
        return Refusal(error, True, retry_after_s(headers))
    else:
        error = Invalid(f"{name} refuses the request ({status}): {said}", f"change it, {ANOTHER}")
    return Refusal(error)


def unreached(account: Account, error: BaseException) -> Refusal:
    """What it means that there was no answer at all; where nobody listens here, nobody will."""
    said = account.said(str(error) or type(error).__name__)
    hint = f"{'start it' if account.is_local else 'try later'}, {ANOTHER}"
    if account.is_local and account.name == "ollama":
        hint = "start it: ollama serve; or ask another with -m, such as echo"
    is_alone = account.is_local and type(error).__name__ == "ConnectError"
    return Refusal(
        Unavailable(f"{account.name} at {account.host} does not answer: {said}", hint), not is_alone
    )


def unusable(account: Account, error: Exception) -> Refusal:
    """Return the refusal for an answer that cannot be read; its error may quote all of it."""
    said = f"{account.name} sent what is no answer ({type(error).__name__})"
    return Refusal(Failed(said, f"run it again, {ANOTHER}"))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """How long `Retry-After` asks us to wait: seconds, or until a date."""
    said = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(said))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time())
    except (TypeError, ValueError, OverflowError):
        return None


def _pause_s(retries: int, asked_s: float | None) -> float:
    """As long as was asked for, else longer each time, and not the same for everybody."""
    if asked_s is not None:
        return asked_s
    return min(PROVIDER_BACKOFF_S_MAX, 0.5 * 2**retries) * (0.75 + random.random() / 4)


def _broken_off(error: RelayError) -> Failed:
    return Failed(f"the answer broke off: {error.message}", "run it again")


def _own(error: BaseException) -> Refusal | None:
    """Return the refusal for an error of the transport that an SDK wrapped in its own, if any."""
    cause = error.__cause__
    return Refusal(cause) if isinstance(cause, RelayError) else None
