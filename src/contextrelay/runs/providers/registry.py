"""Accounts and names of providers: their addresses, keys and factories.

Rule: a key is read for a model call and sent only to its provider. A key is in no repr and no
error, and is removed from the messages of the provider.
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
NO_KEY_NEEDED = "without a key, use -m ollama (a local model) or -m echo (offline test)"
ANOTHER = "or use another with -m (ollama and echo need no key)"
# If this many consecutive characters of a secret are shown, a part of it is revealed. The same
# applies to its end.
_SECRET_CHARS = 6
_SECRET_END_CHARS = 4
# The number of characters of a foreign error that are scanned for secrets.
_READ_CHARS = 20 * PROVIDER_ERROR_CHARS_MAX


class Account:
    """A provider with its address and its key."""

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
            raise Invalid(
                f"invalid URL of {name}: {url!r}", "the URL must start with http:// or https://"
            )
        self.name = name
        self.variable = variable
        self.url = url
        self.url_variable = url_variable
        self.host = parts.hostname
        self.is_own = self.host == own_host
        """True for the server of the vendor itself, False for another server with the same API."""
        self._environ = environ
        self._key: str | None = None
        self._password = unquote(parts.password or "")

    @property
    def is_local(self) -> bool:
        """Return True if the server is on this machine."""
        return self.host in LOOPBACK

    @property
    def key_path(self) -> Path | None:
        """Return the path of the key file, or None. For servers of others, the key of a vendor is
        not used.
        """
        home = home_folder(self._environ)
        name = self.name if self.is_own else self.host.replace(":", "-")
        return None if home is None else home / f"{name}.key"

    def key(self) -> str:
        """Return the API key.

        Raises:
            Forbidden: there is no key, or its file is readable by others.
        """
        found = self.key_if_any()
        if found:
            return found
        path = self.key_path
        file = f", or write it to {path} (chmod 600)" if path else ""
        raise Forbidden(
            f"no API key for {self.name}",
            f"set {self.variable}{file}; {NO_KEY_NEEDED}",
            status=401,
        )

    def key_if_any(self) -> str:
        """Return the API key from the environment, or else from the key file, or "".

        Raises:
            Forbidden: the file is readable by others.
            Invalid: the content of the file is not a key.
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
            raise Invalid(f"invalid API key in {place}", "a key is one word of plain characters")
        return key

    def said(self, text: str) -> str:
        """Return a message of the provider, shortened, without words that contain a part of a
        secret.
        """
        text = text[:_READ_CHARS]
        for secret in filter(None, (self._key, self._password)):
            text = _without(secret.lower(), text)
        return " ".join(text.split())[:PROVIDER_ERROR_CHARS_MAX]


def _without(secret: str, text: str) -> str:
    """Return a text in which each word that contains a part of a secret is replaced by `***`."""
    length = min(_SECRET_CHARS, len(secret))
    parts = {secret[start : start + length] for start in range(len(secret) - length + 1)}
    end = secret[-_SECRET_END_CHARS:]

    def replaced(word: re.Match[str]) -> str:
        found = word[0].lower()
        pieces = (found[start : start + length] for start in range(len(found) - length + 1))
        return "***" if end in found or not parts.isdisjoint(pieces) else word[0]

    return re.sub(r"\S+", replaced, text)


def home_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of RELAY_HOME, or ~/.relay, or None if RELAY_HOME is not a folder."""
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
                raise Forbidden(
                    f"{path} is readable by others", f"make it private: chmod 600 {path}"
                )
            raw = file.read(PROVIDER_KEY_BYTES_MAX + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise Forbidden(f"cannot read {path}: {error.strerror}", "repair or delete it") from error
    if len(raw) > PROVIDER_KEY_BYTES_MAX:
        raise Invalid(
            f"{path} is too long for a key", f"the limit is {PROVIDER_KEY_BYTES_MAX:,} bytes"
        )
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
    """Open the provider `NAME[:MODEL]`. The default is that of RELAY_MODEL, or else anthropic.

    Raises:
        Invalid: the provider is unknown or cannot be loaded.
        Forbidden: the provider needs an API key, and there is none.
    """
    text = text or environ.get(VARIABLE) or DEFAULT
    if len(text) > LABEL_CHARS_MAX or not text.isprintable():
        raise Invalid("invalid model name", "use PROVIDER or PROVIDER:MODEL")
    name, _, model = text.partition(":")
    return _find(name)(model, environ)


def provider_names() -> list[str]:
    """Return the names of all providers, including those of other packages."""
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
                f"cannot load the provider {name} from {entry.value}: {error}",
                "update or remove its package",
            ) from error
        return loaded
    from difflib import get_close_matches

    known = provider_names()
    close = get_close_matches(name, known, 1, 0.6)
    hint = f"did you mean {close[0]}?" if close else f"providers: {', '.join(known)}"
    raise Invalid(f"unknown provider {name!r}", hint)
