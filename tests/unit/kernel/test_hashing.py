"""The hash of hashed indexes. Expected values are the real server's; they are on disk and must never change."""

from __future__ import annotations

from typing import Any

import pytest
from bson.binary import Binary
from bson.code import Code
from bson.datetime_ms import DatetimeMS
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from bson.timestamp import Timestamp

from docstore.bson import from_python
from docstore.kernel.keys.hashing import hashed_key


@pytest.mark.parametrize(
    ("thing", "expected"),
    [
        (1, 5902408780260971510),
        (Int64(1), 5902408780260971510),
        (1.5, 5902408780260971510),
        (Decimal128("1.5"), 848411777775835583),
        (-1.5, 1140205862565771219),
        (float("nan"), 4854801880128277513),
        (float("inf"), 921523596458303250),
        (2.0**63, 4532067210535695462),
        (Decimal128("1E+400"), 921523596458303250),
        ("abc", 8478485326885698097),
        (None, 2338878944348059895),
        (True, 6405873908747105701),
        (ObjectId("65f000000000000000000001"), 4758058208927617373),
        (DatetimeMS(5), 2834597487171300937),
        (Timestamp(1, 2), 6130793394493442031),
        ([1], 2057342063119257436),
        ({}, 7980500913326740417),
        ({"a": "x", "b": {"c": [1, 2.5]}}, 2609728202768091590),
        (Regex("^a", "i"), -4002937104504074689),
        (Binary(b"abc", 0), -5469096009886218469),
        (Code("x"), 6541829121976638719),
        (Code("x", {"a": 1}), 1114765668211402900),
        (MinKey(), 7961148599568647290),
        (MaxKey(), 5504842513779440750),
    ],
)
def test_the_hash_is_that_of_the_real_server(thing: Any, expected: int) -> None:
    assert hashed_key(from_python(thing)) == expected


def test_a_missing_value_hashes_as_null() -> None:
    assert hashed_key(None) == hashed_key(from_python(None))
