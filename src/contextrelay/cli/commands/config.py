"""config list, get, set, path: the choices of a store, in its config.json."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from msgspec import ValidationError, convert, to_builtins
from msgspec.json import decode, encode, format

from contextrelay.cli import display
from contextrelay.cli.console import Console
from contextrelay.cli.parser import arg, takes
from contextrelay.client.transport.local import default_address
from contextrelay.errors import Invalid, NotFound
from contextrelay.model.settings import Settings
from contextrelay.runs.providers.registry import open_provider
from contextrelay.store.durable_files import make_folder
from contextrelay.store.engine import SETTINGS_NAME, open_engine
from contextrelay.store.write_lock import FileLock

_MEANS = {
    "body_bytes_max": "the largest body that is taken, in bytes",
    "ttl_s": "how long a push lives if it does not say, in seconds",
    "extend_on_read": "whether a pull renews the lease of what it reads",
    "hops_max": "how many capabilities may be invoked in one thread",
    "fetch_private": "whether http.fetch may reach loopback and private networks",
    "signal_kept_s": "how long a channel keeps a signal, in seconds",
    "signals_kept_max": "how many signals a channel keeps",
    "ended_kept_s": "how long a pipeline's run is kept after its end, in seconds",
    "model": "which model is asked if none is named: PROVIDER or PROVIDER:MODEL",
    "rounds_max": "how often a model is asked in one run",
    "prompt_calls": "over how many calls of a model savings are priced",
    "price_cache_read": "of a token in a cached prompt, where an input token costs 1",
    "price_cache_write": "of a token that is new in a cached prompt",
    "price_output": "of a token that a model writes",
}
_WORDS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


def config_list(args: Namespace, console: Console) -> None:
    """List every setting, its value and what it means."""
    settings = _settings(_path(console))
    values: dict[str, Any] = to_builtins(settings)
    lines = [
        f"{key:16} {_shown(value):12} {_MEANS[key]}"
        + (
            ""
            if value == (default := getattr(Settings(), key))
            else f" (set; the default is {_shown(default)})"
        )
        for key, value in values.items()
    ]
    plain = "\n".join(f"{key}={_shown(value)}" for key, value in values.items())
    console.answer(settings, lines, plain)


def _shown(value: Any) -> str:
    return encode(value).decode()


@takes(arg("key", metavar="KEY"))
def config_get(args: Namespace, console: Console) -> None:
    """Print one setting."""
    settings = _settings(_path(console))
    value = getattr(settings, _known(args.key))
    console.answer(value, _shown(value), _shown(value))


@takes(arg("key", metavar="KEY"), arg("value", metavar="VALUE", help="`default` takes it back"))
def config_set(args: Namespace, console: Console) -> None:
    """Change a setting, for all who use this store from now on."""
    path, key = _path(console), _known(args.key)
    if key == "model" and args.value not in ("", "default"):
        open_provider(args.value, environ=os.environ)
    make_folder(path.parent)
    # Of two who change different settings at once, neither is to lose its change.
    with FileLock(path.with_suffix(".lock")):
        settings = _changed(_settings(path), key, args.value)
        display.save(str(path), [format(encode(settings), indent=2) + b"\n"])
    shown = _shown(getattr(settings, key))
    console.answer(settings, f"{key} is {shown}", shown)


def _changed(settings: Settings, key: str, text: str) -> Settings:
    values: dict[str, Any] = to_builtins(settings)
    values[key] = _WORDS.get(text.lower(), text)
    if text == "default":
        values[key] = getattr(Settings(), key)
    try:
        return convert(values, Settings, strict=False)
    except ValidationError as error:
        default = _shown(getattr(Settings(), key))
        means = f"{key} is {_MEANS[key]}; like {default}, the default"
        reason = str(error).partition(" - at")[0].replace("`", "")
        raise Invalid(f"{key} cannot be {text!r}: {reason.lower()}", means) from error


def config_path(args: Namespace, console: Console) -> None:
    """Print where config.json is, or would be."""
    path = str(_path(console))
    console.answer({"path": path}, path, path)


def _path(console: Console) -> Path:
    """Where the settings are; the store itself is not opened with them, so that they can be bad."""
    engine = open_engine(
        console.own_address("settings are a file of the store") or default_address()
    )
    engine.close()
    if engine.home is None:
        raise Invalid("only a store in a folder has a config.json", "use --store FOLDER")
    return engine.home / SETTINGS_NAME


def _settings(path: Path) -> Settings:
    try:
        return decode(path.read_bytes(), type=Settings) if path.exists() else Settings()
    except (OSError, ValueError) as error:
        raise Invalid(f"{path} cannot be used: {error}", "repair or delete it") from error


def _known(key: str) -> str:
    from difflib import get_close_matches

    known = Settings.__struct_fields__
    if key not in known:
        close = get_close_matches(key, known, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
        raise NotFound(f"there is no setting {key!r}", hint)
    return key
