"""The layout of a document's bytes: type and size of each field, with nested documents and arrays indented.

Sizes count the type, the name and the value, as MongoDB's `bsondump --type=debug` does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

_LENGTH = struct.Struct("<i")
_NESTED = (0x03, 0x04)


def layout_of(document: bytes) -> str:
    """Return the layout. Errors: ValueError, IndexError, struct.error for malformed documents."""
    return "\n".join(_lines(document, ""))


def _lines(document: bytes, indent: str) -> Iterator[str]:
    yield f"{indent}--- new object ---"
    yield f"{indent}\tsize : {len(document)}"
    offset, end = 4, len(document) - 1
    while offset < end:
        kind = document[offset]
        name_end = document.index(0, offset + 1)
        value = name_end + 1
        length = _size_of(kind, document, value)
        if value + length > end:
            raise ValueError("a field is longer than its document")
        yield f"{indent}\t\t{document[offset + 1 : name_end].decode(errors='replace')}"
        yield f"{indent}\t\t\ttype: {kind if kind < 128 else kind - 256:4} size: {value + length - offset}"
        if kind in _NESTED:
            yield from _lines(document[value : value + length], indent + 3 * "\t")
        offset = value + length


def _size_of(kind: int, document: bytes, value: int) -> int:
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    measured = _MEASURED.get(kind)
    if measured is None:
        raise ValueError(f"{kind} is no type of a value")
    return measured(document, value)


def _length(document: bytes, value: int) -> int:
    length: int = _LENGTH.unpack_from(document, value)[0]
    if length < 0:
        raise ValueError("a value has a negative length")
    return length


def _two_texts(document: bytes, value: int) -> int:
    return document.index(0, document.index(0, value) + 1) + 1 - value


_FIXED = {
    0x01: 8, 0x06: 0, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x11: 8, 0x12: 8, 0x13: 16, 0x7F: 0, 0xFF: 0,
}  # fmt: skip
_MEASURED: dict[int, Callable[[bytes, int], int]] = {
    0x02: lambda document, value: 4 + _length(document, value),
    0x03: _length,
    0x04: _length,
    0x05: lambda document, value: 5 + _length(document, value),
    0x0B: _two_texts,
    0x0C: lambda document, value: 16 + _length(document, value),
    0x0D: lambda document, value: 4 + _length(document, value),
    0x0E: lambda document, value: 4 + _length(document, value),
    0x0F: _length,
}
