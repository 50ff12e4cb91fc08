"""The client's side of the native protocol: requests to bytes, responses to values."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from docstore.widecolumn.cql.plan.bindings import UNSET, Bound
from docstore.widecolumn.protocol.envelopes import HEADER
from docstore.widecolumn.protocol.notation import (
    LEVELS,
    Reader,
    integer,
    long_string,
    short,
    short_bytes,
    string,
    string_list,
    string_map,
    unsigned,
    value,
)
from docstore.widecolumn.protocol.opcodes import RESPONSE, V5, EnvelopeFlag, Opcode, QueryFlag
from docstore.widecolumn.protocol.requests import (
    AuthResponse,
    BatchRequest,
    ExecuteRequest,
    OptionsRequest,
    PrepareRequest,
    QueryParameters,
    QueryRequest,
    RegisterRequest,
    Request,
    StartupRequest,
)

_LONG = struct.Struct(">q")


def envelope(version: int, stream: int, opcode: int, body: bytes, flags: int = 0) -> bytes:
    return HEADER.pack(version, flags, stream, opcode, len(body)) + body


def request_bytes(request: Request, version: int, stream: int = 0, flags: int = 0) -> bytes:
    opcode, body = request_body(request, version)
    return envelope(version, stream, opcode, body, flags)


def request_body(request: Request, version: int) -> tuple[Opcode, bytes]:
    match request:
        case OptionsRequest():
            return Opcode.OPTIONS, b""
        case StartupRequest():
            return Opcode.STARTUP, string_map(request.options)
        case AuthResponse():
            return Opcode.AUTH_RESPONSE, value(request.token)
        case RegisterRequest():
            return Opcode.REGISTER, string_list(sorted(event.value for event in request.events))
        case QueryRequest():
            return Opcode.QUERY, long_string(request.text) + parameters(request.parameters, version)
        case PrepareRequest():
            body = long_string(request.text)
            if version >= V5:
                keyspace = request.keyspace
                body += unsigned(0) if keyspace is None else unsigned(1) + string(keyspace)
            return Opcode.PREPARE, body
        case ExecuteRequest():
            metadata_id = b"" if request.metadata_id is None else short_bytes(request.metadata_id)
            body = short_bytes(request.statement_id) + metadata_id + parameters(request.parameters, version)
            return Opcode.EXECUTE, body
    assert isinstance(request, BatchRequest)
    return Opcode.BATCH, batch(request, version)


def bound(item: Bound) -> bytes:
    return integer(-2) if item is UNSET else value(item)  # type: ignore[arg-type]


def values(items: tuple[Bound, ...], names: tuple[str, ...] | None = None) -> bytes:
    pairs = [(b"" if names is None else string(names[at])) + bound(item) for at, item in enumerate(items)]
    return short(len(items)) + b"".join(pairs)


def parameters(given: QueryParameters, version: int) -> bytes:
    flags, parts = 0, b""
    if given.values or given.names is not None:
        flags |= QueryFlag.VALUES | (QueryFlag.NAMES if given.names is not None else 0)
        parts += values(given.values, given.names)
    if given.skip_metadata:
        flags |= QueryFlag.SKIP_METADATA
    if given.page_size:
        flags |= QueryFlag.PAGE_SIZE
        parts += integer(given.page_size)
    if given.paging_state is not None:
        flags |= QueryFlag.PAGING_STATE
        parts += value(given.paging_state)
    more_flags, more = common_parts(given)
    return level(given) + encoded_flags(flags | more_flags, version) + parts + more


def common_parts(given: QueryParameters) -> tuple[int, bytes]:
    flags, parts = QueryFlag.SERIAL_LEVEL, short(LEVELS.index(given.serial_level))
    if given.timestamp is not None:
        flags |= QueryFlag.TIMESTAMP
        parts += _LONG.pack(given.timestamp)
    if given.keyspace is not None:
        flags |= QueryFlag.KEYSPACE
        parts += string(given.keyspace)
    if given.now_in_seconds is not None:
        flags |= QueryFlag.NOW_IN_SECONDS
        parts += integer(given.now_in_seconds)
    return flags, parts


def level(given: QueryParameters) -> bytes:
    return short(LEVELS.index(given.level))


def encoded_flags(flags: int, version: int) -> bytes:
    return unsigned(flags) if version >= V5 else bytes((flags,))


def batch(request: BatchRequest, version: int) -> bytes:
    kinds = ["LOGGED", "UNLOGGED", "COUNTER"]
    members = b""
    for member in request.members:
        statement = member.statement
        members += b"\0" + long_string(statement) if isinstance(statement, str) else b"\1" + short_bytes(statement)
        members += values(member.values)
    flags, parts = common_parts(request.parameters)
    head = bytes((kinds.index(request.kind.value),)) + short(len(request.members))
    return head + members + level(request.parameters) + encoded_flags(flags, version) + parts


class Reply(NamedTuple):
    """A response; `body` without warnings."""

    version: int
    stream: int
    opcode: Opcode
    body: bytes
    warnings: list[str]


def replies_in(data: bytes) -> Iterator[tuple[Reply, int]]:
    """Yield (response, where it ends) for each bare envelope."""
    at = 0
    while at + HEADER.size <= len(data):
        version, flags, stream, opcode, length = HEADER.unpack_from(data, at)
        end = at + HEADER.size + length
        if end > len(data):
            return
        reader = Reader(data[at + HEADER.size : end])
        warnings = reader.string_list() if flags & EnvelopeFlag.WARNINGS else []
        assert version & RESPONSE
        body = data[at + HEADER.size : end]
        body = body[len(string_list(warnings)) :] if warnings else body
        yield Reply(version & ~RESPONSE, stream, Opcode(opcode), body, warnings), end
        at = end


def payloads_in(data: bytes) -> tuple[bytes, int]:
    """(the payloads of whole plain segments, joined; where they end)."""
    at, payloads = 0, b""
    while at + 6 <= len(data):
        length = int.from_bytes(data[at : at + 3], "little") & 0x1FFFF
        end = at + 6 + length + 4
        if end > len(data):
            break
        payload = data[at + 6 : at + 6 + length]
        assert int.from_bytes(data[end - 4 : end], "little") == zlib.crc32(payload, zlib.crc32(b"\xfa\x2d\x55\xca"))
        payloads += payload
        at = end
    return payloads, at


class ReadRows(NamedTuple):
    """`columns`: (keyspace, table, name, type code); empty without metadata."""

    flags: int
    columns: list[tuple[str, str, str, Any]]
    rows: list[tuple[bytes | None, ...]]
    paging_state: bytes | None
    changed_id: bytes | None


def read_type(reader: Reader) -> Any:
    code = reader.short()
    if code in (0x20, 0x22):
        return (code, read_type(reader))
    return (code, read_type(reader), read_type(reader)) if code == 0x21 else code


def read_columns(reader: Reader, flags: int, count: int) -> list[tuple[str, str, str, Any]]:
    if flags & 4:
        return []
    shared = (reader.string(), reader.string()) if flags & 1 and count else None
    return [(*(shared or (reader.string(), reader.string())), reader.string(), read_type(reader)) for _ in range(count)]


def read_rows(body: bytes) -> ReadRows:
    reader = Reader(body)
    assert reader.integer() == 2, body
    flags, count = reader.unsigned(), reader.integer()
    paging_state = reader.blob() if flags & 2 else None
    changed_id = reader.short_bytes() if flags & 8 else None
    columns = read_columns(reader, flags, count)
    rows = [tuple(reader.blob() for _ in range(count)) for _ in range(reader.integer())]
    reader.end()
    return ReadRows(flags, columns, rows, paging_state, changed_id)
