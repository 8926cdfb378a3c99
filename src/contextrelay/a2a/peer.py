"""The HTTP client for remote agents.

Rule: everything that a remote agent sends is limited: the size of its card and its answers, and the
number and time of its updates. The hosts that its card names must not be more internal than its
own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
from msgspec import ValidationError, convert
from msgspec.json import encode

from contextrelay.a2a.grpc_calls import GrpcCalls, target_of
from contextrelay.a2a.reading import (
    HINT,
    TOKEN_VARIABLE,
    events_in,
    items_of,
    object_in,
    object_of,
    peer_error,
    text_of,
    whole,
)
from contextrelay.a2a.schema import (
    CARD_PATH,
    EXTENSIONS_HEADER,
    GRPC,
    HTTP_JSON,
    INTERRUPTED,
    JSONRPC,
    REFS_EXTENSION,
    TERMINAL,
    VERSION,
    VERSION_HEADER,
    AgentCard,
    BodyDescription,
    Part,
)
from contextrelay.access import reach_of
from contextrelay.client.transport.address import URL_VARIABLE, is_server, server_at
from contextrelay.documents.values import quote_value
from contextrelay.errors import Failed, Invalid, RelayError, Unavailable
from contextrelay.limits import (
    A2A_REPLY_BYTES_MAX,
    A2A_TASK_S_MAX,
    CONNECT_S_MAX,
    FETCH_BYTES_MAX,
    KIB,
    REPLY_S_DEFAULT,
)

A2A_CARD_BYTES_MAX = 256 * KIB
Document = dict[str, Any]
_REACH = {"public": 0, "private": 1, "never": 2}


class Peer:
    """A remote agent, given by its URL or by the URL of its card."""

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
        """Return the card of the agent.

        Raises:
            Unavailable: the agent does not respond.
            Invalid: the card is malformed or not supported.
        """
        with self._asked("GET", f"{self.server.url}{CARD_PATH}") as response:
            document = object_in(whole(response, A2A_CARD_BYTES_MAX), "the card")
        capabilities = object_of(document.get("capabilities"))
        extensions = [
            object_of(each).get("uri") for each in items_of(capabilities.get("extensions"))
        ]
        binding, url, tenant = self._interface(document)
        skills = [object_of(each).get("name") for each in items_of(document.get("skills"))]
        return AgentCard(
            name=text_of(document.get("name")),
            description=text_of(document.get("description")),
            version=text_of(document.get("version")),
            url=url,
            binding=binding,
            tenant=tenant,
            knows_refs=REFS_EXTENSION in extensions,
            streams=capabilities.get("streaming") is True,
            skills=tuple(text_of(each) for each in skills),
            document=document,
        )

    def _interface(self, document: Document) -> tuple[str, str, str]:
        """Return the binding to use, its URL, and the tenant. gRPC is the last choice."""
        by_grpc: tuple[str, str, str] | None = None
        for each in items_of(document.get("supportedInterfaces")):
            fields = object_of(each)
            binding, url = fields.get("protocolBinding"), fields.get("url")
            version = text_of(fields.get("protocolVersion"))
            tenant = text_of(fields.get("tenant"))
            is_spoken = version.split(".")[0] == VERSION.split(".")[0]
            if not is_spoken or not isinstance(url, str):
                continue
            if binding in (JSONRPC, HTTP_JSON) and is_server(url):
                self._check_reach(url)
                return str(binding), url, tenant
            if binding == GRPC and by_grpc is None and (target := target_of(url, self.server)):
                by_grpc = GRPC, target.url, tenant
        if by_grpc is not None:
            self._check_reach(by_grpc[1])
            return by_grpc
        problem = f"the agent at {self.server.url} does not support A2A {VERSION} over HTTP or gRPC"
        raise Invalid(problem, "see its card: relay a2a card URL --json")

    def _check_reach(self, url: str) -> None:
        """Raise Invalid if a URL is on a network that is more internal than that of the card."""
        host = urlsplit(url).hostname or ""
        if host != self.server.host and _network_level(host) > _network_level(self.server.host):
            problem = f"the card of {self.server.url} refers to the internal host"
            hint = "if you trust that agent, use the URL in its card directly"
            raise Invalid(f"{problem} {quote_value(host)}", hint)

    # Messages

    def send(
        self,
        card: AgentCard,
        params: Document,
        on_update: Callable[[Document], object] | None = None,
    ) -> Document:
        """Send a message, and return the task or the message that answers it.

        With `on_update`, the answer is streamed, and the callback is called with each document.

        Raises:
            Unavailable: the agent does not respond, or does not respond in time.
            Failed: the answer is invalid.
            RelayError: an error of the agent.
        """
        if on_update is not None and card.streams:
            return self._stream(card, params, on_update)
        return self._call(card, "SendMessage", params)

    def get_task(self, card: AgentCard, task: str) -> Document:
        """Return a task of the agent."""
        return {"task": self._call(card, "GetTask", {"id": task})}

    def _call(self, card: AgentCard, method: str, params: Document) -> Document:
        headers = {EXTENSIONS_HEADER: REFS_EXTENSION} if card.knows_refs else {}
        if card.binding == GRPC:
            with closing(self._grpc(card)) as calls:
                document = calls.call(method, params, headers)
            self._count(params, document)
            return document
        reads = method == "GetTask"
        request = _request(card, method, params)
        with self._asked(*request, headers, self._timeout_s, reads) as response:
            document = self._answer(response)
        self._count({}, document)
        return _result(card, document)

    def _stream(
        self, card: AgentCard, params: Document, on_update: Callable[[Document], object]
    ) -> Document:
        # A stream is read while it arrives, so refs would only be other names for its content.
        method = "SendStreamingMessage"
        if card.binding == GRPC:
            with closing(self._grpc(card)) as calls:
                self._count(params, {})
                return self._followed(card, params, calls.stream(method, params, {}), on_update)
        headers = {"accept": "text/event-stream"}
        request = _request(card, method, params)
        with self._asked(*request, headers, self._timeout_s, reads=False) as response:
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                return _result(card, self._answer(response))
            updates = (_result(card, each) for each in events_in(response, self._timeout_s))
            return self._followed(card, params, updates, on_update)

    def _followed(
        self,
        card: AgentCard,
        params: Document,
        updates: Iterator[Document],
        on_update: Callable[[Document], object],
    ) -> Document:
        """Read a stream and return its result: a message, or the task of the stream."""
        task = text_of(object_of(params.get("message")).get("taskId"))
        for update in updates:
            self._count({}, update)
            on_update(update)
            if "message" in update:
                return update
            task = _task_of(update) or task
            if _state(update) in (TERMINAL | INTERRUPTED):
                break
        if not task:
            raise Failed("the agent's stream ended without a task", HINT)
        return self.get_task(card, task)

    def _grpc(self, card: AgentCard) -> GrpcCalls:
        target = target_of(card.url, self.server)
        assert target is not None, card.url
        headers = dict(self._headers)
        del headers["user-agent"]
        # The token belongs to the host, because gRPC uses another port, and stays under TLS.
        is_less_safe = self.server.url.startswith("https:") and not target.is_tls
        if target.host != self.server.host or is_less_safe:
            headers.pop("authorization", None)
        return GrpcCalls(target, card.tenant, headers, self._timeout_s)

    def _count(self, sent: Document, received: Document) -> None:
        self.sent_bytes += len(encode(sent)) if sent else 0
        self.received_bytes += len(encode(received)) if received else 0

    def _answer(self, response: httpx2.Response) -> Document:
        return object_in(whole(response, A2A_REPLY_BYTES_MAX, self._timeout_s), "the answer")

    def fetch(self, url: str, described: BodyDescription | None) -> bytes:
        """Return the body behind the URL of a part that the agent sent.

        Raises:
            Failed: the body does not match its description.
            TooLarge: the body exceeds the limit.
        """
        self._check_reach(url)
        most = FETCH_BYTES_MAX if described is None else min(FETCH_BYTES_MAX, described.size)
        with self._asked("GET", url) as response:
            body = whole(response, most, self._timeout_s)
        if described is not None and sha256(body).hexdigest() != described.sha256:
            problem = f"the content of {quote_value(url)} does not match the agent's description"
            raise Failed(problem, "request the answer again")
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
        """Send a request and yield the response before its body is read.

        `reads`: the request only reads, so it may be sent twice.

        Raises:
            Unavailable, RelayError: there is no response, or it is an error.
        """
        own = dict(self._headers)
        if server_at(url.partition("?")[0], "").origin != self.server.origin:
            own.pop("authorization", None)  # A token is only for one origin.
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
            problem = f"the agent at {self.server.url} does not respond"
            raise Unavailable(f"{problem}: {str(error) or type(error).__name__}", HINT) from error

    def _reply(self, request: httpx2.Request, reads: bool) -> httpx2.Response:
        """Send a request and return the response. Retry if the agent closed a reused connection."""
        if not reads:
            # If a reused connection breaks, it is not known whether the agent received the message.
            self._web.close()
            self._web = self._connected()
        try:
            return self._web.send(request, stream=True)
        except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
            if not reads:
                raise
            return self._web.send(request, stream=True)


def _token(origin: str) -> str:
    """Return the token for an origin: our key for our own server, or the token for agents."""
    own = os.environ.get(URL_VARIABLE, "")
    if is_server(own) and server_at(own, "").origin == origin:
        return server_at(own).key
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    return token if token.isascii() and token.isprintable() else ""


def _network_level(host: str) -> int:
    """Return how internal a host is: 0 for public, 1 for private, 2 for forbidden addresses."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return _REACH["never"]
    return max(_REACH[reach_of(str(each[4][0]))] for each in found)


def _request(card: AgentCard, method: str, params: Document) -> tuple[str, str, bytes | None]:
    """Return the HTTP method, the URL and the body that call a method."""
    if card.binding == JSONRPC:
        rpc = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return "POST", card.url, encode(rpc)
    root = card.url.rstrip("/")
    if method == "GetTask":
        return "GET", f"{root}/tasks/{quote(params['id'], safe='')}", None
    action = "send" if method == "SendMessage" else "stream"
    return "POST", f"{root}/message:{action}", encode(params)


def _result(card: AgentCard, document: Document) -> Document:
    """Return the result in a document, which JSON-RPC wraps, or raise its error."""
    if card.binding != JSONRPC:
        return document
    if "error" in document:
        error = object_of(document["error"])
        raise peer_error(text_of(error.get("message")), error.get("code"), error.get("data"))
    return object_of(document.get("result"))


def _refusal(response: httpx2.Response) -> RelayError:
    status = response.status_code
    if status < 400:
        return Invalid("the agent redirects to another URL", "use that URL directly")
    try:
        error = object_of(object_in(whole(response, A2A_CARD_BYTES_MAX), "").get("error"))
    except RelayError:
        error = {}
    message = text_of(error.get("message")) or f"HTTP {status}"
    return peer_error(message, status, error.get("details"))


def _task_of(update: Document) -> str:
    """Return the id of the task in a document of a stream, or ""."""
    task = text_of(object_of(update.get("task")).get("id"))
    updates = (object_of(update.get(name)) for name in ("statusUpdate", "artifactUpdate"))
    return task or next(filter(None, (text_of(each.get("taskId")) for each in updates)), "")


def _state(update: Document) -> str:
    status = object_of(update.get("statusUpdate")) or object_of(update.get("task"))
    return text_of(object_of(status.get("status")).get("state"))


def described(part: Part) -> BodyDescription | None:
    """Return our extension's description of the body behind the URL of a part, or None."""
    try:
        return convert(part.metadata.get(REFS_EXTENSION), BodyDescription)
    except ValidationError:
        return None
