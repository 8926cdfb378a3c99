"""Places: which artifact or thread a model means.

An artifact is named by its ref, the first six characters of it or more, a URL that ends in
`/pull/<ref>` (with `#key=` where it is sealed), or `ctx://<ref>`. A thread by its id, the beginning
of it, or its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from contextrelay.client.relay import AsyncRelay
from contextrelay.client.transport.address import is_server, server_at
from contextrelay.errors import Invalid, NotFound
from contextrelay.limits import LABEL_CHARS_MAX, OTHER_SERVERS_MAX, URL_CHARS_MAX
from contextrelay.logic.seal.keys import SealKey, split_key
from contextrelay.model.ref import is_ref, parse_ref
from contextrelay.wire.verbs import ShowThread

if TYPE_CHECKING:
    from contextrelay.doors.mcp.tool import Visit

SCHEME = "ctx://"
_PULL = "/pull/"
_PREFIX_CHARS_MIN = 6
_DIGITS = frozenset("0123456789abcdef-")


class Others:
    """Relays at other servers, asked without a key: ours is for our own."""

    def __init__(self) -> None:
        self._relays: dict[str, AsyncRelay] = {}

    async def relay_at(self, place: str) -> AsyncRelay:
        relay = self._relays.get(place)
        if relay is None:
            relay = AsyncRelay(place, api_key="")
            if len(self._relays) >= OTHER_SERVERS_MAX:
                await self._relays.pop(next(iter(self._relays))).close()
            self._relays[place] = relay
        return relay

    async def close(self) -> None:
        while self._relays:
            await self._relays.popitem()[1].close()


class Named(Struct, frozen=True):
    """An artifact that was named: where it is, its ref, and the key if it is sealed."""

    relay: AsyncRelay
    ref: str
    key: SealKey | None = None
    is_elsewhere: bool = False

    @property
    def url(self) -> str:
        """What the client pulls it by, and opens it with."""
        return self.ref + (self.key.fragment if self.key else "")


async def artifact_of(visit: Visit, text: str) -> Named:
    """The artifact that a model means.

    Raises:
        Invalid: it is no form of a ref, or several start so; NotFound: none does.
        Sealed: there is a place for a key, and what stands there is none.
    """
    if len(text) > URL_CHARS_MAX:
        raise Invalid("this is too long for a URL", "give the URL or ref as it was given to you")
    bare, key = split_key(text.strip())
    bare = bare.removeprefix(SCHEME)
    place, pull, _ = bare.rpartition(_PULL)
    if not pull:
        return Named(visit.relay, await _ref_of(visit.relay, bare), key)
    ref = parse_ref(bare)
    if not is_server(place) or visit.others is None or _is_own(visit.relay, place):
        return Named(visit.relay, ref, key)
    return Named(await visit.others.relay_at(place), ref, key, is_elsewhere=True)


def _is_own(relay: AsyncRelay, place: str) -> bool:
    own = relay.transport.url_of("").removesuffix(_PULL)
    return is_server(own) and server_at(own, "").url == server_at(place, "").url


async def _ref_of(relay: AsyncRelay, text: str) -> str:
    if is_ref(text):
        return text
    prefix = text.lower()
    if not _PREFIX_CHARS_MIN <= len(prefix) <= 36 or set(prefix) - _DIGITS:
        raise Invalid(
            f"{text[:80]!r} is no URL and no ref",
            "give a URL that ends in /pull/<ref>, a ref, or its first six characters or more",
        )
    found = await relay.find(prefix)
    if len(found) > 1:
        some = ", ".join(each.ref[: len(prefix) + 4] for each in found[:3])
        raise Invalid(f"{len(found)} refs start with {prefix}", f"say more of it: {some}")
    if not found:
        raise NotFound(f"no ref starts with {prefix}", "ask whoever gave it to you for all of it")
    return found[0].ref


async def thread_of(relay: AsyncRelay, text: str) -> str:
    """The id of the thread that a model means.

    Raises:
        NotFound: there is none; Invalid: several could be meant.
    """
    text = text.strip()
    if is_ref(text):
        return (await relay.transport.ask(ShowThread(text))).thread_id
    found = await relay.find_threads(text) if 0 < len(text) <= LABEL_CHARS_MAX else []
    named = [view for view in found if view.name == text]
    if named or len(found) == 1:
        return (named or found)[0].thread_id
    if found:
        some = ", ".join(view.thread_id[: len(text) + 4] for view in found[:3])
        raise Invalid(f"{len(found)} threads start with {text}", f"say more of it: {some}")
    raise NotFound(
        f"there is no thread {text[:80]!r}",
        "see what there is with relay_thread_list, or make it with relay_thread_new",
    )
