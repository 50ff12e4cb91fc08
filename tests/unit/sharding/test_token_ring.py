"""Places on the ring: their order is that of rows, and ranges of them never split a row."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from hypothesis import given
from hypothesis import strategies as st

from docstore.bson import compare_documents
from docstore.errors import CommandError
from docstore.sharding.key import ShardKey
from docstore.sharding.partitioners import BYTE_ORDERED, MURMUR3, RANDOM, Partitioner
from docstore.sharding.token_ring import (
    SHARD_KEY,
    checked_place,
    even_places,
    place_document,
    place_of,
    place_of_row_key,
    ring_document,
)
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.requests import rows_between

KEY = ShardKey.parse(SHARD_KEY)
PARTITIONERS = st.sampled_from([Partitioner(name) for name in (MURMUR3, RANDOM, BYTE_ORDERED)])
KEYS = st.binary(min_size=1, max_size=6) | st.sampled_from([b"\0", b"\0\1", b"\0\xff", b"\xff\xff", b"a", b"a\0"])


@given(PARTITIONERS, KEYS, KEYS)
def test_places_have_the_order_of_rows(partitioner: Partitioner, one: bytes, other: bytes) -> None:
    row_keys = [encode_row_key(partitioner, key) for key in (one, other)]
    order = compare_documents(*(ring_document(partitioner, key) for key in (one, other)))
    encoded = [KEY.key_of(ring_document(partitioner, key)) for key in (one, other)]
    assert (encoded[0] < encoded[1]) == (order < 0)
    if order:
        assert (row_keys[0] < row_keys[1]) == (order < 0)
    assert [place_of_row_key(partitioner, row_key) for row_key in row_keys] == [
        place_of(partitioner, key) for key in (one, other)
    ]


@given(PARTITIONERS, KEYS, KEYS, st.binary(max_size=4))
def test_a_range_of_places_holds_all_of_a_row_or_nothing_of_it(
    partitioner: Partitioner, key: bytes, bound: bytes, path: bytes
) -> None:
    place, row_key = place_of(partitioner, bound), encode_row_key(partitioner, key)
    lower, upper = rows_between(partitioner, MinKey(), place), rows_between(partitioner, place, MaxKey())
    belongs_below = KEY.key_of(ring_document(partitioner, key)) < KEY.key_of(place_document(place))
    for stored in (row_key, row_key + b"\x20" + path, row_key + b"\x20\xff"):
        assert (stored < lower.end) == belongs_below
        assert (stored >= upper.start) != belongs_below


@pytest.mark.parametrize("name", [MURMUR3, RANDOM])
def test_the_ring_is_cut_evenly(name: str) -> None:
    partitioner = Partitioner(name)
    encoded = [KEY.bound(place_document(place)).key for place in even_places(partitioner, 6)]
    assert len(encoded) == 5
    assert encoded == sorted(set(encoded))
    assert even_places(partitioner, 1) == []
    numbers = [0] * 6
    for number in range(6000):
        key = KEY.key_of(ring_document(partitioner, b"key%d" % number))
        numbers[sum(bound <= key for bound in encoded)] += 1
    assert all(800 < number < 1200 for number in numbers)


def test_rows_in_the_order_of_their_keys_begin_as_one_range() -> None:
    assert even_places(Partitioner(BYTE_ORDERED), 4) == []


@pytest.mark.parametrize(
    ("name", "given", "place"),
    [
        (MURMUR3, 5.0, Int64(5)),
        (MURMUR3, -7, Int64(-7)),
        (RANDOM, "0" * 31 + "a", "0" * 31 + "a"),
        (BYTE_ORDERED, "61", "61"),
        (BYTE_ORDERED, "610001", "610001"),
    ],
)
def test_a_place_is_taken_in_its_form(name: str, given: Any, place: Any) -> None:
    found = checked_place(Partitioner(name), given)
    assert (found, type(found)) == (place, type(place))
    assert bson.decode(place_document(found)) == {"token": place}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        (MURMUR3, "5"), (MURMUR3, 1.5), (MURMUR3, 1 << 63), (MURMUR3, True), (MURMUR3, None), (RANDOM, "0a"),
        (RANDOM, 5), (BYTE_ORDERED, ""), (BYTE_ORDERED, "6"), (BYTE_ORDERED, "6A"), (BYTE_ORDERED, "61 62"),
        (BYTE_ORDERED, "61000120"),
    ],
)  # fmt: skip
def test_what_is_no_place_is_refused(name: str, given: Any) -> None:
    with pytest.raises(CommandError, match="is no place on the ring"):
        checked_place(Partitioner(name), given)
