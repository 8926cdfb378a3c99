"""ContextRelay: the client of seed 000: push a text, pass on its URL, pull it elsewhere.

Except for `publish`, this client uses only what the seed's own server supports, so that it works
with other implementations. Without a server it uses the embedded store.

Rule: the API key is sent only to the server that it was given for, never to a URL of another
origin.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlsplit
from weakref import WeakSet

from msgspec import DecodeError
from msgspec.json import decode, encode

from contextrelay.client.flow import Flow
from contextrelay.client.methods import build
from contextrelay.client.relay import Relay
from contextrelay.client.seal import fernet
from contextrelay.client.subscription import Frame, LocalSubscription, Subscription
from contextrelay.client.transport.address import URL_VARIABLE, ServerAddress, is_server, server_at
from contextrelay.client.transport.http_flow import (
    OpenReply,
    Send,
    decoded,
    fetched,
    refuse_error,
    whole,
)
from contextrelay.client.transport.request_body import Outgoing
from contextrelay.errors import Invalid
from contextrelay.limits import (
    JSON_ESCAPE_RATIO_MAX,
    OTHER_SERVERS_MAX,
    REPLY_JSON_BYTES_MAX,
    REPLY_S_DEFAULT,
)
from contextrelay.model.artifact import SealFormat
from contextrelay.model.ref import LOCAL_ORIGIN, parse_ref
from contextrelay.seal.keys import CANNOT_OPEN, has_key
from contextrelay.verbs import Publish, Pull
from contextrelay.verbs.routes import KEY_HEADER

if TYPE_CHECKING:
    from contextrelay.client.transport.remote import Remote

RECONNECT_S_DEFAULT = 60.0
PULL = "/pull/"

log = logging.getLogger("contextrelay.client")


class ContextRelay:
    """A relay that texts are pushed to and pulled from by URL.

    `base_url`: the server's URL; by default CONTEXTRELAY_URL or, if that is not set, the embedded
    store. The address of a store, as `Relay` takes it, is allowed too. `timeout`: the maximum
    seconds for a reply. `api_key`: by default CONTEXTRELAY_API_KEY.
    """

    def __init__(
        self,
        base_url: str | None = None,
        timeout: float = REPLY_S_DEFAULT,
        api_key: str | None = None,
    ) -> None:
        address = base_url or os.environ.get(URL_VARIABLE) or None
        self._server = server_at(address, api_key) if address and is_server(address) else None
        self.base_url = LOCAL_ORIGIN if self._server is None else self._server.url
        self.timeout = timeout
        self._address = None if self._server else address
        self._relay: Relay | None = None
        self._remotes: dict[str, Remote] = {}
        self._subscriptions: WeakSet[Subscription | LocalSubscription] = WeakSet()
        self._lock = threading.Lock()
        self._is_closed = False

    # Texts

    def push(
        self,
        data: str,
        channel: str | None = None,
        encrypted: bool = False,
        metadata: dict[str, Any] | None = None,
    ) -> str:
        """Store a text and return its URL; if a channel is given, publish the URL there.

        `encrypted`: only a holder of the full URL with its fragment can read the text. The metadata
        is not encrypted; `peek` returns it.
        """
        if metadata is not None and not isinstance(cast("object", metadata), dict):
            raise TypeError("metadata must be a dict")
        if not isinstance(cast("object", data), str):
            raise TypeError("data must be a str")
        if self._server is None:
            if not data:
                raise Invalid("no data to push", "pass a text of at least one character")
            seal: SealFormat | bool = "k1" if encrypted else False
            push = self._here().push
            return push(data, channel=channel or None, metadata=metadata or {}, seal=seal).url
        sent, key = fernet.seal(data) if encrypted else (data, None)
        fields: dict[str, Any] = {"data": sent, "channel": channel, "metadata": metadata}
        fields = {name: value for name, value in fields.items() if value is not None}
        url = self._remote(self._server).run(_push(self._server, fields))
        return url if key is None else f"{url}{fernet.KEY_MARK}{key}"

    def pull(self, url: str) -> str:
        """Return the text at a URL, decrypted if the URL contains the key.

        Raises:
            NotFound: there is no text at the URL; Gone if the server knows that there was one.
            ValueError: the key in the URL does not decrypt the text.
        """
        bare, key = fernet.split_key(url.strip())
        server = self._server_of(bare)
        if server is None:
            # Do not use `pull`, which refuses sealed content: here the content is returned
            # unchanged (seed 000).
            text = _text(self._here().transport.ask(Pull(parse_ref(bare))).whole())
        else:
            text = _text_in_envelope(
                self._remote(server).run(_got(server, bare, _PULLED_BYTES_MAX))
            )
        return text if key is None else fernet.unseal(text, key)

    def peek(self, url: str) -> dict[str, Any]:
        """Return the metadata of the text at a URL, without the text.

        Raises:
            ValueError: the URL is not one of a pushed text.
            NotFound: there is no text at the URL.
        """
        bare = url.strip().partition("#")[0]
        if has_key(bare):
            # The # before the key was percent-encoded, so the key would be sent to the server.
            raise ValueError(CANNOT_OPEN)
        before, mark, ref = bare.partition(PULL)
        if not mark:
            raise ValueError(f"Not a ContextRelay pointer URL: there is no {PULL}<id> in it")
        server = self._server_of(bare)
        if server is None:
            return self._here().peek(parse_ref(bare), shown_chars=0).metadata
        raw = self._remote(server).run(_got(server, f"{before}/peek/{ref}", REPLY_JSON_BYTES_MAX))
        metadata = decoded(Any, raw)
        return cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}

    # Channels

    def subscribe(
        self,
        channel: str,
        callback: Callable[[str], object],
        max_reconnect_delay: float = RECONNECT_S_DEFAULT,
    ) -> None:
        """Call `callback` with the URL of every push to a channel, until this relay is closed.
        Blocks.

        A lost connection is restored after 1, 2, 4 ... `max_reconnect_delay` seconds; pushes from
        the meantime are then delivered. An error in the callback is logged.
        """

        def hear(frame: Frame) -> None:
            url = frame.get("url")
            if not isinstance(url, str):
                return
            try:
                callback(url)
            except Exception:
                log.exception("a callback for channel %r failed", channel)

        try:
            self.hear(channel, hear, max_reconnect_delay)
        except KeyboardInterrupt:
            return

    def hear(
        self,
        channel: str,
        hear: Callable[[Frame], object],
        max_reconnect_delay: float = RECONNECT_S_DEFAULT,
        on_open: Callable[[], object] = lambda: None,
    ) -> None:
        """Call `hear` with every signal on a channel, until this relay is closed.

        `on_open` is called when the subscription is open; every signal after that is received.

        Raises:
            RelayError: the server refuses the subscription.
        """
        self.hearing(channel, max_reconnect_delay).run(hear, on_open)

    def hearing(
        self, channel: str, max_reconnect_delay: float = RECONNECT_S_DEFAULT
    ) -> Subscription | LocalSubscription:
        """Return a subscription to run. It ends when the subscription or the relay is closed."""
        if self._server is None:
            subscription = LocalSubscription(self._here(), channel)
        else:
            subscription = Subscription(self._server, channel, max_reconnect_delay)
        with self._lock:
            self._check_open()
            self._subscriptions.add(subscription)
        return subscription

    def publish(self, channel: str, message: Any) -> None:
        """Send a message to a channel: any JSON value except null."""
        verb = build(Publish, (channel, message), {})
        if self._server is None:
            self._here().transport.ask(verb)
        else:
            self._remote(self._server).ask(verb)

    def close(self) -> None:
        """Close all subscriptions and connections; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            subscriptions, remotes = list(self._subscriptions), list(self._remotes.values())
            relay, self._relay = self._relay, None
            self._remotes.clear()
        for subscription in subscriptions:
            subscription.close()
        for remote in remotes:
            remote.close()
        if relay is not None:
            relay.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        self.close()

    # The embedded store, and servers

    def _check_open(self) -> None:
        if self._is_closed:
            raise Invalid("this relay is closed", "open another")

    def _here(self) -> Relay:
        with self._lock:
            self._check_open()
            if self._relay is None:
                self._relay = Relay(self._address)
            return self._relay

    def _server_of(self, url: str) -> ServerAddress | None:
        """Return the server of a URL; None for the embedded store."""
        if url.startswith(f"{LOCAL_ORIGIN}/"):
            return None
        if not is_server(url):
            raise ValueError(f"Not a ContextRelay pointer URL: {url[:80]!r} is not a URL")
        parts = urlsplit(url)
        server = server_at(f"{parts.scheme}://{parts.netloc}", "")
        if self._server is not None and self._server.origin == server.origin:
            return self._server
        return server

    def _remote(self, server: ServerAddress) -> Remote:
        from contextrelay.client.transport.remote import Remote

        with self._lock:
            self._check_open()
            remote = self._remotes.get(server.origin)
            if remote is None:
                # The oldest client may be that of this relay's own server, but it is soon created
                # again.
                if len(self._remotes) > OTHER_SERVERS_MAX:
                    self._remotes.pop(next(iter(self._remotes))).close()
                remote = self._remotes[server.origin] = Remote(server, self.timeout)
            return remote


def _push(server: ServerAddress, fields: dict[str, Any]) -> Flow[str]:
    try:
        body = encode(fields)
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        raise Invalid(f"cannot be encoded as JSON: {error}", "remove that value") from error
    headers = {**server.headers(), "content-type": "application/json"}
    headers[KEY_HEADER] = secrets.token_hex(16)

    def read(answer: OpenReply) -> Flow[str]:
        yield from refuse_error(answer)
        url = decoded(dict[str, Any], (yield from whole(answer, REPLY_JSON_BYTES_MAX))).get("url")
        if not isinstance(url, str):
            raise Invalid("the server is not a Context Relay server", "check the address")
        return url

    url = f"{server.url}/push"
    return (yield from fetched(Send("POST", url, headers, Outgoing(body)), read))


def _got(server: ServerAddress, url: str, bytes_max: int) -> Flow[bytes]:
    def read(answer: OpenReply) -> Flow[bytes]:
        yield from refuse_error(answer)
        return (yield from whole(answer, bytes_max))

    return (yield from fetched(Send("GET", url, server.headers()), read))


_PULLED_BYTES_MAX = JSON_ESCAPE_RATIO_MAX * REPLY_JSON_BYTES_MAX


def _text_in_envelope(raw: bytes) -> str:
    """Return the text in the seed's JSON envelope, or all of the content."""
    try:
        reply = decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return _text(raw)
    if isinstance(reply, dict):
        fields = cast("dict[str, Any]", reply)
        if isinstance(fields.get("data"), str) and isinstance(fields.get("metadata", {}), dict):
            return fields["data"]
    return _text(raw)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid("the stored content is not text", "pull it with Relay") from error
