"""The JSON types of A2A 1.0: parts, messages, requests, errors, and our extension.

Rule: input becomes a value with limits, or a protocol error. Unknown fields are ignored. Field
names may be in camelCase or, as ProtoJSON allows, in snake_case.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar, cast

from msgspec import UNSET, Meta, Struct, UnsetType, ValidationError, convert, to_builtins

from contextrelay.content.artifact_type import is_media_type
from contextrelay.errors import RelayError
from contextrelay.limits import (
    A2A_PREVIEW_CHARS,
    A2A_UPDATES_MAX,
    LABEL_CHARS_MAX,
    MEDIA_TYPE_CHARS_MAX,
    NAME_CHARS_MAX,
    NUMBER_MAX,
    URL_CHARS_MAX,
)
from contextrelay.model.artifact import Artifact
from contextrelay.verbs.verb import from_json

A2A_PARTS_MAX = 100
A2A_EXTENSIONS_MAX = 16
A2A_TASKS_PAGE_DEFAULT = 50
A2A_TASKS_PAGE_MAX = 100
VERSION = "1.0"
VERSION_HEADER = "a2a-version"
EXTENSIONS_HEADER = "a2a-extensions"
REFS_EXTENSION = "urn:contextrelay:a2a:refs:v1"
"""Our extension: clients get refs, which are URL parts with a description of the body under this
name in their metadata.
"""
CARD_PATH = "/.well-known/agent-card.json"
JSONRPC, HTTP_JSON, GRPC = "JSONRPC", "HTTP+JSON", "GRPC"

TaskState = Literal[
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]
SUBMITTED: TaskState = "TASK_STATE_SUBMITTED"
WORKING: TaskState = "TASK_STATE_WORKING"
COMPLETED: TaskState = "TASK_STATE_COMPLETED"
FAILED: TaskState = "TASK_STATE_FAILED"
CANCELED: TaskState = "TASK_STATE_CANCELED"
INPUT_REQUIRED: TaskState = "TASK_STATE_INPUT_REQUIRED"
TERMINAL = frozenset((COMPLETED, FAILED, CANCELED, "TASK_STATE_REJECTED"))
INTERRUPTED = frozenset((INPUT_REQUIRED, "TASK_STATE_AUTH_REQUIRED"))

Id = Annotated[str, Meta(max_length=LABEL_CHARS_MAX)]
RequiredId = Annotated[str, Meta(min_length=1, max_length=LABEL_CHARS_MAX)]
Url = Annotated[str, Meta(max_length=URL_CHARS_MAX)]
Count = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
MediaType = Annotated[str, Meta(max_length=MEDIA_TYPE_CHARS_MAX)]
Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
_Document = dict[str, Any]
Request = TypeVar("Request", bound=Struct)


class Part(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A part of a message or an artifact. It has exactly one of text, raw bytes, a URL and data."""

    text: str | UnsetType = UNSET
    raw: bytes | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    data: Any = UNSET
    metadata: _Document = {}
    filename: Name = ""
    media_type: MediaType = ""


class BodyDescription(Struct, frozen=True, kw_only=True):
    """A description of the body behind a URL part, as our extension defines it."""

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    size: Count
    tokens: Count | None = None
    ref: Id = ""
    preview: str = ""


Parts = Annotated[list[Part], Meta(min_length=1, max_length=A2A_PARTS_MAX)]


class AgentMessage(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A message of the user or of the agent."""

    message_id: RequiredId
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: Parts
    context_id: Id = ""
    task_id: Id = ""
    metadata: _Document = {}
    extensions: Annotated[list[Id], Meta(max_length=A2A_EXTENSIONS_MAX)] = []
    reference_task_ids: Annotated[list[Id], Meta(max_length=A2A_PARTS_MAX)] = []


class ReceivedMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message of a remote agent, with the fields that we read."""

    parts: Annotated[list[Part], Meta(max_length=A2A_PARTS_MAX)] = []
    context_id: str = ""


class SaidStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a remote task."""

    state: str = ""
    message: ReceivedMessage | None = None


class AgentArtifact(Struct, frozen=True, kw_only=True, rename="camel"):
    """An artifact of a remote task."""

    parts: Annotated[list[Part], Meta(max_length=A2A_PARTS_MAX)] = []


class SaidTask(Struct, frozen=True, kw_only=True, rename="camel"):
    """A remote task."""

    id: RequiredId
    context_id: Id = ""
    status: SaidStatus = SaidStatus()
    artifacts: Annotated[list[AgentArtifact], Meta(max_length=A2A_UPDATES_MAX)] = []


class AgentReply(Struct, frozen=True, kw_only=True):
    """The answer of a remote agent: a task or a message."""

    task: SaidTask | None = None
    message: ReceivedMessage | None = None


class Update(Struct, frozen=True, kw_only=True, rename="camel"):
    """A piece of an artifact in the stream of a remote agent."""

    artifact: AgentArtifact = AgentArtifact()


class Streamed(Struct, frozen=True, kw_only=True, rename="camel"):
    """A document in the stream of a remote agent, with the fields that we read."""

    task: SaidTask | None = None
    message: ReceivedMessage | None = None
    status_update: dict[str, Any] | None = None
    artifact_update: Update | None = None


class AgentCard(Struct, frozen=True, kw_only=True):
    """The card of an agent, with the fields that we use."""

    name: str
    description: str
    version: str
    url: str
    """The URL to which messages are sent."""
    binding: str
    knows_refs: bool
    """True if long parts may be sent as refs."""
    streams: bool
    skills: tuple[str, ...] = ()
    tenant: str = ""
    """The tenant, which selects the agent if several share the URL."""
    document: dict[str, Any] = {}
    """The whole card as received."""


class AgentAnswer(Struct, frozen=True, kw_only=True):
    """The answer of a remote agent to one message."""

    agent: str
    task: str
    """The id of the task, or "" if the agent answered with only a message."""
    context: str
    state: str
    """The state of the task: `completed`, `failed`, `input-required`, ..."""
    text: str
    """The text of the artifacts or of the message."""
    refs: tuple[str, ...] = ()
    """The refs of the output, as artifacts of the thread."""
    sent_bytes: int = 0
    """The size in bytes of the messages in both directions, without bodies behind refs."""
    received_bytes: int = 0


# Requests


class Authentication(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The Authorization header that a webhook requires."""

    scheme: Annotated[str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,32}$")]
    credentials: Annotated[str, Meta(max_length=4096, pattern=r"^[\x20-\x7e]*$")] = ""


class PushConfig(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A webhook for the updates of a task."""

    url: Url
    id: Id = ""
    task_id: Id = ""
    token: Annotated[str, Meta(max_length=4096, pattern=r"^[\x20-\x7e]*$")] = ""
    authentication: Authentication | None = None
    tenant: Id = ""


class Configuration(Struct, frozen=True, kw_only=True, rename="camel"):
    """Options for the answer to a message."""

    accepted_output_modes: Annotated[list[MediaType], Meta(max_length=A2A_PARTS_MAX)] = []
    task_push_notification_config: PushConfig | None = None
    history_length: Count | None = None
    return_immediately: bool = False


class SendMessage(Struct, frozen=True, kw_only=True, rename="camel"):
    """A message to an agent."""

    message: AgentMessage
    configuration: Configuration = Configuration()
    metadata: _Document = {}


class GetTask(Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of a task to read, cancel or follow."""

    id: RequiredId
    history_length: Count | None = None


class TaskQuery(Struct, frozen=True, kw_only=True, rename="camel"):
    """A filter for listing tasks."""

    context_id: Id = ""
    status: TaskState | Literal["", "TASK_STATE_UNSPECIFIED"] = ""
    page_size: Annotated[int, Meta(ge=1, le=A2A_TASKS_PAGE_MAX)] = A2A_TASKS_PAGE_DEFAULT
    page_token: Annotated[str, Meta(max_length=LABEL_CHARS_MAX)] = ""
    history_length: Count | None = None
    status_timestamp_after: Id = ""
    include_artifacts: bool = False


class NamedConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """The id of a push configuration of a task, or "" for all of them."""

    task_id: RequiredId
    id: Id = ""


def request(kind: type[Request], value: object, is_text: bool = False) -> Request:
    """Convert JSON values to a request, or raise ProtocolError. `is_text`: all values are texts."""
    try:
        if is_text:
            return convert(camel(value), kind, strict=False)
        return from_json(camel(value), kind)
    except ValidationError as error:
        raise ProtocolError("InvalidParams", str(error)) from None
    except RecursionError:
        raise ProtocolError("InvalidParams", "the request is nested too deeply") from None


def camel(value: object) -> object:
    """Return a JSON value with its field names in camelCase, except in free-form objects."""
    if isinstance(value, list):
        return [camel(each) for each in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    return {
        _camel_name(name): each if name in ("metadata", "data") else camel(each)
        for name, each in cast("dict[str, object]", value).items()
    }


def _camel_name(name: str) -> str:
    if "_" not in name:
        return name
    first, *rest = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


# Parts, in both directions


def stored_as(part: Part) -> tuple[str | None, str | None]:
    """Return the name and the media type under which a part is stored."""
    name = part.filename.replace("\\", "/").rpartition("/")[2].strip()
    media_type = part.media_type.partition(";")[0].strip()
    is_name = name.isprintable() and name not in ("", ".", "..")
    return name if is_name else None, media_type if is_media_type(media_type) else None


def body_path(ref: str) -> str:
    """Return the URL path of an artifact's bytes, which any client can read."""
    return f"/v1/artifacts/{ref}/content"


def describe(artifact: Artifact) -> _Document:
    """Return the metadata of a URL part that refers to an artifact, as our extension defines it."""
    about = BodyDescription(
        ref=artifact.ref,
        sha256=artifact.sha256,
        size=artifact.size_bytes,
        tokens=artifact.tokens if isinstance(artifact.tokens, int) else None,
        preview=artifact.preview.text[:A2A_PREVIEW_CHARS],
    )
    return {REFS_EXTENSION: to_builtins(about)}


def filled(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: each for name, each in fields.items() if each}


# Errors


class _Kind(Struct, frozen=True):
    code: int
    status: int
    grpc: str
    is_own: bool = True


ERRORS: dict[str, _Kind] = {
    "TaskNotFound": _Kind(-32001, 404, "NOT_FOUND"),
    "TaskNotCancelable": _Kind(-32002, 409, "FAILED_PRECONDITION"),
    "PushNotificationNotSupported": _Kind(-32003, 400, "UNIMPLEMENTED"),
    "UnsupportedOperation": _Kind(-32004, 400, "UNIMPLEMENTED"),
    "ContentTypeNotSupported": _Kind(-32005, 415, "INVALID_ARGUMENT"),
    "InvalidAgentResponse": _Kind(-32006, 502, "INTERNAL"),
    "ExtendedAgentCardNotConfigured": _Kind(-32007, 400, "FAILED_PRECONDITION"),
    "ExtensionSupportRequired": _Kind(-32008, 400, "FAILED_PRECONDITION"),
    "VersionNotSupported": _Kind(-32009, 400, "UNIMPLEMENTED"),
    "InvalidRequest": _Kind(-32600, 400, "INVALID_ARGUMENT", False),
    "MethodNotFound": _Kind(-32601, 404, "UNIMPLEMENTED", False),
    "InvalidParams": _Kind(-32602, 400, "INVALID_ARGUMENT", False),
    "Internal": _Kind(-32603, 500, "INTERNAL", False),
    "Parse": _Kind(-32700, 400, "INVALID_ARGUMENT", False),
}
"""For each protocol error by name: its JSON-RPC code, HTTP status, and gRPC status."""
_DOMAIN = "a2a-protocol.org"
_GRPC_OF_STATUS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
    402: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    507: "RESOURCE_EXHAUSTED",
}


class ProtocolError(RelayError):
    """An error that is defined by A2A."""

    def __init__(self, name: str, message: str, hint: str = "") -> None:
        kind = ERRORS[name]
        super().__init__(message, hint)
        self.name = name
        self.status = kind.status


def error_info(error: RelayError) -> list[_Document]:
    """Return the details of an error, which contain its name in the protocol."""
    if not isinstance(error, ProtocolError) or not ERRORS[error.name].is_own:
        return []
    reason = "".join(f"_{each}" if each.isupper() else each.upper() for each in error.name)[1:]
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
    return [{**info, "domain": _DOMAIN, "metadata": {"hint": error.hint} if error.hint else {}}]


def jsonrpc_error(error: RelayError) -> _Document:
    """Return an error in the form of JSON-RPC."""
    other = "InvalidParams" if error.status in (400, 413, 422) else "Internal"
    code = ERRORS[error.name if isinstance(error, ProtocolError) else other].code
    info = error_info(error)
    return {"code": code, "message": said(error), **({"data": info} if info else {})}


def http_error(error: RelayError) -> _Document:
    """Return an error in the form of HTTP+JSON (AIP-193)."""
    details = error_info(error)
    body = {"code": error.status, "status": grpc_status(error), "message": said(error)}
    return {"error": {**body, **({"details": details} if details else {})}}


def said(error: RelayError) -> str:
    """Return the message of an error and its hint as one text for the client."""
    return f"{error.message} ({error.hint})" if error.hint else error.message


def grpc_status(error: RelayError) -> str:
    """Return the name of the gRPC status of an error."""
    if isinstance(error, ProtocolError):
        return ERRORS[error.name].grpc
    other = "INVALID_ARGUMENT" if error.status < 500 else "INTERNAL"
    return _GRPC_OF_STATUS.get(error.status, other)
