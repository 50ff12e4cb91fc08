"""What open cursors hold in memory is bounded for all of them together, and given back when they end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import DocumentList
from docstore.buffers import BUFFERS, SMALL_BYTES, OperationBuffers
from docstore.collection.read import sorter
from docstore.collection.read.sorter import Sorter, SortMemory
from docstore.errors import Code, CommandError
from docstore.kernel.keys.pattern import KeyPattern
from docstore.spill import SpillFile
from tests.unit.aggregation.running import drain, parsed
from tests.unit.node.local import LocalNode, loop
from tests.unit.query.raw import decoded, raw

LIMIT = 4 * 1024 * 1024
DOCUMENTS = [{"_id": number, "n": number * 7919 % 3001, "s": "x" * 3_000} for number in range(3_000)]
CURSORS: list[dict[str, Any]] = [
    {"find": "c", "sort": {"n": 1}},
    {"find": "c", "sort": {"n": 1}, "limit": 2_900},
    {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}, {"$limit": 2_900}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$group": {"_id": "$n", "s": {"$push": "$s"}}}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$group": {"_id": "$n", "s": {"$first": "$s"}}}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$group": {"_id": "$n", "s": {"$last": "$s"}}}], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$sample": {"size": 2_900}}], "cursor": {}},
]


@pytest.fixture(autouse=True)
def _limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    gc.collect()
    monkeypatch.setattr(BUFFERS, "limit", LIMIT)
    monkeypatch.setattr(BUFFERS, "held", 0)
    yield
    gc.collect()
    assert BUFFERS.held == 0


@pytest.mark.parametrize("command", CURSORS, ids=str)
def test_cursors_hold_no_more_than_there_is_for_all_of_them(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *DOCUMENTS)
        opened = [(await node.run(command))["cursor"]["id"] for _ in range(8)]
        assert BUFFERS.held < LIMIT + len(opened) * SMALL_BYTES
        await node.run({"getMore": opened[-1], "collection": "c", "batchSize": 500})
        await node.run({"killCursors": "c", "cursors": opened})
        assert BUFFERS.held == 0

    loop(work())


@pytest.mark.parametrize("command", CURSORS, ids=str)
def test_what_may_not_use_the_disk_is_refused(command: dict[str, Any]) -> None:
    async def work() -> None:
        node = LocalNode()
        await node.insert("c", *DOCUMENTS)
        taken = OperationBuffers()
        taken.change(LIMIT)
        refused = await node.reply(command | {"allowDiskUse": False}, "test")
        assert refused["code"] == Code.QueryExceededMemoryLimitNoDiskUseAllowed
        assert BUFFERS.held == LIMIT
        taken.close()

    loop(work())


def test_a_facet_that_does_not_fit_is_refused() -> None:
    taken = OperationBuffers()
    taken.change(LIMIT)
    many = [raw({"_id": number, "s": "x" * 1_000_000}) for number in range(12)]
    stream = parsed([{"$facet": {"a": [{"$match": {}}]}}]).open(DocumentList(many), Environment(clock=lambda: 0.0))
    with pytest.raises(CommandError) as refused:
        drain(stream)
    assert refused.value.code == Code.ExceededMemoryLimit


@pytest.mark.parametrize(
    "stage",
    [
        {"$sort": {"n": 1}},
        {"$group": {"_id": "$n", "all": {"$push": "$_id"}, "s": {"$last": "$s"}}},
        {"$setWindowFields": {"sortBy": {"n": 1}, "output": {"r": {"$rank": {}}}}},
        {"$bucketAuto": {"groupBy": "$n", "buckets": 5, "output": {"s": {"$last": "$s"}, "n": {"$sum": 1}}}},
    ],
    ids=str,
)
def test_the_results_are_the_same_in_little_room(stage: dict[str, Any], tmp_path: Path) -> None:
    documents = [raw(document) for document in DOCUMENTS] + [raw({"_id": -1, "n": 5, "s": "y" * 100_000})]

    def found(environment: Environment) -> list[dict[str, Any]]:
        pipeline = parsed([stage, {"$sort": {"_id": 1}}] if "$group" in stage else [stage])
        return [decoded(document) for document in drain(pipeline.open(DocumentList(documents), environment))]

    taken = OperationBuffers()
    BUFFERS.limit = 1 << 40
    plain = found(Environment(clock=lambda: 0.0))
    BUFFERS.limit = LIMIT
    taken.change(LIMIT)
    spill = SpillFile(tmp_path)
    written = BUFFERS.spilled
    assert found(Environment(clock=lambda: 0.0, spill=spill)) == plain
    assert BUFFERS.spilled > written
    spill.close()


def test_large_documents_of_a_limited_sort_go_to_the_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sorter, "MAX_BYTES", 1_000_000)
    before = BUFFERS.spilled
    pattern = KeyPattern([("n", 1)])
    spill = SpillFile(tmp_path)
    made: Sorter[bytes] = Sorter(pattern, 400, SortMemory(spill))
    documents = [raw(document) for document in DOCUMENTS]
    for document in documents:
        made.add([(pattern.sort_key(document), document)], len(document))
    written = list(made.result())[:400]
    assert written == sorted(documents, key=pattern.sort_key)[:400]
    assert BUFFERS.spilled > before
    spill.close()


def test_records_larger_than_what_is_read_ahead_stay_outside_until_they_are_wanted(tmp_path: Path) -> None:
    spill = SpillFile(tmp_path)
    records = [(b"%03d" % number, b"x" * (number * 997 % 20_011)) for number in range(200)]
    run = spill.write(records)
    unread = list(run.unread(4_096))
    assert all(
        isinstance(data, bytes) == (len(known) <= 4_096) for (_, data), (_, known) in zip(unread, records, strict=True)
    )
    assert [(key, data if isinstance(data, bytes) else data()) for key, data in unread] == records
    assert list(run.records()) == records
    spill.close()


def test_what_is_unwound_is_made_as_it_is_asked_for() -> None:
    long = raw({"_id": 1, "s": "x" * 100_000, "r": list(range(200))})
    stream = parsed([{"$unwind": {"path": "$r", "includeArrayIndex": "i"}}]).open(
        DocumentList([long, raw({"_id": 2})]), Environment(clock=lambda: 0.0)
    )
    sizes, last = [], False
    while not last:
        documents, last = stream.next_batch(1.0)
        sizes.append(len(documents))
    assert sum(sizes) == 200
    assert max(sizes) <= 3
