"""The numbers of the protocol."""

from __future__ import annotations

from enum import IntEnum

V4 = 4
V5 = 5
VERSIONS = (V4, V5)
RESPONSE = 0x80
"""The bit of a version byte in a response."""

EVENT_STREAM = -1


class Opcode(IntEnum):
    ERROR = 0x00
    STARTUP = 0x01
    READY = 0x02
    AUTHENTICATE = 0x03
    OPTIONS = 0x05
    SUPPORTED = 0x06
    QUERY = 0x07
    RESULT = 0x08
    PREPARE = 0x09
    EXECUTE = 0x0A
    REGISTER = 0x0B
    EVENT = 0x0C
    BATCH = 0x0D
    AUTH_CHALLENGE = 0x0E
    AUTH_RESPONSE = 0x0F
    AUTH_SUCCESS = 0x10


REQUESTS = frozenset(
    (
        Opcode.STARTUP,
        Opcode.OPTIONS,
        Opcode.QUERY,
        Opcode.PREPARE,
        Opcode.EXECUTE,
        Opcode.REGISTER,
        Opcode.BATCH,
        Opcode.AUTH_RESPONSE,
    )
)


class EnvelopeFlag:
    """Bits of an envelope's flags; plain numbers, because they are tested for every request."""

    COMPRESSED = 0x01
    TRACING = 0x02
    CUSTOM_PAYLOAD = 0x04
    WARNINGS = 0x08
    BETA = 0x10


class QueryFlag:
    """Bits of the flags of query parameters."""

    VALUES = 0x01
    SKIP_METADATA = 0x02
    PAGE_SIZE = 0x04
    PAGING_STATE = 0x08
    SERIAL_LEVEL = 0x10
    TIMESTAMP = 0x20
    NAMES = 0x40
    KEYSPACE = 0x80
    NOW_IN_SECONDS = 0x100


class ResultKind(IntEnum):
    VOID = 1
    ROWS = 2
    SET_KEYSPACE = 3
    PREPARED = 4
    SCHEMA_CHANGE = 5


class RowsFlag:
    """Bits of the flags of rows."""

    GLOBAL_TABLE = 0x01
    MORE_PAGES = 0x02
    NO_METADATA = 0x04
    METADATA_CHANGED = 0x08


class ErrorCode(IntEnum):
    SERVER_ERROR = 0x0000
    PROTOCOL_ERROR = 0x000A
    BAD_CREDENTIALS = 0x0100
    UNAVAILABLE = 0x1000
    OVERLOADED = 0x1001
    BOOTSTRAPPING = 0x1002
    TRUNCATE_ERROR = 0x1003
    WRITE_TIMEOUT = 0x1100
    READ_TIMEOUT = 0x1200
    READ_FAILURE = 0x1300
    FUNCTION_FAILURE = 0x1400
    WRITE_FAILURE = 0x1500
    SYNTAX_ERROR = 0x2000
    UNAUTHORIZED = 0x2100
    INVALID = 0x2200
    CONFIGURATION = 0x2300
    ALREADY_EXISTS = 0x2400
    UNPREPARED = 0x2500
