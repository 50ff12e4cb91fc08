"""Merging the parts of several shards into one result."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import bson
import pytest

from docstore.aggregation.streams import Feed
from docstore.kernel.keys.pattern import KeyPattern
from docstore.net.scheduling.scheduler import Scheduler
from mongos.merge.merged import Finish, MergedCursor, Shape


class Part:
    """A shard's cursor that gives its documents in batches of two."""

    def __init__(self, *documents: dict[str, Any]) -> None:
        self.documents: deque[bytes] = deque()
        self.to_come = [bson.encode(document) for document in documents]

    @property
    def exhausted(self) -> bool:
        return not self.documents and not self.to_come

    @property
    def is_last(self) -> bool:
        return not self.to_come

    def hold(self) -> None:
        """It counts nothing."""

    def release(self) -> None:
        """It holds nothing."""

    async def fill(self) -> bool:
        if not self.documents:
            self.documents.extend(self.to_come[:2])
            del self.to_come[:2]
        return bool(self.documents)


def read(cursor: MergedCursor, *, batch: int = 1000, most: int = 16 << 20) -> list[list[dict[str, Any]]]:
    """All batches until the cursor says that it has ended."""

    async def all_batches() -> list[list[dict[str, Any]]]:
        batches = []
        while True:
            documents, done = await cursor.next_batch(batch, most)
            batches.append([bson.decode(document) for document in documents])
            if done:
                return batches

    return asyncio.run(all_batches())


def merged(parts: list[Part], shape: Shape, discarded: list[Part] | None = None, **more: Any) -> MergedCursor:
    keep = discarded if discarded is not None else []
    return MergedCursor(parts, shape, keep.extend, scheduler=Scheduler(lambda: 0.0), **more)


def test_sorted_parts_come_out_in_one_order():
    parts = [Part({"n": 1}, {"n": 4}, {"n": 5}), Part(), Part({"n": 2}, {"n": 3}, {"n": 9})]
    (batch,) = read(merged(parts, Shape(sort=KeyPattern([("n", 1)]))))
    assert [row["n"] for row in batch] == [1, 2, 3, 4, 5, 9]


def test_descending_order_is_kept():
    parts = [Part({"n": 5}, {"n": 1}), Part({"n": 9}, {"n": 3})]
    (batch,) = read(merged(parts, Shape(sort=KeyPattern([("n", -1)]))))
    assert [row["n"] for row in batch] == [9, 5, 3, 1]


def test_skip_and_limit_count_merged_documents():
    parts = [Part(*({"n": n} for n in range(0, 10, 2))), Part(*({"n": n} for n in range(1, 10, 2)))]
    batches = read(merged(parts, Shape(sort=KeyPattern([("n", 1)]), skip=3, limit=4)), batch=3)
    assert [[row["n"] for row in batch] for batch in batches] == [[3, 4, 5], [6]]


@pytest.mark.parametrize("batch", [1, 2, 3, 7, 100])
def test_every_document_comes_out_once_whatever_the_batch_size(batch):
    parts = [Part(*({"n": n} for n in range(start, 30, 3))) for start in range(3)]
    batches = read(merged(parts, Shape()), batch=batch)
    assert sorted(row["n"] for rows in batches for row in rows) == list(range(30))
    assert all(len(rows) <= batch for rows in batches)


def test_a_batch_ends_before_its_bytes_are_exceeded_but_holds_one_document():
    big = "x" * 1000
    batches = read(merged([Part({"n": 1, "s": big}, {"n": 2, "s": big}, {"n": 3, "s": big})], Shape()), most=100)
    assert [len(rows) for rows in batches if rows] == [1, 1, 1]


def test_closing_early_discards_the_parts_that_have_more():
    discarded: list[Part] = []
    parts = [Part({"n": 1}), Part(*({"n": n} for n in range(50)))]
    cursor = merged(parts, Shape(limit=1), discarded)
    asyncio.run(cursor.next_batch(1, 1000))
    cursor.close()
    assert parts[1] in discarded


def test_projection_applies_after_the_merge():
    parts = [Part({"n": 2, "a": 1}), Part({"n": 1, "a": 2})]
    shape = Shape(sort=KeyPattern([("n", 1)]), project=lambda raw: bson.encode({"a": bson.decode(raw)["a"]}))
    assert read(merged(parts, shape)) == [[{"a": 2}, {"a": 1}]]


class HoldingBack:
    """A finishing stage that holds everything back until the end."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.held: list[bytes] = []

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        documents, ended = self.feed.next_batch(deadline)
        self.held += documents
        return (self.held, True) if ended else ([], False)


async def nothing_to_await() -> None:
    """This stage reads nothing but its feed."""


def test_finishing_stages_see_everything_and_have_the_last_word():
    parts = [Part({"n": 1}, {"n": 2}, {"n": 3}), Part({"n": 4})]
    feed = Feed()
    closed: list[bool] = []
    finish = Finish(feed, HoldingBack(feed), nothing_to_await, lambda: closed.append(True))
    cursor = merged(parts, Shape(), finish=finish)
    assert sorted(row["n"] for rows in read(cursor) for row in rows) == [1, 2, 3, 4]
    cursor.close()
    cursor.close()
    assert closed == [True]
