"""Bodies of requests: what is written is read, and anything else is a violation."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.widecolumn.cql.plan.bindings import UNSET
from docstore.widecolumn.cql.statements import BatchKind
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.protocol.envelopes import Envelope
from docstore.widecolumn.protocol.errors import ProtocolViolation
from docstore.widecolumn.protocol.notation import LEVELS
from docstore.widecolumn.protocol.opcodes import V4, V5, EnvelopeFlag, Opcode
from docstore.widecolumn.protocol.requests import (
    AuthResponse,
    BatchMember,
    BatchRequest,
    EventType,
    ExecuteRequest,
    OptionsRequest,
    PrepareRequest,
    QueryParameters,
    QueryRequest,
    RegisterRequest,
    Request,
    StartupRequest,
    read_request,
)
from tests.unit.widecolumn.protocol.client_frames import request_body

_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
_values = st.lists(st.one_of(st.none(), st.just(UNSET), st.binary(max_size=20)), max_size=5).map(tuple)
_timestamps = st.none() | st.integers(-(1 << 63) + 1, (1 << 63) - 1)
_serial = st.sampled_from([Level.SERIAL, Level.LOCAL_SERIAL])


@st.composite
def parameters(draw: st.DrawFn, version: int) -> QueryParameters:
    values = draw(_values)
    named = draw(st.booleans()) and bool(values)
    return QueryParameters(
        level=draw(st.sampled_from(LEVELS)),
        values=values,
        names=tuple(draw(_texts) for _ in values) if named else None,
        skip_metadata=draw(st.booleans()),
        page_size=draw(st.integers(0, (1 << 31) - 1)),
        paging_state=draw(st.none() | st.binary(max_size=30)),
        serial_level=draw(_serial),
        timestamp=draw(_timestamps),
        keyspace=draw(st.none() | _texts) if version == V5 else None,
        now_in_seconds=draw(st.none() | st.integers(0, (1 << 31) - 1)) if version == V5 else None,
    )


@st.composite
def requests(draw: st.DrawFn, version: int) -> Request:
    match draw(st.integers(0, 7)):
        case 0:
            return OptionsRequest()
        case 1:
            return StartupRequest(draw(st.dictionaries(_texts, _texts, max_size=3)))
        case 2:
            return AuthResponse(draw(st.none() | st.binary(max_size=30)))
        case 3:
            return RegisterRequest(draw(st.frozensets(st.sampled_from(EventType))))
        case 4:
            return QueryRequest(draw(_texts), draw(parameters(version)))
        case 5:
            return PrepareRequest(draw(_texts), draw(st.none() | _texts) if version == V5 else None)
        case 6:
            metadata_id = draw(st.binary(max_size=16)) if version == V5 else None
            return ExecuteRequest(draw(st.binary(max_size=16)), metadata_id, draw(parameters(version)))
    members = draw(st.lists(st.builds(BatchMember, _texts | st.binary(max_size=16), _values), max_size=4).map(tuple))
    drawn = draw(parameters(version))
    common = QueryParameters(
        level=drawn.level,
        serial_level=drawn.serial_level,
        timestamp=drawn.timestamp,
        keyspace=drawn.keyspace,
        now_in_seconds=drawn.now_in_seconds,
    )
    return BatchRequest(draw(st.sampled_from(BatchKind)), members, common)


_versioned = st.sampled_from([V4, V5]).flatmap(lambda version: st.tuples(st.just(version), requests(version)))


@given(_versioned)
def test_what_is_written_is_read(drawn: tuple[int, Request]) -> None:
    version, request = drawn
    opcode, body = request_body(request, version)
    assert read_request(Envelope(version, 0, 0, opcode, body)) == request
    payload = b"\0\1\0\1k\0\0\0\1v"
    assert read_request(Envelope(version, EnvelopeFlag.CUSTOM_PAYLOAD, 0, opcode, payload + body)) == request


@given(_versioned, st.integers(1, 50))
def test_a_body_cut_short_is_a_violation(drawn: tuple[int, Request], cut: int) -> None:
    version, request = drawn
    opcode, body = request_body(request, version)
    if len(body) >= cut:
        with pytest.raises(ProtocolViolation):
            read_request(Envelope(version, 0, 0, opcode, body[:-cut]))
    with pytest.raises(ProtocolViolation):
        read_request(Envelope(version, 0, 0, opcode, body + b"\0" * cut))


@settings(max_examples=300)
@given(_versioned, st.randoms(use_true_random=False))
def test_damaged_bodies_are_requests_or_violations(drawn: tuple[int, Request], dice: random.Random) -> None:
    version, request = drawn
    opcode, body = request_body(request, version)
    for _ in range(10):
        damaged = bytearray(body)
        for _ in range(dice.randint(1, 3)):
            if damaged:
                damaged[dice.randrange(len(damaged))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        with contextlib.suppress(ProtocolViolation):
            read_request(Envelope(dice.choice((V4, V5)), dice.randrange(256), 0, opcode, bytes(damaged)))


@pytest.mark.parametrize(
    ("version", "opcode", "body", "text"),
    [
        (V4, 0x21, b"", "Unknown opcode 33"),
        (V4, Opcode.RESULT, b"", "Wrong protocol direction"),
        (V4, Opcode.REGISTER, b"\0\1\0\1X", "Invalid value 'X' for Event.Type"),
        (V4, Opcode.QUERY, b"\0\0\0\1x\0\x0b\0", "Unknown code 11 for a consistency level"),
        (V4, Opcode.QUERY, b"\xff\xff\xff\xff\0\1\0", "Invalid length of a string"),
        (V4, Opcode.QUERY, b"\0\0\0\2\xc0\x80\0\1\0", "Cannot decode string as UTF8"),
        (V4, Opcode.QUERY, b"\0\0\0\1x\0\1\x80", "Unknown flags 0x80"),
        (V5, Opcode.QUERY, b"\0\0\0\1x\0\1\0\0\2\0", "Unknown flags 0x200"),
        (V4, Opcode.QUERY, b"\0\0\0\1x\0\1\1\0\1\xff\xff\xff\xfd", "Invalid ByteBuf length -3"),
        (V4, Opcode.QUERY, b"\0\0\0\1x\0\1\x10\0\1", "Serial consistency must be"),
        (V4, Opcode.QUERY, b"\0\0\0\1x\0\1\x20\x80" + bytes(7), "Out of bound timestamp"),
        (V5, Opcode.QUERY, b"\0\0\0\1x\0\1\0\0\1\0\xff\xff\xff\xff", "Invalid negative value for the current time"),
        (V4, Opcode.BATCH, b"\3\0\0\0\1\0", "Invalid BATCH message type 3"),
        (V4, Opcode.BATCH, b"\0\0\1\2", "Invalid query kind in BATCH messages. Must be 0 or 1 but got 2"),
        (V4, Opcode.BATCH, b"\0\0\0\0\1\x40", "Unknown flags 0x40"),
    ],
)
def test_violations_are_said(version: int, opcode: int, body: bytes, text: str) -> None:
    with pytest.raises(ProtocolViolation, match=text.replace(".", r"\.")):
        read_request(Envelope(version, 0, 0, opcode, body))
