"""Engines: open the ledger and blobs of an address.

memory:            in this process only; memory:NAME is shared within the process
~/.relay, /path    SQLite and files in that folder; sqlite:///path is the same
redis://host/0     Redis or Valkey, single or cluster (also rediss://, valkey://); several stores
                   share a server with ?prefix=NAME, the prefix of all their keys
redis+sentinel://h1,h2,h3/name
                   the master that sentinels name (store/redis/address.py has the options)
postgresql://host/database
                   PostgreSQL; ?prefix=NAME is the schema of a store

The blobs may be elsewhere: in a folder, or in s3://bucket/prefix, gs:// or az:// (?endpoint=URL and
other options of obstore). The ledger stores the address of the blobs, so it is passed only once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct, ValidationError
from msgspec.json import decode
from msgspec.structs import replace

from contextrelay.errors import Broken, Full, Invalid, RelayError
from contextrelay.model.settings import Settings
from contextrelay.store.blobs import Blobs
from contextrelay.store.durable_files import Reserve
from contextrelay.store.ledger import LOCK_LOG, ONLY, PLACE_KIND, Ledger, Row, Stale, Write
from contextrelay.store.ledger.view import SettledLedger
from contextrelay.store.server_address import check_server

if TYPE_CHECKING:
    from contextrelay.store.blobs.files import FileBlobs
    from contextrelay.store.blobs.objects import ObjectBlobs

DATABASE_NAME = "relay.db"
SETTINGS_NAME = "config.json"


class Engine(Struct, frozen=True):
    """The ledger and the blobs of a store."""

    address: str
    """The address that was passed, without a password."""
    ledger: Ledger
    blobs: Blobs
    reserve: Reserve | None = None
    home: Path | None = None
    """The folder of an embedded store; None for other engines."""
    is_read_only: bool = False
    """Whether the store cannot be written. Reads work, but are not counted."""
    is_shared: bool = False
    """Whether processes on other machines may use the store too."""
    url: str = ""
    """The address of a shared engine with user, password and options, to open the engine again.

    It is never shown.
    """
    advise: Callable[[], list[str]] = list
    """A function that returns advice on the server's settings, with next steps after "; "."""

    def close(self) -> None:
        self.ledger.close()
        self.blobs.close()


def open_engine(address: str, blobs: str = "", *, is_source: bool = False) -> Engine:
    """Open the engine at an address; create an embedded store if it does not exist.

    `blobs`: the address of the large bodies, if they are not stored with the ledger. `is_source`:
    the store is the source of a migration, and may have an old layout that can only be read.

    Raises:
        Invalid: the address is invalid, or the blobs are at another address.
    """
    engine = _open_without_blobs(address, is_source)
    if engine.is_shared:
        engine = replace(engine, url=address.strip())
    try:
        place = _blobs_address(engine)
        if place is None and blobs:
            place = _store_blobs_address(engine, blobs)
        if place is None:
            return engine
        return _with_blobs(engine, place.decode(), blobs)
    except BaseException:
        engine.close()
        raise


def is_there(address: str) -> bool:
    """Return False if opening the address would create a new store in a folder."""
    scheme, colon, rest = address.partition(":")
    if colon and scheme != "sqlite" and "/" not in scheme:
        return True
    folder = _path_in(address, rest) if scheme == "sqlite" and colon else Path(address)
    return (folder.expanduser() / DATABASE_NAME).exists()


def _blobs_address(engine: Engine) -> bytes | None:
    try:
        return engine.ledger.get(LOCK_LOG, PLACE_KIND, ONLY)
    except Broken:
        return None  # A damaged store can still be inspected; verbs report the damage.


def _store_blobs_address(engine: Engine, blobs: str) -> bytes:
    """Store the address of the blobs of a store without large bodies; return the stored one."""
    if next(engine.blobs.walk(), None) is not None:
        raise Invalid(
            "the store already has large bodies in its default location",
            "create a new store with --blobs and copy this one: relay backup, relay restore",
        )
    _open_blobs(engine, blobs).open()
    place = without_secrets(blobs).encode()
    try:
        row = Row(PLACE_KIND, ONLY, place)
        engine.ledger.commit(Write(LOCK_LOG, (b"",), (row,), expect=0))
    except Stale:  # Another process stored an address at the same time.
        return engine.ledger.get(LOCK_LOG, PLACE_KIND, ONLY) or place
    return place


def _with_blobs(engine: Engine, place: str, asked: str) -> Engine:
    wanted = without_secrets(asked) if asked else place
    if wanted.partition("?")[0] != place.partition("?")[0]:
        raise Invalid(
            f"the large bodies of this store are in {place.partition('?')[0]}",
            "omit --blobs and RELAY_BLOBS, or pass that address",
        )
    blobs = _open_blobs(engine, asked or place)
    if wanted != place:
        _replace_blobs_address(engine, place, wanted, blobs)
    return replace(engine, blobs=blobs)


def _replace_blobs_address(engine: Engine, old: str, new: str, blobs: Blobs) -> None:
    """Store a new address for the blobs of a store, for example a new endpoint.

    Raises:
        Invalid: the blobs are not at the new address, or this cannot be checked.
    """
    if next(blobs.walk(), None) is None:
        try:
            is_lost = next(_open_blobs(engine, old).walk(), None) is not None
        except RelayError:
            is_lost = True
        if is_lost:
            raise Invalid(
                f"the large bodies of this store are not in {new}",
                f"copy them there first, or pass the previous address: {old}",
            )
    engine.ledger.commit(Write(LOCK_LOG, rows=(Row(PLACE_KIND, ONLY, new.encode()),)))


def settings_in(home: Path | None) -> Settings:
    """Return the settings in the folder of a store, or the defaults if there are none.

    Raises:
        Invalid: the settings cannot be read.
    """
    path = Path() if home is None else home / SETTINGS_NAME
    if home is None or not path.exists():
        return Settings()
    try:
        return decode(path.read_bytes(), type=Settings)
    except (OSError, ValidationError, ValueError) as error:
        raise Invalid(
            f"invalid settings in {path}: {error}", "correct or delete the file"
        ) from error


def without_secrets(blobs: str) -> str:
    """Return the address of blobs without credentials, which are taken from the environment."""
    plain, _, query = blobs.partition("?")
    options = [(name, value) for name, value in parse_qsl(query) if not _SECRET.search(name)]
    return f"{plain}?{urlencode(sorted(options))}" if options else plain


_SECRET = re.compile("key|secret|token|password|credential|signature", re.IGNORECASE)


def _open_blobs(engine: Engine, blobs: str) -> ObjectBlobs | FileBlobs:
    from contextrelay.store.blobs.files import FileBlobs

    scheme, colon, rest = blobs.partition("://")
    if not colon:
        return FileBlobs(Path(blobs).expanduser().absolute())
    if scheme not in ("s3", "gs", "az"):
        raise Invalid(
            f"unsupported scheme for blobs: {scheme[:20]}://", "use a folder, s3://, gs:// or az://"
        )
    if not rest.partition("?")[0].partition("/")[0]:
        raise Invalid(f"missing bucket in {scheme}://", f"use {scheme}://bucket/prefix")
    try:
        from contextrelay.store.blobs.objects import ObjectBlobs
    except ModuleNotFoundError as error:
        raise _not_installed(blobs, "objects") from error
    return ObjectBlobs(blobs, engine.blobs)


def _open_without_blobs(address: str, is_source: bool) -> Engine:
    scheme, colon, rest = address.partition(":")
    if not address or "\0" in address:
        what = "contains a NUL character" if address else "is empty"
        raise Invalid(f"the store's address {what}", _KNOWN)
    if not colon or "/" in scheme or (os.name == "nt" and len(scheme) == 1):
        return _embedded(Path(address))
    match scheme:
        case "memory":
            return _memory(rest)
        case "sqlite":
            return _embedded(_path_in(address, rest))
        case "redis" | "rediss" | "valkey" | "valkeys":
            return _redis(address, is_source)
        case "redis+sentinel" | "rediss+sentinel" | "valkey+sentinel" | "valkeys+sentinel":
            return _redis(address, is_source)
        case "postgresql" | "postgres":
            return _postgres(address)
        case _:
            raise Invalid(f"unknown scheme {scheme[:20]!r} in a store address", _KNOWN)


_KNOWN = (
    "use a folder, sqlite:///folder, memory:, redis://host:port/0, postgresql://host/database, "
    "or http:// of a server"
)


def _path_in(address: str, rest: str) -> Path:
    if not rest.startswith("///") or len(rest) == 3:
        raise Invalid(f"missing folder in {address[:80]!r}", "use sqlite:///path/to/folder")
    path = rest[2:]
    return Path(path[1:] if path.startswith("/~") else path)


def _embedded(folder: Path) -> Engine:
    from contextrelay.store.blobs.files import FileBlobs
    from contextrelay.store.ledger.sqlite import SqliteLedger

    home = folder.expanduser().absolute()
    try:
        os.fsencode(home)
        is_file = home.exists() and not home.is_dir()
    except (OSError, ValueError) as error:
        raise Invalid(f"invalid folder name: {str(folder)[:80]!r}", _KNOWN) from error
    if is_file:
        raise Invalid(f"{home} is not a folder", "pass the folder that contains relay.db")
    database, blobs = home / DATABASE_NAME, FileBlobs(home / "blobs")
    if not (database.exists() and database.stat().st_size) and next(blobs.walk(), None):
        # A new ledger would not know the existing blobs, and a sweep would delete them as
        # leftovers.
        raise Broken(
            "the database is missing or empty, but its blobs exist",
            "put the file back, or restore a backup elsewhere: relay --store NEW restore FILE",
            place=database,
        )
    reserve = Reserve(home / "reserve")
    try:
        ledger = SqliteLedger(database)
    except Full:
        if not reserve.free():
            raise
        ledger = SqliteLedger(database)
    return Engine(str(folder), ledger, blobs, reserve, home, ledger.is_read_only)


_named_memories: dict[str, Engine] = {}


def _memory(name: str) -> Engine:
    from contextrelay.store.blobs.memory import MemoryBlobs
    from contextrelay.store.ledger.memory import MemoryLedger

    if name in _named_memories:
        return _named_memories[name]
    engine = Engine(f"memory:{name}", MemoryLedger(), MemoryBlobs())
    if name:
        _named_memories[name] = engine
    return engine


def _redis(url: str, is_source: bool) -> Engine:
    try:
        from contextrelay.store.redis import old_layout
        from contextrelay.store.redis.blobs import RedisBlobs
        from contextrelay.store.redis.client import connect
        from contextrelay.store.redis.ledger import SCHEMA, RedisLedger, later_eviction_warnings
    except ModuleNotFoundError as error:
        raise _not_installed(url, "redis") from error
    url = url.strip()
    check_server(url)
    plain, _, query = url.partition("?")
    options = dict(parse_qsl(query))
    prefix = options.pop("prefix", "relay")
    client = connect(f"{plain}?{urlencode(options)}" if options else plain)
    shown = client.address + ("" if prefix == "relay" else f"?prefix={prefix}")
    schema = f"{prefix}:schema"
    try:
        ledger = RedisLedger(client, prefix)
        version = client.ask("GET", schema)
        if version not in (None, SCHEMA):
            raise Broken(
                f"the store has schema {version.decode(errors='replace')[:20]}; this version of "
                f"Context Relay needs {SCHEMA.decode()}",
                "upgrade: pip install --upgrade contextrelay",
                place=client.address,
            )
        if version is None and old_layout.has_old_layout(client, prefix):
            if is_source:
                old = old_layout.OldLayoutLedger(client, prefix)
                return Engine(shown, old, old_layout.OldLayoutBlobs(client, prefix))
            from shlex import quote

            other = f"{client.address}?prefix={prefix}-2"
            raise Broken(
                "the store has the layout of an earlier version",
                f"stop its users, then: relay migrate {quote(shown)} {quote(other)}",
                place=client.address,
            )
        if version is None:
            client.settle("SET", schema, SCHEMA)
    except BaseException:
        client.close()
        raise
    return Engine(
        shown,
        SettledLedger(ledger),
        RedisBlobs(client, prefix),
        is_shared=True,
        advise=lambda: later_eviction_warnings(client),
    )


def _postgres(url: str) -> Engine:
    try:
        from contextrelay.store.postgres.blobs import PostgresBlobs
        from contextrelay.store.postgres.ledger import PostgresLedger
    except ImportError as error:  # psycopg also raises ImportError if it finds no libpq.
        raise _not_installed(url, "postgres") from error
    ledger = PostgresLedger(url)
    client = ledger.client
    return Engine(client.shown, SettledLedger(ledger), PostgresBlobs(client), is_shared=True)


def _not_installed(url: str, extra: str) -> Invalid:
    scheme = url.partition(":")[0]
    return Invalid(
        f"no client for {scheme}:// is installed", f"pip install 'contextrelay[{extra}]'"
    )
