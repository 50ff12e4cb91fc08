"""What the cases are about: most BSON types, arrays of arrays, missing fields, dates, text."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from bson.binary import Binary
from bson.code import Code
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

VALUES: list[Any] = [
    None,
    0,
    1,
    -1,
    5,
    Int64(5),
    Int64(2**53),
    5.0,
    5.5,
    -0.0,
    float("nan"),
    float("inf"),
    Decimal128("5.00"),
    "",
    "5",
    "abc",
    "\u00e9",
    {},
    {"a": 1},
    {"a": 1, "b": 2},
    [],
    [5],
    [1, 5, 9],
    [[5]],
    [None],
    ["abc", None],
    [{"a": 1}],
    Binary(b"abc"),
    Binary(b"\x05", 5),
    ObjectId("65f000000000000000000001"),
    True,
    False,
    datetime(2020, 2, 29, 12),
    Timestamp(5, 1),
    Regex("^a", "i"),
    Code("x"),
    MinKey(),
    MaxKey(),
]

TYPES = [*({"_id": number, "v": value} for number, value in enumerate(VALUES)), {"_id": 900}]
"""One value of each kind in `v`, and a document without it."""

SALES: list[dict[str, Any]] = [
    {
        "_id": number,
        "n": number * 7 % 5,
        "q": number * 3 % 11 if number % 4 else None,
        "price": Decimal128(f"{number}.50") if number % 5 == 0 else number * 1.25,
        "item": ("ink", "pen", "nib")[number % 3],
        "t": ["red", "blue", "big"][: number % 4],
        "when": datetime(2020, 1 + number % 12, 1 + number, number % 24, 30),
        "p": {"city": ("Oslo", "Rome", None)[number % 3], "score": [number, number - 4]},
        "l": [{"k": number % 3, "w": number}, {"k": 2, "w": -number}],
    }
    for number in range(16)
]
"""A small trade: numbers, decimals, dates, arrays, embedded documents."""

OTHERS: list[dict[str, Any]] = [{"_id": number, "up": number // 2 or None, "name": f"o{number}"} for number in range(6)]
"""What joins find."""
