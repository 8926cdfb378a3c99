"""Accounts: where a provider is reached, and the key that it is asked with.

Rule: a key is read when a model is asked, is sent to its provider, and goes nowhere else: it is in
no repr and no error, and is removed by its value from what a provider says.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from contextrelay.errors import Forbidden, Invalid
from contextrelay.limits import KIB, LABEL_CHARS_MAX, PROVIDER_ERROR_CHARS_MAX
from contextrelay.runs.provider import Provider

PROVIDER_KEY_BYTES_MAX = 4 * KIB


LOOPBACK = ("localhost", "127.0.0.1", "::1")
NO_KEY_NEEDED = "without a key: -m ollama for a model on this machine, -m echo to try it offline"
ANOTHER = "or ask another with -m (ollama and echo need no key)"
# So many characters in a row of a secret give a part of it away, and so does its end.
_SECRET_CHARS = 6
_SECRET_END_CHARS = 4
# Of a foreign error, what is looked into.
_READ_CHARS = 20 * PROVIDER_ERROR_CHARS_MAX


class Account:
    """One provider as it is reached from here."""

    def __init__(
        self,
        name: str,
        variable: str,
        url: str,
        own_host: str,
        environ: Mapping[str, str],
        url_variable: str = "",
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Invalid(f"{url!r} is no URL of {name}", "begin it with http:// or https://")
        self.name = name
        self.variable = variable
        self.url = url
        self.url_variable = url_variable
        self.host = parts.hostname
        self.is_own = self.host == own_host
        """Whether it is the vendor itself, not somebody who speaks the same language."""
        self._environ = environ
        self._key: str | None = None
        self._password = unquote(parts.password or "")

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine."""
        return self.host in LOOPBACK

    @property
    def key_path(self) -> Path | None:
        """The file that a key may be in; a vendor's is not for the server at another URL."""
        home = home_folder(self._environ)
        name = self.name if self.is_own else self.host.replace(":", "-")
        return None if home is None else home / f"{name}.key"

    def key(self) -> str:
        """The key.

        Raises:
            Forbidden: there is none, or others can read the file that it is in.
        """
        found = self.key_if_any()
        if found:
            return found
        path = self.key_path
        file = f", or put it into {path} (chmod 600)" if path else ""
        raise Forbidden(
            f"{self.name} asks for a key, and there is none",
            f"set {self.variable}{file}; {NO_KEY_NEEDED}",
            status=401,
        )

    def key_if_any(self) -> str:
        """The key of the environment, else that in the file, else "".

        Raises:
            Forbidden: others can read the file that it is in.
            Invalid: what is there is no key.
        """
        if self._key is None:
            self._key = self._find_key()
        return self._key

    def _find_key(self) -> str:
        key = self._environ.get(self.variable, "").strip()
        path = None if key else self.key_path
        if path is not None:
            key = _key_in(path)
        if not key.isascii() or not key.isprintable() or " " in key:
            place = path or self.variable
            raise Invalid(f"what is in {place} is no key", "it is one word of plain characters")
        return key

    def said(self, text: str) -> str:
        """Return what the provider says, cut, without words that hold a part of a secret."""
        text = text[:_READ_CHARS]
        for secret in filter(None, (self._key, self._password)):
            text = _without(secret.lower(), text)
        return " ".join(text.split())[:PROVIDER_ERROR_CHARS_MAX]


def _without(secret: str, text: str) -> str:
    """Return a text with `***` for each word that holds a part of a secret."""
    length = min(_SECRET_CHARS, len(secret))
    parts = {secret[start : start + length] for start in range(len(secret) - length + 1)}
    end = secret[-_SECRET_END_CHARS:]

    def replaced(word: re.Match[str]) -> str:
        found = word[0].lower()
        pieces = (found[start : start + length] for start in range(len(found) - length + 1))
        return "***" if end in found or not parts.isdisjoint(pieces) else word[0]

    return re.sub(r"\S+", replaced, text)


def home_folder(environ: Mapping[str, str]) -> Path | None:
    """The folder of RELAY_HOME, else ~/.relay; None where that is an engine and no folder."""
    home = environ.get("RELAY_HOME") or "~/.relay"
    if ":" in home:
        return None
    if home.startswith("~/") and environ.get("HOME"):
        return Path(environ["HOME"], home[2:])
    return Path(home).expanduser()


def _key_in(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if os.name == "posix" and stat.S_IMODE(found.st_mode) & 0o077:
                raise Forbidden(f"{path} can be read by others", f"chmod 600 {path}")
            raw = file.read(PROVIDER_KEY_BYTES_MAX + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Forbidden(
            f"{path} cannot be read: {error.strerror}", "repair or delete it"
        ) from error
    if len(raw) > PROVIDER_KEY_BYTES_MAX:
        raise Invalid(f"{path} holds more than a key", f"at most {PROVIDER_KEY_BYTES_MAX:,} bytes")
    return raw.decode(errors="replace").strip()


GROUP = "contextrelay.providers"
VARIABLE = "RELAY_MODEL"
DEFAULT = "anthropic"

Opens = Callable[[str, Mapping[str, str]], Provider]

BUILT_IN: dict[str, str] = {
    "anthropic": "contextrelay.runs.providers.anthropic:Anthropic",
    "cli": "contextrelay.runs.providers.cli:open_cli",
    "echo": "contextrelay.runs.providers.echo:open_echo",
    "llm": "contextrelay.runs.providers.llm:Llm",
    "ollama": "contextrelay.runs.providers.ollama:Ollama",
    "openai": "contextrelay.runs.providers.openai:open_openai",
    "openai-chat": "contextrelay.runs.providers.openai:OpenAIChat",
    "openai-responses": "contextrelay.runs.providers.openai:OpenAIResponses",
}


def open_provider(text: str | None, *, environ: Mapping[str, str]) -> Provider:
    """The provider of `NAME[:MODEL]`; without one that of RELAY_MODEL, else anthropic.

    Raises:
        Invalid: there is no provider of this name, or it cannot be loaded.
        Forbidden: it needs a key, and there is none.
    """
    text = text or environ.get(VARIABLE) or DEFAULT
    if len(text) > LABEL_CHARS_MAX or not text.isprintable():
        raise Invalid("that is no name of a model", "write PROVIDER or PROVIDER:MODEL")
    name, _, model = text.partition(":")
    return _find(name)(model, environ)


def provider_names() -> list[str]:
    """Every provider that can be named, those of packages too."""
    from importlib.metadata import entry_points

    return sorted({*BUILT_IN, *(each.name for each in entry_points(group=GROUP))})


def _find(name: str) -> Opens:
    target = BUILT_IN.get(name)
    if target is not None:
        module, _, attribute = target.partition(":")
        return getattr(import_module(module), attribute)
    from importlib.metadata import entry_points

    for entry in entry_points(group=GROUP, name=name):
        try:
            loaded: Any = entry.load()
        except Exception as error:
            raise Invalid(
                f"the provider {name} of {entry.value} cannot be loaded: {error}",
                "update or remove its package",
            ) from error
        return loaded
    from difflib import get_close_matches

    known = provider_names()
    close = get_close_matches(name, known, 1, 0.6)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
    raise Invalid(f"there is no provider {name!r}", hint)
