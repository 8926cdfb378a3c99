"""config list, get, set, path: the settings of a store, in its config.json."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert, to_builtins
from msgspec.json import decode, encode, format

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, arguments
from contextrelay.client.transport.local import default_address
from contextrelay.errors import Invalid, NotFound
from contextrelay.model.settings import Settings
from contextrelay.runs.providers.registry import open_provider
from contextrelay.store.durable_files import make_folder
from contextrelay.store.engine import SETTINGS_NAME, open_engine
from contextrelay.store.write_lock import FileLock

_MEANS = {
    "body_bytes_max": "largest body accepted, in bytes",
    "ttl_s": "default TTL of a push, in seconds",
    "extend_on_read": "renew the TTL of an artifact when it is pulled",
    "hops_max": "maximum capability invocations per thread",
    "fetch_private": "allow http.fetch to reach loopback and private networks",
    "signal_kept_s": "time that a channel keeps a signal, in seconds",
    "signals_kept_max": "number of signals that a channel keeps",
    "ended_kept_s": "time that a finished pipeline run is kept, in seconds",
    "model": "default model: PROVIDER or PROVIDER:MODEL",
    "rounds_max": "maximum model calls in one run",
    "prompt_calls": "model calls over which savings are priced",
    "price_cache_read": "price of a token read from the prompt cache (input token = 1)",
    "price_cache_write": "price of a token written to the prompt cache (input token = 1)",
    "price_output": "price of an output token (input token = 1)",
}
_WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


def config_list(args: Namespace, console: Console) -> None:
    """List all settings with their values and descriptions."""
    settings = _settings(_path(console))
    values: dict[str, Any] = to_builtins(settings)
    lines = [
        f"{key:16} {_shown(value):12} {_MEANS[key]}"
        + (
            ""
            if value == (default := getattr(Settings(), key))
            else f" (default: {_shown(default)})"
        )
        for key, value in values.items()
    ]
    plain = "\n".join(f"{key}={_shown(value)}" for key, value in values.items())
    console.answer(settings, lines, plain)


def _shown(value: Any) -> str:
    return encode(value).decode()


@arguments(arg("key", metavar="KEY"))
def config_get(args: Namespace, console: Console) -> None:
    """Print one setting."""
    settings = _settings(_path(console))
    value = getattr(settings, _known(args.key))
    console.answer(value, _shown(value), _shown(value))


@arguments(
    arg("key", metavar="KEY"),
    arg("value", metavar="VALUE", help="the new value; `default` resets it"),
)
def config_set(args: Namespace, console: Console) -> None:
    """Change a setting for everyone who uses this store."""
    path, key = _path(console), _known(args.key)
    if key == "model" and args.value not in ("", "default"):
        open_provider(args.value, environ=os.environ)
    make_folder(path.parent)
    # The lock keeps two concurrent changes of different settings from overwriting each other.
    with FileLock(path.with_suffix(".lock")):
        settings = _changed(_settings(path), key, args.value)
        display.save(str(path), [format(encode(settings), indent=2) + b"\n"])
    shown = _shown(getattr(settings, key))
    console.answer(settings, f"{key} = {shown}", shown)


def _changed(settings: Settings, key: str, text: str) -> Settings:
    values: dict[str, Any] = to_builtins(settings)
    values[key] = _WORDS.get(text.lower(), text)
    if text == "default":
        values[key] = getattr(Settings(), key)
    try:
        return convert(values, Settings, strict=False)
    except ValidationError as error:
        default = _shown(getattr(Settings(), key))
        means = f"{key}: {_MEANS[key]}; default: {default}"
        reason = str(error).partition(" - at")[0].replace("`", "")
        raise Invalid(f"invalid value {text!r} for {key}: {reason.lower()}", means) from error


def config_path(args: Namespace, console: Console) -> None:
    """Print the path of config.json, even if the file does not exist."""
    path = str(_path(console))
    console.answer({"path": path}, path, path)


def _path(console: Console) -> Path:
    """Return the path of config.json without opening the store, because invalid settings prevent
    opening.
    """
    engine = open_engine(
        console.own_address("settings are stored in the folder of a store") or default_address()
    )
    engine.close()
    if engine.home is None:
        raise Invalid("only a store in a folder has a config.json", "use --store FOLDER")
    return engine.home / SETTINGS_NAME


def _settings(path: Path) -> Settings:
    try:
        return decode(path.read_bytes(), type=Settings) if path.exists() else Settings()
    except (OSError, ValueError) as error:
        raise Invalid(f"cannot read {path}: {error}", "repair or delete it") from error


def _known(key: str) -> str:
    from difflib import get_close_matches

    known = Settings.__struct_fields__
    if key not in known:
        close = get_close_matches(key, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"settings: {', '.join(known)}"
        raise NotFound(f"unknown setting {key!r}", hint)
    return key
