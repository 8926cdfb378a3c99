"""The gRPC client for agents that offer no other binding (extra `grpc`).

Rule: the limits of size, number and time are those of the other bindings. Nothing is decompressed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from contextrelay.a2a.reading import HINT, peer_error
from contextrelay.client.transport.address import ServerAddress
from contextrelay.errors import Failed, TooLarge, Unavailable
from contextrelay.limits import A2A_REPLY_BYTES_MAX, A2A_UPDATES_MAX

Document = dict[str, Any]
_SCHEMES = {"http": False, "grpc": False, "https": True, "grpcs": True}
# The HTTP status for each gRPC status. Any other gRPC status means that the agent failed.
_STATUSES = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNIMPLEMENTED": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
}
_ERROR_CHARS_MAX = 1_000


class Target(Struct, frozen=True):
    """The gRPC address of an agent."""

    host: str
    port: int
    is_tls: bool

    @property
    def url(self) -> str:
        """Return the target as an HTTP URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}"


def target_of(url: str, card_server: ServerAddress) -> Target | None:
    """Return the target of an interface URL in a card, or None if the URL is not valid.

    A bare HOST:PORT uses TLS if the card was read over TLS.
    """
    scheme, has_scheme, rest = url.partition("://")
    is_tls = _SCHEMES.get(scheme.lower()) if has_scheme else card_server.url.startswith("https:")
    if is_tls is None:
        return None
    try:
        parts = urlsplit(f"//{rest if has_scheme else url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or "@" in parts.netloc or not host.isascii() or not host.isprintable():
        return None
    return Target(host, port or (443 if is_tls else 80), is_tls)


class GrpcCalls:
    """A gRPC client for one agent, which the tenant of each request selects."""

    def __init__(
        self, target: Target, tenant: str, headers: dict[str, str], timeout_s: float
    ) -> None:
        grpc = _grpc()
        options: list[tuple[str, int]] = [
            ("grpc.max_receive_message_length", A2A_REPLY_BYTES_MAX),
            ("grpc.compression_enabled_algorithms_bitset", 1),
            ("grpc.per_message_decompression", 0),
            # Use a proxy only for remote hosts.
            ("grpc.enable_http_proxy", int(target.host not in ("localhost", "127.0.0.1", "::1"))),
        ]
        place = f"dns:///{target.url.partition('://')[2]}"
        if target.is_tls:
            self._channel = grpc.secure_channel(place, grpc.ssl_channel_credentials(), options)
        else:
            self._channel = grpc.insecure_channel(place, options)
        self._place = target.url
        self._tenant = tenant
        self._metadata = list(headers.items())
        self._timeout_s = timeout_s

    def close(self) -> None:
        self._channel.close()

    def call(self, method: str, params: Document, headers: dict[str, str]) -> Document:
        """Call a method of the agent and return the answer, or raise its error."""
        with self._translated():
            return _document(self._begin(method, params, headers))

    def stream(self, method: str, params: Document, headers: dict[str, str]) -> Iterator[Document]:
        """Call a method and yield the documents of its stream, within the limits of one task."""
        size_bytes = 0
        with self._translated():
            replies = self._begin(method, params, headers)
            try:
                for count, reply in enumerate(replies, 1):
                    size_bytes += reply.ByteSize()
                    if size_bytes > A2A_REPLY_BYTES_MAX or count > A2A_UPDATES_MAX:
                        limits = f"{A2A_UPDATES_MAX:,} updates or {A2A_REPLY_BYTES_MAX:,} bytes"
                        hint = "cancel the task, and ask for a shorter answer"
                        raise TooLarge(f"the stream of the agent has more than {limits}", hint)
                    yield _document(reply)
            finally:
                replies.cancel()

    def _begin(self, method: str, params: Document, headers: dict[str, str]) -> Any:
        from a2a.types import a2a_pb2, a2a_pb2_grpc
        from google.protobuf.json_format import ParseDict

        kind: Any = a2a_pb2.GetTaskRequest if method == "GetTask" else a2a_pb2.SendMessageRequest
        named = {"tenant": self._tenant} if self._tenant else {}
        request: Any = ParseDict({**params, **named}, kind(), ignore_unknown_fields=True)
        stub: Any = a2a_pb2_grpc.A2AServiceStub(self._channel)
        metadata = [*self._metadata, *headers.items()]
        return getattr(stub, method)(request, metadata=metadata, timeout=self._timeout_s)

    @contextmanager
    def _translated(self) -> Generator[None]:
        """Convert gRPC errors to RelayErrors."""
        try:
            yield
        except _grpc().RpcError as error:
            name, said = error.code().name, str(error.details() or "")[:_ERROR_CHARS_MAX]
            if name in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
                problem = f"the agent at {self._place} does not respond: {said}"
                raise Unavailable(problem, HINT) from None
            reasons = [{"reason": each} for each in _reasons(error)]
            raise peer_error(said, _STATUSES.get(name, 500), reasons) from None


def _reasons(error: Any) -> list[str]:
    """Return the names of protocol errors in the details of a gRPC error."""
    from google.protobuf.message import DecodeError
    from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]
        error_details_pb2,
        status_pb2,
    )

    metadata: dict[str, Any] = dict(error.trailing_metadata() or ())
    kept = metadata.get("grpc-status-details-bin", b"")
    reasons: list[str] = []
    try:
        status: Any = status_pb2.Status.FromString(kept)
        for each in status.details:
            info = error_details_pb2.ErrorInfo()
            if each.Is(info.DESCRIPTOR) and each.Unpack(info):
                reasons.append(info.reason)
    except (DecodeError, TypeError):
        return []
    return reasons


def _document(reply: Any) -> Document:
    from google.protobuf.json_format import MessageToDict

    try:
        return MessageToDict(reply)
    except (ValueError, RecursionError):
        raise Failed("the agent's answer is not valid JSON", HINT) from None


def _grpc() -> Any:
    try:
        import a2a.types
        import grpc
    except ImportError:
        problem = "the agent only offers gRPC, and the grpc package is not installed"
        raise Unavailable(problem, "pip install 'contextrelay[grpc]'") from None
    assert a2a.types
    return grpc
