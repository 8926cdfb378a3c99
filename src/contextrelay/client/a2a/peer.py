"""Peers: the HTTP that A2A is spoken over with another agent.

Rule: nothing that a peer says is believed without a bound: the size of its card and of its answers,
the number and time of its updates, and where its card sends us: never further in than it is itself.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx2
from msgspec import ValidationError, convert
from msgspec.json import encode

from contextrelay.client.a2a.reading import HINT, events_in, object_in, whole
from contextrelay.client.transport.address import URL_VARIABLE, is_server, server_at
from contextrelay.errors import (
    Failed,
    Forbidden,
    Invalid,
    NotFound,
    Refused,
    RelayError,
    Unavailable,
)
from contextrelay.limits import (
    A2A_CARD_BYTES_MAX,
    A2A_REPLY_BYTES_MAX,
    A2A_TASK_S_MAX,
    CONNECT_S_MAX,
    FETCH_BYTES_MAX,
    REPLY_S_DEFAULT,
)
from contextrelay.logic.access.public_addresses import reach_of
from contextrelay.logic.document.values import shown
from contextrelay.wire.a2a import (
    CARD_PATH,
    EXTENSIONS_HEADER,
    HTTP_JSON,
    INTERRUPTED,
    JSONRPC,
    REFS_EXTENSION,
    TERMINAL,
    VERSION,
    VERSION_HEADER,
    AgentCard,
    Described,
    Part,
)

Document = dict[str, Any]
TOKEN_VARIABLE = "RELAY_A2A_TOKEN"
"""The token for agents elsewhere; our own server gets its own key."""
_REACH = {"public": 0, "private": 1, "never": 2}


class Peer:
    """An agent elsewhere, by its URL or by that of its card."""

    def __init__(self, url: str, timeout_s: float = A2A_TASK_S_MAX) -> None:
        self.server = server_at(url.removesuffix(CARD_PATH), "")
        self._timeout_s = timeout_s
        self.sent_bytes = self.received_bytes = 0
        headers = {"user-agent": "contextrelay", VERSION_HEADER: VERSION}
        if token := _token(self.server.origin):
            headers["authorization"] = f"Bearer {token}"
        self._headers = headers
        self._certificates = httpx2.create_ssl_context(trust_env=not self.server.is_loopback)
        self._web = self._connected()

    def _connected(self) -> httpx2.Client:
        return httpx2.Client(verify=self._certificates, trust_env=not self.server.is_loopback)

    def close(self) -> None:
        self._web.close()

    # The card

    def card(self) -> AgentCard:
        """What the agent says of itself.

        Raises:
            Unavailable: it does not answer. Invalid: what it says is no card that we can use.
        """
        with self._asked("GET", f"{self.server.url}{CARD_PATH}") as response:
            document = object_in(whole(response, A2A_CARD_BYTES_MAX), "the card")
        capabilities = _dict(document.get("capabilities"))
        extensions = [_dict(each).get("uri") for each in _list(capabilities.get("extensions"))]
        binding, url = self._interface(document)
        skills = [_dict(each).get("name") for each in _list(document.get("skills"))]
        return AgentCard(
            name=_text(document.get("name")),
            description=_text(document.get("description")),
            version=_text(document.get("version")),
            url=url,
            binding=binding,
            knows_refs=REFS_EXTENSION in extensions,
            streams=capabilities.get("streaming") is True,
            skills=tuple(_text(each) for each in skills),
            document=document,
        )

    def _interface(self, document: Document) -> tuple[str, str]:
        """The first binding of ours that the agent speaks, and where."""
        for each in _list(document.get("supportedInterfaces")):
            fields = _dict(each)
            binding, url = fields.get("protocolBinding"), fields.get("url")
            version = _text(fields.get("protocolVersion"))
            if binding not in (JSONRPC, HTTP_JSON) or not isinstance(url, str):
                continue
            if version.split(".")[0] == VERSION.split(".")[0] and is_server(url):
                self._check_reach(url)
                return binding, url
        raise Invalid(
            f"the agent at {self.server.url} speaks no A2A {VERSION} over HTTP",
            "see its card: relay a2a card URL --json",
        )

    def _check_reach(self, url: str) -> None:
        """Refuse a URL that leads further in than the card did."""
        host = urlsplit(url).hostname or ""
        if host != self.server.host and _inward(host) > _inward(self.server.host):
            raise Invalid(
                f"the card of {self.server.url} leads to {shown(host)}, further in than itself",
                "ask for that agent by its own URL, if you trust it",
            )

    # Messages

    def send(
        self,
        card: AgentCard,
        params: Document,
        on_update: Callable[[Document], object] | None = None,
    ) -> Document:
        """Send a message; the task, or the message, that answers it.

        With `on_update` it is streamed, and that is called with each document of the stream.

        Raises:
            Unavailable: the agent does not answer, or not in time. Failed: it says nothing usable.
            RelayError: its own error.
        """
        is_stream = on_update is not None and card.streams
        # What is streamed is to be read as it comes: refs would only say where it is.
        headers = {EXTENSIONS_HEADER: REFS_EXTENSION} if card.knows_refs and not is_stream else {}
        if is_stream:
            return self._streamed(card, params, headers, on_update)
        return self._call(card, "SendMessage", "POST", "/message:send", params, headers)

    def get_task(self, card: AgentCard, task: str) -> Document:
        """A task as it stands."""
        headers = {EXTENSIONS_HEADER: REFS_EXTENSION} if card.knows_refs else {}
        path = f"/tasks/{quote(task, safe='')}"
        found = self._call(card, "GetTask", "GET", path, {"id": task}, headers)
        return {"task": found}

    def _call(
        self,
        card: AgentCard,
        method: str,
        verb: str,
        path: str,
        params: Document,
        headers: dict[str, str],
    ) -> Document:
        is_rpc = card.binding == JSONRPC
        url = card.url if is_rpc else card.url.rstrip("/") + path
        body = _rpc(method, params) if is_rpc else params
        sent = None if verb == "GET" and not is_rpc else encode(body)
        how = "POST" if is_rpc else verb
        reads = verb == "GET"
        with self._asked(how, url, sent, headers, self._timeout_s, reads) as response:
            document = self._answer(response)
        self.received_bytes += len(encode(document))
        return _result(document) if is_rpc else document

    def _streamed(
        self,
        card: AgentCard,
        params: Document,
        headers: dict[str, str],
        on_update: Callable[[Document], object] | None,
    ) -> Document:
        is_rpc = card.binding == JSONRPC
        url = card.url if is_rpc else f"{card.url.rstrip('/')}/message:stream"
        sent = encode(_rpc("SendStreamingMessage", params) if is_rpc else params)
        headers = {**headers, "accept": "text/event-stream"}
        task = _text(_dict(params.get("message")).get("taskId"))
        with self._asked("POST", url, sent, headers, self._timeout_s, reads=False) as response:
            kind = response.headers.get("content-type", "")
            if not kind.startswith("text/event-stream"):
                return _result(self._answer(response))
            for document in events_in(response, self._timeout_s):
                update = _result(document) if is_rpc else document
                self.received_bytes += len(encode(update))
                if on_update is not None:
                    on_update(update)
                if "message" in update:
                    return update
                task = _task_of(update) or task
                if _state(update) in (TERMINAL | INTERRUPTED):
                    break
        if not task:
            raise Failed("the agent's stream ended without a task", HINT)
        return self.get_task(card, task)

    def _answer(self, response: httpx2.Response) -> Document:
        return object_in(whole(response, A2A_REPLY_BYTES_MAX, self._timeout_s), "the answer")

    def fetch(self, url: str, described: Described | None) -> bytes:
        """The body behind a url part of the agent.

        Raises:
            Failed: it is not what was described. TooLarge: it is too much.
        """
        self._check_reach(url)
        most = FETCH_BYTES_MAX if described is None else min(FETCH_BYTES_MAX, described.size)
        with self._asked("GET", url) as response:
            body = whole(response, most, self._timeout_s)
        if described is not None and sha256(body).hexdigest() != described.sha256:
            raise Failed(f"what is at {shown(url)} is not what the agent described", "ask again")
        return body

    @contextmanager
    def _asked(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        reply_s: float = REPLY_S_DEFAULT,
        reads: bool = True,
    ) -> Generator[httpx2.Response]:
        """A reply, before its body was read; `reads`: it may be asked twice.

        Raises:
            Unavailable, RelayError: there is none, or it is an error.
        """
        own = dict(self._headers)
        if server_at(url.partition("?")[0], "").origin != self.server.origin:
            own.pop("authorization", None)  # A token is for one origin.
        if body is not None:
            own["content-type"] = "application/json"
            self.sent_bytes += len(body)
        own.update(headers or {})
        timeout = httpx2.Timeout(reply_s, connect=CONNECT_S_MAX)
        request = self._web.build_request(method, url, content=body, headers=own, timeout=timeout)
        try:
            with closing(self._reply(request, reads)) as response:
                if response.status_code >= 300:
                    raise _refusal(response)
                yield response
        except httpx2.HTTPError as error:
            said = str(error) or type(error).__name__
            raise Unavailable(
                f"the agent at {self.server.url} does not answer: {said}", HINT
            ) from error

    def _reply(self, request: httpx2.Request, reads: bool) -> httpx2.Response:
        """A reply, also where the agent closed the connection that was kept since the last one."""
        if not reads:
            # On a kept connection that is gone nobody knows whether a message was heard.
            self._web.close()
            self._web = self._connected()
        try:
            return self._web.send(request, stream=True)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if not reads:
                raise
            return self._web.send(request, stream=True)


def _token(origin: str) -> str:
    """The token for an origin: our own key for our own server, else that for agents."""
    own = os.environ.get(URL_VARIABLE, "")
    if is_server(own) and server_at(own, "").origin == origin:
        return server_at(own).key
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    return token if token.isascii() and token.isprintable() else ""


def _inward(host: str) -> int:
    """How far inside a host is: 0 for the public net, 1 for private ones, 2 for what is never."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return _REACH["never"]
    return max(_REACH[reach_of(str(each[4][0]))] for each in found)


def _rpc(method: str, params: Document) -> Document:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def _result(document: Document) -> Document:
    """The result of a JSON-RPC answer.

    Raises:
        RelayError: it is an error.
    """
    if "error" in document:
        error = _dict(document["error"])
        raise _peer_error(_text(error.get("message")), error.get("code"), error.get("data"))
    return _dict(document.get("result"))


def _peer_error(message: str, code: object, details: object = None) -> RelayError:
    reasons = [_dict(each).get("reason") for each in _list(details)]
    said = f"the agent says: {message[:500] or 'an error'}"
    if code in (-32001, 404):
        return NotFound(said, "see what it has")
    if code == -32004 or "UNSUPPORTED_OPERATION" in reasons:
        return Refused(said, "send it without a task")
    if code in (401, 403):
        return Forbidden(said, f"set {TOKEN_VARIABLE}")
    kind = Invalid if isinstance(code, int) and (400 <= code < 500 or code < 0) else Failed
    return kind(said, HINT)


def _refusal(response: httpx2.Response) -> RelayError:
    status = response.status_code
    if status < 400:
        return Invalid("the agent sends us elsewhere", "name that URL itself")
    try:
        error = _dict(object_in(whole(response, A2A_CARD_BYTES_MAX), "").get("error"))
    except RelayError:
        error = {}
    message = _text(error.get("message")) or f"HTTP {status}"
    return _peer_error(message, status, error.get("details"))


def _task_of(update: Document) -> str:
    """Return the id of the task that a document of a stream is about, or ""."""
    task = _text(_dict(update.get("task")).get("id"))
    updates = (_dict(update.get(name)) for name in ("statusUpdate", "artifactUpdate"))
    return task or next(filter(None, (_text(each.get("taskId")) for each in updates)), "")


def _state(update: Document) -> str:
    status = _dict(update.get("statusUpdate")) or _dict(update.get("task"))
    return _text(_dict(status.get("status")).get("state"))


def described(part: Part) -> Described | None:
    """What our extension says of the body behind a url part, if it does."""
    try:
        return convert(part.metadata.get(REFS_EXTENSION), Described)
    except ValidationError:
        return None


def _dict(value: object) -> Document:
    return cast("Document", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value)[:1_000] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value[:1_000] if isinstance(value, str) else ""
