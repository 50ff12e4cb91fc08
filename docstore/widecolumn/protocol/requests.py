"""The bodies of requests."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from docstore.bson.limits import LONG_MIN
from docstore.widecolumn.cql.plan.bindings import Bound
from docstore.widecolumn.cql.statements import BatchKind
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, Level
from docstore.widecolumn.protocol.envelopes import Envelope
from docstore.widecolumn.protocol.errors import ProtocolViolation
from docstore.widecolumn.protocol.notation import Reader
from docstore.widecolumn.protocol.opcodes import REQUESTS, V5, EnvelopeFlag, Opcode, QueryFlag

_OPCODES = {int(opcode): opcode for opcode in Opcode}
_BATCH_KINDS = (BatchKind.LOGGED, BatchKind.UNLOGGED, BatchKind.COUNTER)
_QUERY_FLAGS_V4 = 0x7F
_QUERY_FLAGS_V5 = 0x1FF
_BATCH_FLAGS_V4 = QueryFlag.SERIAL_LEVEL | QueryFlag.TIMESTAMP
_BATCH_FLAGS_V5 = _BATCH_FLAGS_V4 | QueryFlag.KEYSPACE | QueryFlag.NOW_IN_SECONDS
_COMMON_FLAGS = _BATCH_FLAGS_V5
_PREPARE_KEYSPACE = 0x01


class EventType(Enum):
    TOPOLOGY_CHANGE = "TOPOLOGY_CHANGE"
    STATUS_CHANGE = "STATUS_CHANGE"
    SCHEMA_CHANGE = "SCHEMA_CHANGE"


@dataclass(frozen=True, slots=True)
class OptionsRequest:
    pass


@dataclass(frozen=True, slots=True)
class StartupRequest:
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class AuthResponse:
    token: bytes | None


@dataclass(frozen=True, slots=True)
class RegisterRequest:
    events: frozenset[EventType]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameters:
    """`values`: in the order of the markers or, with `names`, of these. `timestamp`: in microseconds. `page_size`: 0
    for all rows.
    """

    level: Level
    values: tuple[Bound, ...] = ()
    names: tuple[str, ...] | None = None
    skip_metadata: bool = False
    page_size: int = 0
    paging_state: bytes | None = None
    serial_level: Level = Level.SERIAL
    timestamp: int | None = None
    keyspace: str | None = None
    now_in_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class QueryRequest:
    text: str
    parameters: QueryParameters


@dataclass(frozen=True, slots=True)
class PrepareRequest:
    text: str
    keyspace: str | None


@dataclass(frozen=True, slots=True)
class ExecuteRequest:
    """`metadata_id`: of the result columns that the client knows; None in version 4."""

    statement_id: bytes
    metadata_id: bytes | None
    parameters: QueryParameters


@dataclass(frozen=True, slots=True)
class BatchMember:
    """A statement of a batch: its text, or the id of a prepared one."""

    statement: str | bytes
    values: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """`parameters`: without values and paging."""

    kind: BatchKind
    members: tuple[BatchMember, ...]
    parameters: QueryParameters


Request = (
    OptionsRequest
    | StartupRequest
    | AuthResponse
    | RegisterRequest
    | QueryRequest
    | PrepareRequest
    | ExecuteRequest
    | BatchRequest
)


def opcode_of(envelope: Envelope) -> Opcode:
    """The kind of a request. ProtocolViolation."""
    opcode = _OPCODES.get(envelope.opcode)
    if opcode is None:
        raise ProtocolViolation(f"Unknown opcode {envelope.opcode}")
    if opcode not in REQUESTS:
        raise ProtocolViolation(
            f"Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode {envelope.opcode} ({opcode.name})"
        )
    return opcode


def read_request(envelope: Envelope) -> Request:
    """Read the body of a request. ProtocolViolation."""
    opcode = opcode_of(envelope)
    reader = Reader(envelope.body)
    if envelope.flags & EnvelopeFlag.CUSTOM_PAYLOAD:
        # As of a Cassandra without a query handler of its own: nobody reads it.
        reader.bytes_map()
    request = _read(opcode, reader, envelope.version)
    reader.end()
    return request


def _read(opcode: Opcode, reader: Reader, version: int) -> Request:
    match opcode:
        case Opcode.EXECUTE:
            statement_id = reader.short_bytes()
            metadata_id = reader.short_bytes() if version >= V5 else None
            return ExecuteRequest(statement_id, metadata_id, _parameters(reader, version))
        case Opcode.QUERY:
            return QueryRequest(reader.long_string(), _parameters(reader, version))
        case Opcode.PREPARE:
            return PrepareRequest(reader.long_string(), _prepare_keyspace(reader, version))
        case Opcode.STARTUP:
            return StartupRequest(reader.string_map())
        case Opcode.AUTH_RESPONSE:
            return AuthResponse(reader.blob())
        case Opcode.REGISTER:
            return RegisterRequest(frozenset(map(_event_type, reader.string_list())))
        case Opcode.BATCH:
            return _batch(reader, version)
        case _:
            return OptionsRequest()


def _event_type(name: str) -> EventType:
    try:
        return EventType(name)
    except ValueError:
        raise ProtocolViolation(f"Invalid value '{name}' for Event.Type") from None


def _prepare_keyspace(reader: Reader, version: int) -> str | None:
    if version < V5:
        return None
    flags = reader.unsigned()
    _check_flags(flags, _PREPARE_KEYSPACE)
    return reader.string() if flags & _PREPARE_KEYSPACE else None


def _check_flags(flags: int, allowed: int) -> None:
    if flags & ~allowed:
        raise ProtocolViolation(f"Unknown flags {flags & ~allowed:#x}")


def _parameters(reader: Reader, version: int) -> QueryParameters:
    level = reader.level()
    flags = reader.unsigned() if version >= V5 else reader.byte()
    _check_flags(flags, _QUERY_FLAGS_V5 if version >= V5 else _QUERY_FLAGS_V4)
    values: tuple[Bound, ...] = ()
    names: tuple[str, ...] | None = None
    if flags & QueryFlag.VALUES:
        count = reader.short()
        if flags & QueryFlag.NAMES:
            pairs = [(reader.string(), reader.value()) for _ in range(count)]
            names, values = tuple(name for name, _ in pairs), tuple(value for _, value in pairs)
        else:
            values = tuple([reader.value() for _ in range(count)])
    page_size = reader.integer() if flags & QueryFlag.PAGE_SIZE else 0
    paging_state = reader.blob() if flags & QueryFlag.PAGING_STATE else None
    return _with_common_parts(
        reader,
        flags,
        QueryParameters(
            level=level,
            values=values,
            names=names,
            skip_metadata=bool(flags & QueryFlag.SKIP_METADATA),
            page_size=max(page_size, 0),
            paging_state=paging_state,
        ),
    )


def _with_common_parts(reader: Reader, flags: int, parameters: QueryParameters) -> QueryParameters:
    """Read the parts that queries and batches have in common."""
    if not flags & _COMMON_FLAGS:
        return parameters
    serial_level, timestamp = Level.SERIAL, None
    if flags & QueryFlag.SERIAL_LEVEL:
        serial_level = reader.level()
        if serial_level not in SERIAL_LEVELS:
            raise ProtocolViolation(f"Serial consistency must be SERIAL or LOCAL_SERIAL, and is {serial_level.value}")
    if flags & QueryFlag.TIMESTAMP:
        timestamp = reader.long()
        if timestamp == LONG_MIN:
            raise ProtocolViolation(
                f"Out of bound timestamp, must be in [{LONG_MIN + 1}, {-LONG_MIN - 1}] (got {timestamp})"
            )
    keyspace = reader.string() if flags & QueryFlag.KEYSPACE else None
    now = reader.integer() if flags & QueryFlag.NOW_IN_SECONDS else None
    if now is not None and now < 0:
        raise ProtocolViolation(f"Invalid negative value for the current time in seconds: {now}")
    return replace(
        parameters,
        serial_level=serial_level,
        timestamp=timestamp,
        keyspace=keyspace,
        now_in_seconds=now,
    )


def _batch(reader: Reader, version: int) -> BatchRequest:
    kind = reader.byte()
    if kind >= len(_BATCH_KINDS):
        raise ProtocolViolation(f"Invalid BATCH message type {kind}")
    members = tuple([_batch_member(reader) for _ in range(reader.short())])
    level = reader.level()
    flags = reader.unsigned() if version >= V5 else reader.byte()
    _check_flags(flags, _BATCH_FLAGS_V5 if version >= V5 else _BATCH_FLAGS_V4)
    return BatchRequest(_BATCH_KINDS[kind], members, _with_common_parts(reader, flags, QueryParameters(level=level)))


def _batch_member(reader: Reader) -> BatchMember:
    kind = reader.byte()
    if kind > 1:
        raise ProtocolViolation(f"Invalid query kind in BATCH messages. Must be 0 or 1 but got {kind}")
    statement = reader.short_bytes() if kind else reader.long_string()
    return BatchMember(statement, tuple([reader.value() for _ in range(reader.short())]))
