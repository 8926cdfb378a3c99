from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ContextType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SYSTEM: _ClassVar[ContextType]
    USER: _ClassVar[ContextType]
    AGENT: _ClassVar[ContextType]
    MEMORY: _ClassVar[ContextType]
    KNOWLEDGE: _ClassVar[ContextType]
    TOOL: _ClassVar[ContextType]
SYSTEM: ContextType
USER: ContextType
AGENT: ContextType
MEMORY: ContextType
KNOWLEDGE: ContextType
TOOL: ContextType

class ContextBlock(_message.Message):
    __slots__ = ("id", "timestamp", "content", "relevance_score", "metadata", "type", "token_count", "references")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_SCORE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    id: str
    timestamp: int
    content: str
    relevance_score: float
    metadata: _containers.ScalarMap[str, str]
    type: ContextType
    token_count: int
    references: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., timestamp: _Optional[int] = ..., content: _Optional[str] = ..., relevance_score: _Optional[float] = ..., metadata: _Optional[_Mapping[str, str]] = ..., type: _Optional[_Union[ContextType, str]] = ..., token_count: _Optional[int] = ..., references: _Optional[_Iterable[str]] = ...) -> None: ...

class ContextPackage(_message.Message):
    __slots__ = ("session_id", "agent_id", "blocks", "metrics", "version", "trace_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    agent_id: str
    blocks: _containers.RepeatedCompositeFieldContainer[ContextBlock]
    metrics: ContextMetrics
    version: int
    trace_id: str
    def __init__(self, session_id: _Optional[str] = ..., agent_id: _Optional[str] = ..., blocks: _Optional[_Iterable[_Union[ContextBlock, _Mapping]]] = ..., metrics: _Optional[_Union[ContextMetrics, _Mapping]] = ..., version: _Optional[int] = ..., trace_id: _Optional[str] = ...) -> None: ...

class ContextMetrics(_message.Message):
    __slots__ = ("total_tokens", "context_saturation", "type_distribution")
    class TypeDistributionEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_SATURATION_FIELD_NUMBER: _ClassVar[int]
    TYPE_DISTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    total_tokens: int
    context_saturation: float
    type_distribution: _containers.ScalarMap[str, float]
    def __init__(self, total_tokens: _Optional[int] = ..., context_saturation: _Optional[float] = ..., type_distribution: _Optional[_Mapping[str, float]] = ...) -> None: ...
