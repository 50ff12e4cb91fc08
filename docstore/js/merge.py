"""Merging results that are sorted by key into one sorted stream, from files (plain iterators) or shards (asynchronous
ones).

Keys are compared by the ordering of the job, the same that `runtime/order.js` sorts by. Results with equal keys follow
each other, in the order of the streams they came from.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

from docstore.bson import get_field
from docstore.query.value.ordering import Ordering

BATCH = 1000


def result_key(ordering: Ordering) -> Callable[[bytes], bytes]:
    """Return the function that maps a result to bytes that compare like the keys."""
    encode = ordering.key

    def key(result: bytes) -> bytes:
        value = get_field(result, "_id")
        assert value is not None, "a result without a key"
        return encode(value)

    return key


def merge_sorted(runs: Iterable[Iterator[bytes]], ordering: Ordering) -> Iterator[bytes]:
    """Merge plain iterators of results."""
    return heapq.merge(*runs, key=result_key(ordering))


async def merge_streams(runs: Sequence[AsyncIterator[list[bytes]]], ordering: Ordering) -> AsyncIterator[list[bytes]]:
    """Merge streams of batches; yields lists of up to BATCH results. Holds one batch of each stream."""
    if len(runs) == 1:
        async for batch in runs[0]:
            yield batch
        return
    key = result_key(ordering)
    heads: list[tuple[bytes, int, int]] = []  # key, stream, position in its batch
    batches: list[list[bytes]] = [[] for _ in runs]

    async def push(stream: int, position: int) -> None:
        while position == len(batches[stream]):
            try:
                batches[stream], position = await anext(runs[stream]), 0
            except StopAsyncIteration:
                return
        heapq.heappush(heads, (key(batches[stream][position]), stream, position))

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
