"""The registry: which providers there are, and the code behind each, imported when it is used.

A provider is one file and a line in `BUILT_IN`, or a package's entry point in the group
`contextrelay.providers`. Either names something that is called with the model (or "" for the
provider's own default) and the environment, and returns a `Provider`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from contextrelay.errors import Invalid
from contextrelay.limits import LABEL_CHARS_MAX
from contextrelay.runs.provider import Provider

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
    "openai": "contextrelay.runs.providers.openai.open:open_openai",
    "openai-chat": "contextrelay.runs.providers.openai.chat:OpenAIChat",
    "openai-responses": "contextrelay.runs.providers.openai.responses:OpenAIResponses",
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
