"""Which shard has which rows of a column family."""

from __future__ import annotations

import bson
import pytest
from bson.binary import Binary
from bson.objectid import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from docstore.errors import CommandError
from docstore.sharding.chunks import ChunkMap, first_chunks
from docstore.sharding.key import ShardKey
from docstore.sharding.partitioners import BYTE_ORDERED, MURMUR3, RANDOM, Partitioner
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.token_ring import SHARD_KEY, even_places, place_document
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.requests import RowRange, row_ranges_of
from mongos.widecolumn.owners import home_of, owner_of, owners_of, parts_of

KEY = ShardKey.parse(SHARD_KEY)
WHOLE = RowRange(b"", b"")


def routing(name: str, shards: list[str], parts: int) -> Routing:
    partitioner = Partitioner(name)
    places = even_places(partitioner, parts)
    if name == BYTE_ORDERED:
        places = [bytes([97 + number]).hex() for number in range(1, parts)]
    points = [KEY.bound(place_document(place)) for place in places]
    chunks = first_chunks(KEY, points, shards)
    collection = CollectionRouting(
        "ks.F", Binary(bytes(16), 4), False, ChunkMap.from_catalog(KEY, ObjectId(), chunks), partitioner
    )
    return Routing("ks.F", shards[0], collection)


def test_what_is_not_sharded_is_on_the_shard_of_the_keyspace() -> None:
    whole = Routing("ks.F", "one", None)
    assert owner_of(whole, b"k").shards == ("one",)
    assert list(parts_of(whole, [WHOLE])) == [("one", WHOLE)]
    assert owners_of(whole) == ["one"]
    with pytest.raises(CommandError, match="Keyspace ks does not exist"):
        home_of(Routing("ks.F", None, None))


def test_chunks_side_by_side_on_one_shard_are_one_part() -> None:
    found = list(parts_of(routing(MURMUR3, ["one", "two"], 4), [WHOLE]))
    assert [shard for shard, _ in found] == ["one", "two"]
    assert found[0][1].start == b""
    assert found[0][1].end == found[1][1].start == (1 << 63).to_bytes(8, "big")
    assert found[1][1].end == b""


@given(
    st.sampled_from([MURMUR3, RANDOM, BYTE_ORDERED]),
    st.lists(st.sampled_from(["one", "two", "three"]), min_size=1, max_size=6),
    st.binary(min_size=1, max_size=4), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1),
)  # fmt: skip
def test_a_row_is_asked_for_once_at_its_owner(name: str, shards: list[str], key: bytes, first: int, last: int) -> None:
    where = routing(name, shards, len(shards))
    partitioner = Partitioner(name)
    row_key = encode_row_key(partitioner, key)
    (owner,) = owner_of(where, key).shards

    def askers(ranges: list[RowRange]) -> list[str]:
        return [
            shard
            for shard, rows in parts_of(where, ranges)
            if row_key >= rows.start and (not rows.end or row_key < rows.end)
        ]

    assert askers([WHOLE]) == [owner]
    tokens = {"startToken": str(abs(first)), "endToken": str(abs(last))}
    ranges = row_ranges_of(partitioner, bson.encode(tokens))
    inside = any(row_key >= rows.start and (not rows.end or row_key < rows.end) for rows in ranges)
    assert askers(ranges) == ([owner] if inside else [])
