"""A2A over gRPC (extra `grpc`): all agents use one port. The tenant of a request selects the agent.

The messages are those of the official SDK. They are converted to and from the JSON of the other
bindings, so that all bindings behave the same.

Rule: the token, the version and the extensions are gRPC metadata, and are checked like HTTP
headers.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

import grpc
from a2a.types import a2a_pb2, a2a_pb2_grpc
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]

from contextrelay.a2a.agents import AgentPlace
from contextrelay.a2a.operations import (
    CALLS,
    STREAMS,
    A2AService,
    AgentVisit,
    begin,
    call,
    check_version,
    with_extensions,
)
from contextrelay.a2a.schema import (
    EXTENSIONS_HEADER,
    VERSION_HEADER,
    ProtocolError,
    error_info,
    grpc_status,
    said,
)
from contextrelay.errors import Broken, Invalid, RelayError
from contextrelay.limits import A2A_MESSAGE_BYTES_MAX, A2A_REPLY_BYTES_MAX
from contextrelay.server.auth import token_of

if TYPE_CHECKING:
    from contextrelay.server.auth import Callers

# The maximum number of concurrent gRPC requests per process. Further requests are refused.
A2A_RPCS_MAX = 1_000
log = logging.getLogger("contextrelay.a2a")

_REPLIES: dict[str, Any] = {
    "SendMessage": a2a_pb2.SendMessageResponse,
    "SendStreamingMessage": a2a_pb2.StreamResponse,
    "SubscribeToTask": a2a_pb2.StreamResponse,
    "GetTask": a2a_pb2.Task,
    "CancelTask": a2a_pb2.Task,
    "ListTasks": a2a_pb2.ListTasksResponse,
    "CreateTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    "GetTaskPushNotificationConfig": a2a_pb2.TaskPushNotificationConfig,
    "ListTaskPushNotificationConfigs": a2a_pb2.ListTaskPushNotificationConfigsResponse,
    "DeleteTaskPushNotificationConfig": empty_pb2.Empty,
    "GetExtendedAgentCard": a2a_pb2.AgentCard,
}


class GrpcServer:
    """The gRPC port of a server process."""

    def __init__(self, service: A2AService, callers: Callers, place: AgentPlace) -> None:
        self._service = service
        self._callers = callers
        self._place = place
        self._server: Any = None

    async def start(self, address: str) -> None:
        """Start to listen for requests. Call this in the event loop of the server.

        Raises:
            Invalid: the address is not available.
        """
        server: Any = grpc.aio.server(
            maximum_concurrent_rpcs=A2A_RPCS_MAX,
            options=[
                ("grpc.max_receive_message_length", A2A_MESSAGE_BYTES_MAX),
                ("grpc.max_send_message_length", A2A_REPLY_BYTES_MAX),
            ],
        )
        servicer: Any = type("Servicer", (), {})()
        for name in CALLS:
            setattr(servicer, name, self._unary(name))
        for name in STREAMS:
            setattr(servicer, name, self._stream(name))
        register: Any = getattr(a2a_pb2_grpc, "add_A2AServiceServicer_to_server")  # noqa: B009
        register(servicer, server)
        try:
            server.add_insecure_port(address)
        except RuntimeError as error:
            problem = f"cannot listen on {address} for gRPC"
            raise Invalid(problem, "choose another port: --grpc-port") from error
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Stop the server after all requests have been answered."""
        if self._server is not None:
            await self._server.stop(0)

    def _unary(self, name: str) -> Callable[[Any, Any], Awaitable[Any]]:
        async def answer(request: Any, context: Any) -> Any:
            try:
                visit = await self._visit(request, context)
                document = await call(visit, name, MessageToDict(request))
                return _message(document, name)
            except Exception as error:
                await _refuse(context, error)

        return answer

    def _stream(self, name: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def answer(request: Any, context: Any) -> AsyncIterator[Any]:
            try:
                visit = await self._visit(request, context)
                first, rest = await begin(visit, name, MessageToDict(request))
                yield _message(first, name)
                async for document in rest:
                    yield _message(document, name)
            except Exception as error:
                await _refuse(context, error)

        return answer

    async def _visit(self, request: Any, context: Any) -> AgentVisit:
        """Return the caller of a request, and the agent that it names or else the first agent.

        Raises:
            ProtocolError, RelayError: the request is refused.
        """
        metadata: Iterable[tuple[str, Any]] = context.invocation_metadata() or ()
        headers = {name: value for name, value in metadata if isinstance(value, str)}
        token = token_of(headers["authorization"].encode()) if "authorization" in headers else None
        visitor = await self._callers.admit(token, str(context.peer()))
        check_version(headers.get(VERSION_HEADER, ""))
        agents = self._service.tasks.agents
        name = request.tenant or next(iter(agents))
        if name not in agents:
            raise ProtocolError("MethodNotFound", f"unknown agent {name[:80]!r}")
        visit = AgentVisit(self._service, visitor.relay, name, self._place)
        return with_extensions(visit, headers.get(EXTENSIONS_HEADER, ""))


def _message(document: dict[str, Any], name: str) -> Any:
    return ParseDict(document, _REPLIES[name](), ignore_unknown_fields=True)


async def _refuse(context: Any, error: Exception) -> None:
    """End a request with an error. The details of the error name its kind in the protocol."""
    if not isinstance(error, RelayError):
        if isinstance(error, grpc.aio.AbortError):
            raise error
        log.error("unexpected error in gRPC", exc_info=error)
        error = Broken("internal error", "see the server's log")
    status = grpc.StatusCode[grpc_status(error)]
    details = status_pb2.Status(code=status.value[0], message=said(error))
    for each in error_info(error):
        info = error_details_pb2.ErrorInfo(reason=each["reason"], domain=each["domain"])
        details.details.add().Pack(info)
    trailing = (("grpc-status-details-bin", details.SerializeToString()),)
    await context.abort(status, said(error), trailing)
