"""The artifact and the thread that a model means, in the forms of client/names.py.

A URL may be that of another server, and may carry the key of what is sealed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from contextrelay.client import names
from contextrelay.client.flow import run_awaited
from contextrelay.client.relay import AsyncRelay
from contextrelay.errors import Invalid
from contextrelay.limits import OTHER_SERVERS_MAX, URL_CHARS_MAX
from contextrelay.seal.keys import SealKey, split_key

if TYPE_CHECKING:
    from contextrelay.mcp.tools.tool import Visit

DOOR = names.Door(
    list_artifacts="relay_artifact_list",
    list_threads="relay_thread_list",
    new_thread="relay_thread_new",
)


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
        Invalid: it is a malformed URL, or several refs start so; NotFound: there is none.
        Sealed: there is a place for a key, and what stands there is none.
    """
    if len(text) > URL_CHARS_MAX:
        raise Invalid("this is too long for a URL", "give the URL or ref as it was given to you")
    relay = visit.relay
    bare, key = split_key(text.strip())
    ref = await run_awaited(relay.transport, names.find_ref(bare, DOOR))
    place = names.other_server(bare, relay.transport.url_of("").removesuffix(names.PULL))
    if place is None or visit.others is None:
        return Named(relay, ref, key)
    return Named(await visit.others.relay_at(place), ref, key, is_elsewhere=True)


async def thread_of(relay: AsyncRelay, text: str) -> str:
    """The id of the thread that a model means.

    Raises:
        NotFound: there is none; Invalid: several ids start so.
    """
    return (await run_awaited(relay.transport, names.find_thread(text, DOOR))).thread_id
