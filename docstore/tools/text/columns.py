"""Values of the columns of CSV and TSV.

A column is named by a path, `address.city`; with types, the path is followed by one: `born.date(2006-01-02)`. In a
column without a type each text is read as the number that it looks like, else as text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import InvalidOperation
from typing import Any

from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.tools.text.dates import KINDS, date_reader

Reader = Callable[[str], Any]
"""The value of a text. Errors: ValueError."""

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
_TYPED = re.compile(r"(?P<path>.+)\.(?P<kind>\w+)\((?P<argument>.*)\)", re.DOTALL)
_TRUE = {"true", "t", "1"}
_FALSE = {"false", "f", "0"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the path of its values, and their type."""

    path: tuple[str, ...]
    read: Reader


def plain_column(name: str) -> Column:
    return Column(tuple(name.split(".")), guess)


def typed_column(name: str) -> Column:
    """Parse `PATH.TYPE(ARGUMENT)`. Errors: ValueError."""
    match = _TYPED.fullmatch(name)
    if match is None:
        raise ValueError(f"the field {name!r} has no type: write it like name.string()")
    kind, argument = match["kind"], match["argument"].replace("\\)", ")").replace("\\(", "(")
    return Column(tuple(match["path"].split(".")), _reader(kind, argument))


def guess(text: str) -> Any:
    """Return the value that a text looks like: a whole number, a number, or the text."""
    if _INTEGER.fullmatch(text):
        integer = int(text)
        return integer if -(1 << 63) <= integer < 1 << 63 else float(integer)
    return float(text) if _NUMBER.fullmatch(text) else text


def _reader(kind: str, argument: str) -> Reader:
    if kind in KINDS:
        return date_reader(kind, argument)
    if kind == "binary":
        if argument not in _BINARY:
            raise ValueError(f"binary({argument}) is none of {', '.join(_BINARY)}")
        return _BINARY[argument]
    if kind not in _READERS:
        raise ValueError(f"there is no type {kind}()")
    if argument:
        raise ValueError(f"the type {kind}() takes no argument")
    return _READERS[kind]


def _boolean(text: str) -> bool:
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise ValueError(f"{text!r} is no boolean")


def _decimal(text: str) -> Decimal128:
    try:
        return Decimal128(text)
    except (InvalidOperation, ArithmeticError) as error:
        raise ValueError(f"{text!r} is no decimal") from error


def _double(text: str) -> float:
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is no double")
    return float(text)


def _int32(text: str) -> int:
    return _integer(text, 32)


def _int64(text: str) -> Int64:
    return Int64(_integer(text, 64))


def _integer(text: str, bits: int) -> int:
    if not _INTEGER.fullmatch(text) or not -(1 << bits - 1) <= int(text) < 1 << bits - 1:
        raise ValueError(f"{text!r} is no integer of {bits} bits")
    return int(text)


def _base64(text: str) -> bytes:
    return _bytes(lambda: base64.b64decode(text, validate=True), text)


def _base32(text: str) -> bytes:
    return _bytes(lambda: base64.b32decode(text), text)


def _hex(text: str) -> bytes:
    return _bytes(lambda: binascii.unhexlify(text), text)


def _bytes(decode: Callable[[], bytes], text: str) -> bytes:
    try:
        return decode()
    except binascii.Error as error:
        raise ValueError(f"{text!r}: {error}") from error


_BINARY: dict[str, Reader] = {"base64": _base64, "base32": _base32, "hex": _hex}
_READERS: dict[str, Reader] = {
    "auto": guess, "boolean": _boolean, "decimal": _decimal, "double": _double, "int32": _int32, "int64": _int64,
    "string": str,
}  # fmt: skip
