"""Index bounds as explain shows them: `[1, 5)`, `["a", {})`, `[MinKey, MaxKey]`.

Decodes the keys of `docstore.kernel.keys.encoding` for display; types that are rare in bounds are shown as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any

from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.timestamp import Timestamp

from docstore.bson import document_to_python
from docstore.kernel.keys.encoding import INVERTED
from docstore.kernel.scan.covered import Covering
from docstore.kernel.scan.fetch import Examined
from docstore.kernel.scan.index_bounds import field_end
from docstore.key_layout import IDENT_BYTES, RECORD_ID_BYTES
from docstore.query.plan.bounds import FieldBounds
from docstore.query.plan.intervals import Range

_DOUBLE = struct.Struct(">d")
_NEGATIVE, _POSITIVE = 0x2C, 0x38
_TEXT, _BINARY, _REGEX = 0x40, 0x58, 0x80
_LOWEST = {
    0x01: "MinKey", 0x28: "nan.0", 0x2C: "-inf.0", 0x40: '""', 0x48: "{}", 0x50: "[]", 0x58: "BinData(0, )",
    0x60: "ObjectId('000000000000000000000000')", 0x68: "false", 0x70: "new Date(-9223372036854775808)",
    0x78: "Timestamp(0, 0)", 0x80: "//", 0xF0: "MaxKey",
}  # fmt: skip
"""The meaning of a type's first byte as a lower bound."""
_HIGHEST = {
    0x40: "inf.0]", 0x48: "{})", 0x50: "[])", 0x58: "BinData(0, ))", 0x60: "ObjectId('000000000000000000000000'))",
    0x68: "false)", 0x70: "true]", 0x78: "new Date(9223372036854775807)]", 0x80: "//)", 0xFE: "MaxKey]",
}  # fmt: skip
"""The meaning of a first byte as an upper bound: the end of the preceding type."""
_CONSTANTS = {
    0x10: "MinKey", 0x18: "undefined", 0x20: "null", 0x28: "nan.0", 0x30: "0", 0x68: "false", 0x69: "true",
    0xF0: "MaxKey",
}  # fmt: skip


def field_intervals(
    fields: Sequence[tuple[str, int]], bounds: Sequence[FieldBounds], *, folded: bool = False
) -> dict[str, list[str]]:
    """Return the intervals of each field of an index that are scanned, in the field's direction.

    `folded`: the index has a collation, so texts are collation keys.
    """
    bounded = {item.path: item for item in bounds}
    return {
        path: ["[MinKey, MaxKey]" if direction > 0 else "[MaxKey, MinKey]"]
        if path not in bounded
        else [interval_text(value_range, direction, folded=folded) for value_range in bounded[path].ranges]
        for path, direction in fields
    }


def scan_intervals(
    fields: Sequence[tuple[str, int]], bounds: Sequence[FieldBounds], direction: int, *, folded: bool = False
) -> dict[str, list[str]]:
    """Return the intervals of each field in the order of a scan in that direction."""
    turned = [(path, (towards or 1) * direction) for path, towards in fields]
    intervals = field_intervals(turned, bounds, folded=folded)
    return {path: intervals[path] if towards > 0 else intervals[path][::-1] for path, towards in turned}


def interval_text(key_range: Range, direction: int = 1, *, folded: bool = False) -> str:
    """Return the text of a range of ascending keys; reversed for a descending field."""
    low, high = _low(key_range.lo, folded), _high(key_range.hi, folded)
    if direction > 0:
        return f"{low}, {high}"
    opening = "[" if high[-1] == "]" else "("
    closing = "]" if low[0] == "[" else ")"
    return f"{opening}{high[:-1]}, {low[1:]}{closing}"


Edge = tuple[Any, bool]
"""(A value, True if it is inside.)"""

_LOWEST_VALUES: dict[int, Any] = {
    0x01: MinKey(), 0x28: nan, 0x2C: -inf, 0x40: "", 0x48: {}, 0x50: [], 0x60: ObjectId(bytes(12)), 0x68: False,
    0x78: Timestamp(0, 0), 0xF0: MaxKey(),
}  # fmt: skip
_HIGHEST_VALUES: dict[int, Edge] = {
    0x40: (inf, True), 0x48: ({}, False), 0x50: ([], False), 0x70: (True, True), 0xFE: (MaxKey(), True),
}  # fmt: skip


def range_edges(key_range: Range) -> tuple[Edge, Edge] | None:
    """Return the lowest and highest value of a range of ascending keys; None if they cannot be determined easily."""
    low = _LOWEST_VALUES.get(key_range.lo[0]) if len(key_range.lo) == 1 else None
    lowest = (low, True) if low is not None else _edge(key_range.lo, True)
    highest = _HIGHEST_VALUES.get(key_range.hi[0]) if len(key_range.hi) == 1 else None
    if highest is None:
        highest = _edge(key_range.hi, False)
    return None if lowest is None or highest is None else (lowest, highest)


def _edge(key: bytes, lowest: bool) -> Edge | None:
    """Return the value whose key a bound lies at (inside, for a lower bound) or just behind."""
    if field_end(key, 0, 0) == len(key):
        return _decoded(key), lowest
    before = _before(key)
    return (_decoded(before), not lowest) if before and field_end(before, 0, 0) == len(before) else None


def _decoded(key: bytes) -> Any:
    entry = (bytes(IDENT_BYTES) + key + bytes(RECORD_ID_BYTES), b"")
    read = Covering(iter([entry]), [("value", 1)], IDENT_BYTES, False, lambda _: None, b"", Examined())
    return document_to_python(next(read))["value"]


def _low(key: bytes, folded: bool) -> str:
    if len(key) == 1 and key[0] in _LOWEST:
        return f"[{_folded(b'') if folded and key[0] == _TEXT else _LOWEST[key[0]]}"
    value = _value(key, folded)
    if value is not None:
        return f"[{value}"
    before = _value(_before(key), folded)
    if before is None and not folded and key[0] == _TEXT and len(key) > 1:
        return f"[{_beginning(key)}"
    return f"({before}" if before is not None else f"[0x{key.hex()}"


def _high(key: bytes, folded: bool) -> str:
    before = _value(_before(key), folded)
    if before is not None and not (len(key) == 1 and key[0] in _HIGHEST):
        return f"{before}]"
    if len(key) == 1 and key[0] in _HIGHEST:
        return _HIGHEST[key[0]]
    value = _value(key, folded)
    if value is None and not folded and key[0] == _TEXT:
        value = _beginning(key)
    return f"{value})" if value is not None else f"0x{key.hex()})"


def _beginning(key: bytes) -> str:
    """Return the text that a bound between texts begins with."""
    return f'"{_text(key[1:])}"'


def _text(escaped: bytes) -> str:
    return escaped.replace(b"\x01\x01", b"\0").replace(b"\x01\x02", b"\x01").decode(errors="replace")


def _before(key: bytes) -> bytes:
    """Return the key just before the bound `key`."""
    if not key or not key[-1]:
        return b""
    before = key[:-1] + bytes((key[-1] - 1,))
    # A bound omits trailing 0xff bytes of the key before it, as of an inverted magnitude or binary data.
    if before[0] == _BINARY and len(before) >= 6:
        return before.ljust(6 + int.from_bytes(before[1:5], "big"), b"\xff")
    return before.ljust(10, b"\xff") if before[0] == _NEGATIVE else before


def _folded(text: bytes) -> str:
    return f"CollationKey(0x{text.hex()})"


def _value(key: bytes, folded: bool) -> str | None:
    """Return the text of a complete encoded value; None for a bound between values, and for rare types."""
    if field_end(key, 0, 0) != len(key):
        return None
    kind, payload = key[0], key[1:]
    if folded and kind == _TEXT:
        return _folded(payload[:-1])
    formatter = _SHOWN.get(kind)
    return _CONSTANTS.get(kind) if formatter is None else formatter(payload)


def _positive(magnitude: bytes) -> str | None:
    """Return a number whose key has no part beyond the nearest double."""
    return None if magnitude[8] else _number_text(_DOUBLE.unpack(magnitude[:8])[0])


def _negative(inverted: bytes) -> str | None:
    magnitude = inverted.translate(INVERTED)
    return None if magnitude[8] else _number_text(-_DOUBLE.unpack(magnitude[:8])[0])


def _number_text(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(number)


def _regex(key: bytes) -> str:
    pattern, options, _ = key.split(b"\0")
    return f"/{_text(pattern)}/{_text(options)}"


_SHOWN: dict[int, Callable[[bytes], str | None]] = {
    _NEGATIVE: _negative,
    _POSITIVE: _positive,
    _TEXT: lambda key: f'"{_text(key[:-1])}"',
    _BINARY: lambda key: f"BinData({key[4]}, {key[5:].hex().upper()})",
    0x60: lambda key: f"ObjectId('{ObjectId(key)}')",
    0x70: lambda key: f"new Date({int.from_bytes(key, 'big') - (1 << 63)})",
    _REGEX: _regex,
}
"""Functions by type that return the text of a value from the rest of its key."""
