"""Tokens are those that CQL drivers compute for the same keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.sharding.partitioners import MURMUR3, RANDOM, Partitioner, find_partitioner, murmur3_token


def composite(*parts: str) -> bytes:
    return b"".join(len(part).to_bytes(2, "big") + part.encode() + b"\0" for part in parts)


@pytest.mark.parametrize(
    ("key", "token"),
    [
        (b"a", -8839064797231613815),
        (b"foo", -2129773440516405919),
        (b"USA", 4371161038959532213),
        ((1).to_bytes(4, "big"), -4069959284402364209),
        ((1).to_bytes(8, "big"), 6292367497774912474),
        (composite("USA", "VA", "Arlington"), -8549199751018699477),
        (bytes.fromhex("FFFE80"), 7236304163770186844),
    ],
)
def test_murmur3_tokens_agree_with_drivers(key: bytes, token: int) -> None:
    assert murmur3_token(key) == token


@given(st.lists(st.binary(max_size=40)), st.sampled_from((MURMUR3, RANDOM)))
def test_token_bytes_stand_in_the_order_of_tokens(keys: list[bytes], name: str) -> None:
    partitioner = Partitioner(name)
    tokens = sorted(partitioner.token(key) or 0 for key in keys)
    assert sorted(map(partitioner.token_bytes, keys)) == [partitioner.bytes_of(token) for token in tokens]


def test_partitioners_are_found_by_short_and_full_names() -> None:
    assert find_partitioner("org.apache.cassandra.dht.RandomPartitioner") == Partitioner(RANDOM)
    assert find_partitioner("Murmur3") == Partitioner(MURMUR3)
    ordered = find_partitioner("OrderPreservingPartitioner")
    assert ordered is not None
    assert ordered.token_bytes(b"k") == b""
    assert find_partitioner("nope") is None
