"""Resume tokens: positions in the total order of events.

A token is `{_data: <hex>, _typeBits: <binary, if needed>}`. `_data` is a key string of: the event's timestamp, the
format version (1), the kind of token, the operation's index in its transaction, a flag for invalidations, the
collection's UUID, and the event identifier: its document key, or `{operationType, operationDescription}` for a catalog
change. So the byte order of tokens is the order of the events, on all shards.

A high-water mark is a token without an event: it sorts after all earlier events and before those of its own timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from docstore.aggregation.change_stream.key_string import END, KeyString
from docstore.aggregation.change_stream.splitting import event_key, fragment_in
from docstore.bson import document_from, from_python, get_field
from docstore.bson.build import enclosed
from docstore.bson.walk import BINARY, BOOL, INT32, OBJECT, STRING, TIMESTAMP, Value
from docstore.errors import Code, CommandError
from docstore.query.value.notation import display

VERSION = 1
MARK, EVENT = 0, 128
"""Kinds of tokens."""

_HEAD_BYTES = 9
_UUID = b"\x5a\x10\x04"
_FIRST_EVENT = b"\x2b\x02\x2c\x01\x00\x29\x6e" + _UUID
"""The version, kind and index 0 of an event that is no invalidation, before its UUID."""
_PLAIN_BYTES, _PLAIN_PLACE = 22, slice(9, 21)
_PLAIN_HEAD, _PLAIN_ID = b"\x16\0\0\0\x07_id\0", b"\x46\x64_id\0\x64"
_NULL, _TIMESTAMP = 0x14, 0x82
_TYPES = frozenset((0x0A, *range(0x0F, 0x35), 0x3C, 0x46, 0x50, 0x5A, 0x64, 0x6E, 0x6F, 0x78, 0x82, 0x8C, 0x96, 0xA0))
_NOT_INVALIDATE, _INVALIDATE = 0x6E, 0x6F


@dataclass(frozen=True)
class ResumeToken:
    """A parsed token. `key` compares in event order; `raw` is the client's document.

    `index`: that of the operation in its transaction, or other entry with several operations. `fragment`: the number of
    a fragment of a large event, whose own key is `event_key`; else 0.
    """

    key: bytes
    timestamp: int
    kind: int
    index: int
    invalidates: bool
    uuid: bytes | None
    raw: bytes
    fragment: int = 0

    @property
    def event_key(self) -> bytes:
        return event_key(self.key, self.fragment)

    @property
    def is_mark(self) -> bool:
        return self.kind == MARK


@lru_cache(maxsize=64)
def high_water_mark(timestamp: int) -> bytes:
    """Return the token of a timestamp that may have no event."""
    return _document(mark_key(timestamp), b"")


def mark_key(timestamp: int) -> bytes:
    """Return the key of a high-water mark."""
    return b"\x82" + timestamp.to_bytes(8, "big") + b"\x2b\x02\x29\x29\x6e\x04"


class EventToken:
    """The tokens of an event and of its invalidation, built lazily."""

    def __init__(self, timestamp: int, index: int, uuid: bytes | None, identifier: Value | None) -> None:
        self.timestamp = timestamp
        self.index = index
        self._uuid = uuid
        self._identifier = identifier

    @cached_property
    def _event(self) -> tuple[bytes, bytes]:
        return self._encode(b"\0", self._identifier)

    @cached_property
    def _invalidation(self) -> tuple[bytes, bytes]:
        return self._encode(b"\1", None)

    @property
    def key(self) -> bytes:
        return self._event[0]

    @property
    def raw(self) -> bytes:
        return self._event[1]

    @property
    def invalidation_key(self) -> bytes:
        return self._invalidation[0]

    @property
    def invalidation_raw(self) -> bytes:
        return self._invalidation[1]

    def _encode(self, invalidates: bytes, identifier: Value | None) -> tuple[bytes, bytes]:
        if self.index == 0 and self._uuid is not None and identifier is not None and _is_plain(identifier[1]):
            # The common case: an ObjectId, assembled from constant parts.
            object_id = identifier[1][_PLAIN_PLACE]
            key = b"".join(
                (b"\x82", self.timestamp.to_bytes(8, "big"), _FIRST_EVENT, self._uuid, _PLAIN_ID, object_id, b"\0\x04")
            )
            return key, _document(key, b"")
        key_string = KeyString()
        key_string.append((TIMESTAMP, self.timestamp.to_bytes(8, "little")))
        for number in (VERSION, EVENT, self.index):
            key_string.append((INT32, number.to_bytes(4, "little")))
        key_string.append((BOOL, invalidates))
        if self._uuid is not None:
            key_string.append((BINARY, b"\x10\0\0\0\x04" + self._uuid))
            if identifier is not None:
                key_string.append(identifier)
        key = key_string.finished()
        return key, _document(key, key_string.types)


def _document(key: bytes, types: bytes) -> bytes:
    data = key.hex().upper().encode() + b"\0"
    type_bits = b""
    if types:
        type_bits = b"\x05_typeBits\0" + len(types).to_bytes(4, "little") + b"\0" + types
    return enclosed(b"".join((b"\x02_data\0", len(data).to_bytes(4, "little"), data, type_bits)))


def _is_plain(identity: bytes) -> bool:
    """True if the document has only an `_id` that is an ObjectId."""
    return len(identity) == _PLAIN_BYTES and identity.startswith(_PLAIN_HEAD)


def ddl_identifier(operation: str, description: bytes) -> Value:
    """Return the event identifier of a catalog change."""
    return OBJECT, document_from(
        [("operationType", *from_python(operation)), ("operationDescription", OBJECT, description)]
    )


def parse_token(raw: bytes) -> ResumeToken:
    """Parse a client's token. Errors: Location40647, FailedToParse, Location40649, Overflow, Location6189500."""
    data = get_field(raw, "_data")
    if data is None or data[0] != STRING:
        document_text = display((OBJECT, raw))
        raise CommandError(
            40647, f"Bad resume token: _data of missing or of wrong type. Expected string, got {document_text}"
        )
    text = data[1][4:-1].decode("utf-8", "replace")
    try:
        key = bytes.fromhex(text) if len(text) % 2 == 0 and text.isalnum() else None
    except ValueError:
        key = None
    if key is None and text:
        raise CommandError(Code.FailedToParse, "resume token string was not a valid hex string")
    if not key:
        raise CommandError(40649, "invalid empty resume token")
    if key[0] not in _TYPES:
        raise CommandError(50811, f"KeyString format error: Unknown type: {key[0]}")
    if key[0] != _TIMESTAMP:
        raise CommandError(40649, "a resume token begins with a timestamp")
    if len(key) < _HEAD_BYTES:
        raise CommandError(Code.Overflow, f"Invalid advance (8) past end of buffer[{len(key) - 1}] at offset: 0")
    return _Reader(key, raw).token()


class _Reader:
    """Reads the fields of a token in sequence."""

    def __init__(self, key: bytes, raw: bytes) -> None:
        self._key = key if key[-1] == END else key + bytes([END])
        self._raw = raw
        self._at = _HEAD_BYTES

    def token(self) -> ResumeToken:
        key = self._key
        timestamp = int.from_bytes(key[1:_HEAD_BYTES], "big")
        version = self._integer()
        if version not in (0, 1):
            if version > 2:
                raise CommandError(40649, f"resume tokens of the version {version} are not known")
            raise CommandError(6189500, "Expected UUID or null")
        kind = self._integer() if version >= 1 else EVENT
        if kind not in (MARK, EVENT):
            raise CommandError(40649, f"invalid type of a resume token: {kind}")
        index = self._integer()
        invalidates = self._byte() == _INVALIDATE
        uuid = None
        if key[self._at : self._at + 3] == _UUID:
            uuid = key[self._at + 3 : self._at + 19]
            if len(uuid) < 16:
                raise CommandError(Code.Overflow, "a resume token ends in the middle of a uuid")
        elif self._at < len(key) and key[self._at] not in (END, _NULL):
            raise CommandError(6189500, "Expected UUID or null")
        fragment = 0 if uuid is None else fragment_in(key, self._at + 19)
        return ResumeToken(key, timestamp, kind, index, invalidates, uuid, self._raw, fragment)

    def _byte(self) -> int:
        if self._at >= len(self._key):
            raise CommandError(Code.Overflow, f"a resume token ends at offset {self._at}")
        self._at += 1
        return self._key[self._at - 1]

    def _integer(self) -> int:
        kind = self._byte()
        if kind == 0x29:
            return 0
        length = kind - 0x2A
        if not 1 <= length <= 8:
            raise CommandError(40649, "a resume token has something else in the place of a number")
        content = self._key[self._at : self._at + length]
        if len(content) < length:
            raise CommandError(Code.Overflow, f"a resume token ends at offset {self._at}")
        self._at += length
        return int.from_bytes(content, "big") >> 1
