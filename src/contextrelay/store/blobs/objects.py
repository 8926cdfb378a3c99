"""Blobs in an object store: S3 and compatible ones, Azure, Google Cloud Storage.

    blobs/<name>                   a body of up to OBJECT_PART_BYTES
    large/<name>/<draft>-<size>    empty: names the draft that is this body, and its size
    parts/<draft>/<NNNNN>          the parts of a larger body, all but the last of OBJECT_PART_BYTES
    gone/<draft>                   empty: the draft was cleaned up and can no longer become a body

The name of a body is known only after its last byte, and objects cannot be renamed. So a large body
is several objects and one that names them; nothing is copied. Multipart uploads are not used, so a
crash leaves only objects, which `tidy` finds.

Rule: to keep a draft, first name it and then check whether it is gone. To clean up a draft, first
mark it as gone and then check whether it has a name. So at least one of the two notices the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

import obstore
from obstore import exceptions as foreign
from obstore.store import from_url

from contextrelay.errors import Broken, Full, Invalid, RelayError, Unavailable
from contextrelay.limits import CHUNK_BYTES, MIB
from contextrelay.store.blobs import BlobFact, Blobs

# The part size of a body in an object store, in bytes. A draft holds one part in memory.
OBJECT_PART_BYTES = 8 * MIB
OBJECT_RETRIES_MAX = 4
LARGE_BLOBS_KNOWN_MAX = 10_000


Answer = TypeVar("Answer")
_list: Callable[..., Any] = cast(Any, obstore).list

BATCH = 1_000
AGAIN_S_MAX = 15
"""The number of seconds after which a failed request is not sent again, because a caller waits for
it.
"""
_REFUSED = (foreign.PermissionDeniedError, foreign.UnauthenticatedError)
WORDS_CHARS_MAX = 300
# The read timeout detects a server that accepts a request and then stalls.
_CLIENT = {"timeout": "60 seconds", "connect_timeout": "5 seconds", "read_timeout": "10 seconds"}


def without_options(url: str) -> str:
    """Return an address without credentials and options, for display."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"


class ObjectBlobs:
    """Blobs under a prefix of a bucket. Holds on these blobs are stored by the ledger's engine."""

    def __init__(self, url: str, keeper: Blobs, part_bytes: int = OBJECT_PART_BYTES) -> None:
        plain, _, query = url.partition("?")
        self.address = without_options(url)
        options: dict[str, Any] = dict(parse_qsl(query))
        is_plain = str(options.get("endpoint", "")).startswith("http://")
        client = {**_CLIENT, "allow_http": "true"} if is_plain else _CLIENT
        self._part_bytes = part_bytes
        self._keeper = keeper
        self._large: dict[str, tuple[str, int]] = {}
        try:
            self._store: Any = cast(Any, from_url)(
                plain,
                client_options=client,
                retry_config={
                    "max_retries": OBJECT_RETRIES_MAX,
                    "retry_timeout": timedelta(seconds=AGAIN_S_MAX),
                },
                **options,
            )
        except (foreign.BaseError, ValueError, TypeError) as error:
            raise Invalid(
                f"invalid address of bodies: {self.address}",
                "see docs/engines.md",
                place=str(error),
            ) from error

    def open(self) -> None:
        """Check that the bucket is accessible.

        Raises:
            Unavailable: the server is unreachable, denies access, or has no such bucket.
        """
        self._guard(lambda: next(iter(_list(self._store, "blobs", chunk_size=1)), None))

    @contextmanager
    def draft(self) -> Generator[_ObjectDraft]:
        draft = _ObjectDraft(self, self._part_bytes)
        try:
            yield draft
        finally:
            if not draft.kept and draft.parts:
                # Ignore errors, so that they do not hide another error; `tidy` deletes the parts
                # later.
                with suppress(RelayError):
                    self.remove(draft.part_name(number) for number in range(draft.parts))

    def read(
        self, name: str, start: int, stop: int, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        if start >= stop:
            return
        if name not in self._large:
            try:
                yield from self._bytes(f"blobs/{name}", start, stop, chunk_bytes)
                return
            except FileNotFoundError:
                self._large[name] = self._find_large(name)
        draft, size_bytes = self._large[name]
        if size_bytes < stop:
            raise Broken(f"blob {name} is too short: {size_bytes} bytes")
        for number in range(start // self._part_bytes, (stop - 1) // self._part_bytes + 1):
            begin = number * self._part_bytes
            first, last = max(start - begin, 0), min(stop - begin, self._part_bytes)
            try:
                yield from self._bytes(_part_name(draft, number), first, last, chunk_bytes)
            except FileNotFoundError as error:
                raise Broken(f"blob {name} was deleted while it was read") from error

    def stored_bytes(self, name: str) -> int:
        try:
            found: Any = self._guard(lambda: obstore.head(self._store, f"blobs/{name}"))
        except FileNotFoundError:
            draft, _ = self._find_large(name)
            return sum(each["size"] for each in self._listed(f"parts/{draft}"))
        return found["size"]

    def delete(self, name: str) -> None:
        with self._keeper.deleting() as may_delete:
            if not may_delete:
                return
            self._large.pop(name, None)
            self.remove([f"blobs/{name}"])
            # Delete the object with the name first, because `tidy` finds a draft without a name.
            for fact in self._listed(f"large/{name}"):
                draft, _ = _parse_pointer(fact["path"])
                self.remove([fact["path"]])
                self.remove(each["path"] for each in self._listed(f"parts/{draft}"))

    def walk(self) -> Iterator[BlobFact]:
        for fact in self._listed("blobs"):
            yield BlobFact(fact["path"].rpartition("/")[2], fact["size"], _written_ms(fact))
        for fact in self._listed("large"):
            size_bytes = _parse_pointer(fact["path"])[1]
            yield BlobFact(fact["path"].split("/")[-2], size_bytes, _written_ms(fact))

    def tidy(self, before_ms: int) -> int:
        markers = [each["path"] for each in self._listed("gone") if _written_ms(each) < before_ms]
        parts: dict[str, list[str]] = {}
        newest_ms: dict[str, int] = {}
        for fact in self._listed("parts"):
            draft = fact["path"].split("/")[-2]
            parts.setdefault(draft, []).append(fact["path"])
            newest_ms[draft] = max(newest_ms.get(draft, 0), _written_ms(fact))
        old = {draft for draft in parts if newest_ms[draft] < before_ms} - self._named()
        for draft in old:
            self.put(f"gone/{draft}", b"")
        gone = old - self._named() if old else old
        self.remove(path for draft in gone for path in parts[draft])
        self.remove([*markers, *(f"gone/{draft}" for draft in old - gone)])
        return len(gone)

    def hold(self) -> AbstractContextManager[None]:
        return self._keeper.hold()

    def deleting(self) -> AbstractContextManager[bool]:
        return self._keeper.deleting()

    def close(self) -> None:
        self._keeper.close()

    # Drafts

    def put(self, path: str, content: bytes) -> None:
        """Create an object. After a lost reply, the object may already exist with the same size."""
        try:
            self._put(path, content)
        except foreign.AlreadyExistsError as error:
            found: Any = self._guard(lambda: obstore.head(self._store, path))
            if found["size"] != len(content):
                raise Broken(f"{path} already exists with another size") from error

    def _put(self, path: str, content: bytes) -> None:
        """Upload an object.

        If the connection was cut, upload it again, because obstore does not always retry.
        """
        began_s = time.monotonic()
        for attempt in range(OBJECT_RETRIES_MAX + 1):
            try:
                self._guard(
                    lambda: obstore.put(
                        self._store, path, content, mode="create", use_multipart=False
                    )
                )
                return
            except Unavailable as error:
                is_late = time.monotonic() - began_s > AGAIN_S_MAX
                if attempt == OBJECT_RETRIES_MAX or is_late or not _was_cut(error.__cause__):
                    raise
            time.sleep(0.05 * 2**attempt)

    def name(self, name: str, draft: str, size_bytes: int) -> bool:
        """Turn a complete draft into a named blob; return False if the blob exists."""
        if next(self._listed(f"large/{name}"), None) is not None:
            return False
        pointer = f"large/{name}/{draft}-{size_bytes}"
        self.put(pointer, b"")
        try:
            self._guard(lambda: obstore.head(self._store, f"gone/{draft}"))
        except FileNotFoundError:
            return True
        self.remove([pointer])
        raise Unavailable("the draft was deleted before it was kept", "push again")

    def remove(self, paths: Iterable[str]) -> None:
        batch: list[str] = []
        for path in paths:
            batch.append(path)
            if len(batch) == BATCH:
                self._remove(batch)
                batch = []
        self._remove(batch)

    def _remove(self, paths: list[str]) -> None:
        if paths:
            # Some stores report an error for a missing object, and would not delete the other
            # objects.
            with suppress(FileNotFoundError):
                self._guard(lambda: obstore.delete(self._store, paths))

    # Requests

    def _find_large(self, name: str) -> tuple[str, int]:
        if len(self._large) >= LARGE_BLOBS_KNOWN_MAX:
            self._large.clear()
        for fact in self._listed(f"large/{name}"):
            return _parse_pointer(fact["path"])
        raise Broken(f"blob {name} is missing")

    def _named(self) -> set[str]:
        return {_parse_pointer(fact["path"])[0] for fact in self._listed("large")}

    def _listed(self, prefix: str) -> Iterator[dict[str, Any]]:
        pages = iter(_list(self._store, prefix, chunk_size=BATCH))
        while (page := self._guard(lambda: next(pages, None))) is not None:
            yield from page

    def _bytes(self, path: str, start: int, stop: int, chunk_bytes: int) -> Iterator[bytes]:
        """Yield the bytes start:stop of an object. If a reply is cut off, request the rest."""
        for attempt in range(OBJECT_RETRIES_MAX + 1):
            asked_s = time.monotonic()
            try:
                for chunk in self._stream(path, start, stop, chunk_bytes):
                    start += len(chunk)
                    yield chunk
                    asked_s = time.monotonic()
                return
            except Unavailable:
                is_late = time.monotonic() - asked_s > AGAIN_S_MAX
                if attempt == OBJECT_RETRIES_MAX or is_late:
                    raise
                time.sleep(0.05 * 2**attempt)

    def _stream(self, path: str, start: int, stop: int, chunk_bytes: int) -> Iterator[bytes]:
        options = {"range": (start, stop)}
        found: Any = self._guard(lambda: obstore.get(self._store, path, options=cast(Any, options)))
        if found.meta["size"] < stop:
            raise Broken(f"{path} is too short: {found.meta['size']} bytes")
        stream = iter(found.stream(min_chunk_size=chunk_bytes))
        while start < stop:
            piece = self._guard(lambda: next(stream, None))
            if not piece:
                raise Unavailable("the response of the store's server was cut off", "try again")
            view = memoryview(piece)
            for at in range(0, len(view), chunk_bytes):
                yield bytes(view[at : at + chunk_bytes])
            start += len(view)

    def _guard(self, act: Callable[[], Answer]) -> Answer:
        try:
            return act()
        except FileNotFoundError as error:
            if not _names_bucket(error):
                raise
            raise _convert_error(error, self.address) from error
        except foreign.AlreadyExistsError:
            raise
        except foreign.BaseError as error:
            raise _convert_error(error, self.address) from error


class _ObjectDraft:
    def __init__(self, blobs: ObjectBlobs, part_bytes: int) -> None:
        self.kept = False
        self.parts = 0
        self._id = os.urandom(16).hex()
        self._blobs = blobs
        self._part_bytes = part_bytes
        self._waiting = bytearray()

    def part_name(self, number: int) -> str:
        return _part_name(self._id, number)

    def write(self, chunk: bytes | memoryview) -> None:
        self._waiting += chunk
        while len(self._waiting) >= self._part_bytes:
            self._send(self._part_bytes)

    def keep(self, name: str) -> None:
        if not self.parts:
            self._blobs.put(f"blobs/{name}", bytes(self._waiting))
            self.kept = True
        else:
            size_bytes = self.parts * self._part_bytes + len(self._waiting)
            if self._waiting:
                self._send(len(self._waiting))
            self.kept = self._blobs.name(name, self._id, size_bytes)

    def _send(self, size_bytes: int) -> None:
        self._blobs.put(self.part_name(self.parts), bytes(self._waiting[:size_bytes]))
        self.parts += 1
        del self._waiting[:size_bytes]


def _part_name(draft: str, number: int) -> str:
    return f"parts/{draft}/{number:05}"


def _parse_pointer(path: str) -> tuple[str, int]:
    """Return the draft and the size in the path of an object under large/."""
    draft, _, size_bytes = path.rpartition("/")[2].partition("-")
    return draft, int(size_bytes)


def _written_ms(fact: dict[str, Any]) -> int:
    return int(fact["last_modified"].timestamp() * 1_000)


def _names_bucket(error: Exception) -> bool:
    return any(word in str(error) for word in ("NoSuchBucket", "ContainerNotFound"))


def _was_cut(error: BaseException | None) -> bool:
    return "error sending request" in str(error)


def _convert_error(error: Exception, address: str) -> RelayError:
    words = " ".join(str(error).partition("Debug source")[0].split())[:WORDS_CHARS_MAX]
    place = f"{address}: {words}"
    # obstore raises a generic error with this text if listing objects is not allowed.
    is_refused = "403 Forbidden" in words or "401 Unauthorized" in words
    if is_refused or isinstance(error, _REFUSED):
        return Unavailable(
            "access to the object store was denied",
            "check the credentials in the environment (AWS_ACCESS_KEY_ID, "
            "AZURE_STORAGE_ACCOUNT_KEY ...) and their permissions",
            place=place,
        )
    if _names_bucket(error):
        return Unavailable("bucket not found", "create it first", place=place)
    if "InvalidRange" in words:
        return Broken("a body is too short", "check the store: relay verify", place=place)
    if "507 Insufficient Storage" in words:
        return Full("the object store is full", "free some space", place=place)
    return Unavailable(
        "the object store did not respond as expected",
        "check that it is running, then try again",
        place=place,
    )
