"""Random BSON values and documents from a seeded generator, with many near misses and collisions."""

from __future__ import annotations

import struct
from random import Random

from bson.decimal128 import Decimal128

from docstore.bson.build import array_from, document_from
from docstore.bson.walk import Value

INTEGERS = (0, 1, -1, 2, 3, 5, 127, 2**31 - 1, -(2**31), 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))
DOUBLES = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    0.5,
    1.5,
    2.5,
    5e-324,
    -5e-324,
    1.7976931348623157e308,
    9007199254740992.0,
    9007199254740994.0,
    9223372036854775808.0,
    -9223372036854775808.0,
    float("inf"),
    float("-inf"),
    float("nan"),
)
DECIMALS = (
    "0",
    "-0",
    "0E+3",
    "1",
    "1.0",
    "1.00",
    "-1",
    "0.1",
    "0.1000000000000000055511151231257827021181583404541015625",
    "0.1000000000000000055511151231257827",
    "0.5",
    "2.5",
    "1E-6176",
    "-1E-6176",
    "5E-324",
    "9.999999999999999999999999999999999E+6144",
    "-9.999999999999999999999999999999999E+6144",
    "9007199254740993",
    "9007199254740992.5",
    "9223372036854775807",
    "9223372036854775808",
    "1.7976931348623157E+308",
    "1.797693134862315708145274237317044E+308",
    "Infinity",
    "-Infinity",
    "NaN",
)
TEXTS = ("", "a", "b", "ab", "a\0", "a\0b", "a\x01", "a\x01b", "\x01", "\x02", "é", "\U0001f600", "zz", "0", "1")
NAMES = ("a", "b", "c", "0", "1", "")


def int32(number: int) -> Value:
    return 0x10, struct.pack("<i", number)


def int64(number: int) -> Value:
    return 0x12, struct.pack("<q", number)


def double(number: float) -> Value:
    return 0x01, struct.pack("<d", number)


def decimal(text: str) -> Value:
    return 0x13, Decimal128(_rounded(text)).bid


def string(text: str, code: int = 0x02) -> Value:
    encoded = text.encode()
    return code, struct.pack("<i", len(encoded) + 1) + encoded + b"\0"


def binary(payload: bytes, subtype: int) -> Value:
    if subtype == 2:
        payload = struct.pack("<i", len(payload)) + payload
    return 0x05, struct.pack("<iB", len(payload), subtype) + payload


def regex(pattern: str, options: str) -> Value:
    return 0x0B, pattern.encode() + b"\0" + options.encode() + b"\0"


def scoped(code: str, scope: bytes) -> Value:
    body = string(code)[1] + scope
    return 0x0F, struct.pack("<i", len(body) + 4) + body


def _rounded(text: str) -> str:
    digits = text.replace(".", "").lstrip("-0")
    return text if len(digits) <= 34 or "E" in text else text[: 34 + text.startswith("-") + 2]


def number(rnd: Random) -> Value:
    """A number of one of the four types, often equal or close to others."""
    kind = rnd.randrange(5)
    if kind == 0:
        return int32(rnd.choice([n for n in INTEGERS if -(2**31) <= n < 2**31]))
    if kind == 1:
        return int64(rnd.choice(INTEGERS) if rnd.random() < 0.7 else rnd.randrange(-(2**63), 2**63))
    if kind == 2:
        return double(rnd.choice(DOUBLES) if rnd.random() < 0.7 else struct.unpack("<d", rnd.randbytes(8))[0])
    if kind == 3:
        return decimal(rnd.choice(DECIMALS))
    return decimal(f"{rnd.choice(('', '-'))}{rnd.randrange(10**34)}E{rnd.randrange(-400, 400)}")


def scalar(rnd: Random) -> Value:
    """A value that is neither a document nor an array."""
    kind = rnd.randrange(20)
    if kind < 6:
        return number(rnd)
    if kind < 9:
        return string(rnd.choice(TEXTS), rnd.choice((0x02, 0x02, 0x0E)))
    if kind == 9:
        return 0x0A, b""
    if kind == 10:
        return 0x06, b""
    if kind == 11:
        return rnd.choice((0xFF, 0x7F)), b""
    if kind == 12:
        return binary(rnd.choice((b"", b"\0", b"\xff", b"ab", b"ba")), rnd.choice((0, 2, 4, 5, 128)))
    if kind == 13:
        return 0x07, rnd.choice((bytes(12), b"\xff" * 12, b"abcdefghijkl"))
    if kind == 14:
        return 0x08, rnd.choice((b"\0", b"\1"))
    if kind == 15:
        return 0x09, struct.pack("<q", rnd.choice((0, 1, -1, 2**62, -(2**63), 2**63 - 1)))
    if kind == 16:
        return 0x11, struct.pack("<II", rnd.choice((0, 1, 2**32 - 1)), rnd.choice((1, 2**31, 2**32 - 1)))
    if kind == 17:
        return regex(rnd.choice(("", "a", "ab", "\x01")), rnd.choice(("", "i", "im")))
    if kind == 18:
        return rnd.choice((string(rnd.choice(TEXTS), 0x0D), (0x0C, string(rnd.choice(("", "a", "bb")))[1] + b"x" * 12)))
    return scoped(rnd.choice(TEXTS), document(rnd, 0))


def value(rnd: Random, depth: int = 2) -> Value:
    """Any value, nested at most `depth` deep."""
    kind = rnd.randrange(10) if depth else 9
    if kind < 2:
        return 0x03, document(rnd, depth - 1)
    if kind < 4:
        return 0x04, array_from([value(rnd, depth - 1) for _ in range(rnd.randrange(4))])
    return scalar(rnd)


def document(rnd: Random, depth: int = 2) -> bytes:
    """A document of up to three fields."""
    names = rnd.sample(NAMES, rnd.randrange(4))
    return document_from([(name, *value(rnd, depth)) for name in names])
