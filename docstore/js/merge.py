"""Merging results that are sorted by key into one sorted stream, from files (plain iterators) or shards (asynchronous
ones).

Keys are compared through `docstore.bson.encode_key`, the same order that `runtime/order.js` sorts by. Results with
equal keys become neighbours, in the order of the streams they came from.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from docstore.bson import encode_key, get_field

BATCH = 1000


def result_key(result: bytes) -> bytes:
    """A result's place in the order of keys, as bytes that compare like the keys."""
    value = get_field(result, "_id")
    assert value is not None, "a result without a key"
    return encode_key(value)


def merge_sorted(runs: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Merge plain iterators of results."""
    return heapq.merge(*runs, key=result_key)


async def merge_streams(runs: Sequence[AsyncIterator[list[bytes]]]) -> AsyncIterator[list[bytes]]:
    """Merge streams of batches; yields lists of up to BATCH results. Holds one batch of each stream."""
    heads: list[tuple[bytes, int, int]] = []  # key, stream, position in its batch
    batches: list[list[bytes]] = [[] for _ in runs]

    async def push(stream: int, position: int) -> None:
        while position == len(batches[stream]):
            try:
                batches[stream], position = await anext(runs[stream]), 0
            except StopAsyncIteration:
                return
        heapq.heappush(heads, (result_key(batches[stream][position]), stream, position))

    for stream in range(len(runs)):
        await push(stream, 0)
    merged: list[bytes] = []
    while heads:
        _, stream, position = heapq.heappop(heads)
        merged.append(batches[stream][position])
        if len(merged) == BATCH:
            yield merged
            merged = []
        await push(stream, position + 1)
    if merged:
        yield merged
