"""What both languages of OpenAI share: the account, the SDK (the extra `openai`), the errors."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from contextrelay.errors import Invalid, Unavailable
from contextrelay.runs.provider import Prompt, Reply
from contextrelay.runs.providers.account import NO_KEY_NEEDED, Account
from contextrelay.runs.providers.attempts import (
    Refusal,
    answered,
    refused,
    unreached,
    unusable,
)
from contextrelay.runs.providers.bounds import BOUNDS, Bounds, Meter

MODEL = "gpt-6.1-sol"
KEY_VARIABLE = "OPENAI_API_KEY"
URL_VARIABLE = "OPENAI_BASE_URL"
HOST = "api.openai.com"
# Servers of one's own mostly want no key, but the SDK does.
NO_KEY = "none"
# Errors that come inside a stream have no HTTP status of their own.
_STATUSES = {"rate_limit_exceeded": 429, "invalid_api_key": 401, "model_not_found": 404}


def openai_account(environ: Mapping[str, str]) -> Account:
    """OpenAI, or the server at OPENAI_BASE_URL."""
    url = environ.get(URL_VARIABLE) or f"https://{HOST}/v1"
    return Account("openai", KEY_VARIABLE, url, HOST, environ, URL_VARIABLE)


class OpenAIProvider(ABC):
    """A model behind one of the two languages."""

    name = "openai"

    def __init__(
        self,
        model: str,
        environ: Mapping[str, str],
        sleep: Callable[[float], None] = time.sleep,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._account = openai_account(environ)
        if not model and not self._account.is_own:
            raise Invalid(
                f"which model of {self._account.host} to ask is not said",
                f"name it: -m openai:MODEL ({self._account.url}/models lists them)",
            )
        self.model = model or MODEL
        self._sleep = sleep
        self._bounds = bounds

    def answer(self, prompt: Prompt) -> Iterator[str | Reply]:
        """Ask the model."""
        from contextrelay.runs.providers.transport import bounded_client

        sdk, library = _sdk(), _library()
        account = self._account
        options, meter = bounded_client(library, account, self._bounds)
        client = sdk.OpenAI(
            api_key=account.key() if account.is_own else account.key_if_any() or NO_KEY,
            base_url=account.url,
            max_retries=0,
            timeout=options["timeout"],
            http_client=library.Client(**options),
        )
        with client:
            yield from answered(
                lambda: self._asked(client, prompt, meter),
                lambda error: self._explain(prompt.model, error),
                self._sleep,
            )

    @abstractmethod
    def _asked(self, client: Any, prompt: Prompt, meter: Meter) -> Generator[str | Reply]: ...

    def _explain(self, model: str, error: Any) -> Refusal:
        sdk = _sdk()
        if isinstance(error, sdk.APIConnectionError | _library().TransportError):
            return unreached(self._account, error.__cause__ or error)
        if not isinstance(error, sdk.APIError):
            return unusable(self._account, error)
        code, said = str(error.code or error.type or ""), _message(error)
        if isinstance(error, sdk.APIStatusError):
            refusal = refused(self._account, model, error.status_code, said, error.response.headers)
        else:
            refusal = refused(self._account, model, _STATUSES.get(code, 500), said, {})
        if code == "insufficient_quota":  # A 429 that waiting does not help.
            return Refusal(refusal.error)
        return refusal


def _message(error: Any) -> str:
    """What the server says, without what the SDK puts around it."""
    body: Any = error.body
    try:
        return str(body["message"])
    except (KeyError, TypeError):
        return str(error.message)


def _library() -> Any:
    import httpx2

    return httpx2


def _sdk() -> Any:
    try:
        import openai
    except ImportError as error:
        raise Unavailable(
            "the package of OpenAI is not installed",
            f"pip install 'contextrelay[openai]'; {NO_KEY_NEEDED}",
        ) from error
    return openai
