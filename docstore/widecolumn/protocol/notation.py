"""The notations of the protocol, read from a body and written to one. All numbers are big-endian."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address

from docstore.widecolumn.cql.plan.bindings import UNSET, Bound
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.protocol.errors import ProtocolViolation

_SHORT = struct.Struct(">H")
_INT = struct.Struct(">i")
_UNSIGNED = struct.Struct(">I")
_LONG = struct.Struct(">q")
NULL = _INT.pack(-1)

LEVELS = (
    Level.ANY,
    Level.ONE,
    Level.TWO,
    Level.THREE,
    Level.QUORUM,
    Level.ALL,
    Level.LOCAL_QUORUM,
    Level.EACH_QUORUM,
    Level.SERIAL,
    Level.LOCAL_SERIAL,
    Level.LOCAL_ONE,
)
"""The consistency levels by their codes."""
_LEVEL_CODES = {level: code for code, level in enumerate(LEVELS)}


class Reader:
    """Reads notations one after the other. Errors of all methods: ProtocolViolation."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def end(self) -> None:
        """Require that the body ends here."""
        if self._at != len(self._data):
            raise ProtocolViolation(f"{len(self._data) - self._at} bytes are left over at the end of the body")

    def _take(self, length: int) -> bytes:
        start = self._at
        end = start + length
        if end > len(self._data):
            raise ProtocolViolation(
                f"Not enough bytes to read the body: {length} are announced and {len(self._data) - start} are there"
            )
        self._at = end
        return self._data[start:end]

    def byte(self) -> int:
        return self._take(1)[0]

    def short(self) -> int:
        number: int = _SHORT.unpack(self._take(2))[0]
        return number

    def integer(self) -> int:
        number: int = _INT.unpack(self._take(4))[0]
        return number

    def unsigned(self) -> int:
        number: int = _UNSIGNED.unpack(self._take(4))[0]
        return number

    def long(self) -> int:
        number: int = _LONG.unpack(self._take(8))[0]
        return number

    def string(self) -> str:
        return _text(self._take(self.short()))

    def long_string(self) -> str:
        length = self.integer()
        if length < 0:
            raise ProtocolViolation(f"Invalid length of a string: {length}")
        return _text(self._take(length))

    def blob(self) -> bytes | None:
        length = self.integer()
        return None if length < 0 else self._take(length)

    def short_bytes(self) -> bytes:
        return self._take(self.short())

    def value(self) -> Bound:
        """Read a bound value: bytes, None for null, or `UNSET`."""
        length = self.integer()
        if length >= 0:
            return self._take(length)
        if length == -1:
            return None
        if length == -2:
            return UNSET
        raise ProtocolViolation(f"Invalid ByteBuf length {length}")

    def level(self) -> Level:
        code = self.short()
        if code >= len(LEVELS):
            raise ProtocolViolation(f"Unknown code {code} for a consistency level")
        return LEVELS[code]

    def string_list(self) -> list[str]:
        return [self.string() for _ in range(self.short())]

    def string_map(self) -> dict[str, str]:
        return {self.string(): self.string() for _ in range(self.short())}

    def bytes_map(self) -> dict[str, bytes | None]:
        return {self.string(): self.blob() for _ in range(self.short())}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ProtocolViolation(f"Cannot decode string as UTF8: '{data[:64].hex()}'") from None


# Writing


def short(number: int) -> bytes:
    return _SHORT.pack(number)


def integer(number: int) -> bytes:
    return _INT.pack(number)


def unsigned(number: int) -> bytes:
    return _UNSIGNED.pack(number)


def string(text: str) -> bytes:
    """A [string]; one that is too long is cut at its end."""
    data = text.encode("utf-8", "replace")
    if len(data) > 0xFFFF:
        data = data[:0xFFFF].decode("utf-8", "ignore").encode()
    return _SHORT.pack(len(data)) + data


def long_string(text: str) -> bytes:
    data = text.encode()
    return _INT.pack(len(data)) + data


def value(data: bytes | None) -> bytes:
    """A [bytes], null for None."""
    return NULL if data is None else _INT.pack(len(data)) + data


def short_bytes(data: bytes) -> bytes:
    return _SHORT.pack(len(data)) + data


def string_list(texts: Sequence[str]) -> bytes:
    return _SHORT.pack(len(texts)) + b"".join(map(string, texts))


def string_map(texts: Mapping[str, str]) -> bytes:
    return _SHORT.pack(len(texts)) + b"".join(string(key) + string(text) for key, text in texts.items())


def string_multimap(lists: Mapping[str, Iterable[str]]) -> bytes:
    return _SHORT.pack(len(lists)) + b"".join(string(key) + string_list(list(texts)) for key, texts in lists.items())


def level(consistency: Level) -> bytes:
    return _SHORT.pack(_LEVEL_CODES.get(consistency, 0))


def inet(address: str, port: int) -> bytes:
    """An [inet]. ValueError for a text that is no IP address."""
    packed = ip_address(address).packed
    return bytes((len(packed),)) + packed + _INT.pack(port)
