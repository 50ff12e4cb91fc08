"""A read shows one state, whatever is written while it pauses, and takes a snapshot only if it pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.widecolumn.node.read_state import ReadState
from tests.unit.widecolumn.node.wide_columns import WideNode

COLUMNS = 700


class _Watched(WideNode):
    """Pauses after each step that may pause, and counts the snapshots of reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.open_snapshots = self.snapshots = 0
        self.meanwhile: list[Callable[[], Any]] = []
        monkeypatch.setattr(self.node.scheduler, "is_due", lambda: True)
        monkeypatch.setattr(self.node.scheduler, "pause", self._pause)
        hold, release = ReadState.hold, ReadState.release

        def held(state: ReadState) -> None:
            self.snapshots += 1
            self.open_snapshots += 1
            hold(state)

        def released(state: ReadState) -> None:
            self.open_snapshots -= state.reader is not self.node.engine
            release(state)

        monkeypatch.setattr(ReadState, "hold", held)
        monkeypatch.setattr(ReadState, "release", released)

    async def _pause(self) -> None:
        if self.meanwhile:
            await self.meanwhile.pop()()

    async def fill(self) -> None:
        await self.begin({"createColumnFamily": "F", "compareWith": "LongType"})
        inserts = [
            {"key": "k", "columnFamily": "F", "insert": {"name": Int64(number), "value": "old", "timestamp": Int64(1)}}
            for number in range(COLUMNS)
        ]
        await self.wide({"wcBatchMutate": 1, "mutations": inserts})
        self.snapshots = 0


READS: list[dict[str, Any]] = [
    {"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {"count": 1000}}},
    {"wcGetSlice": "F", "key": "k", "predicate": {"sliceRange": {"count": 1000, "reversed": True}}},
    {"wcGetSlice": "F", "key": "k", "predicate": {"columnNames": [Int64(number) for number in range(COLUMNS)]}},
    {"wcMultigetSlice": "F", "keys": ["k"], "predicate": {"sliceRange": {"count": 1000}}},
    {"wcGetCount": "F", "key": "k"},
]


@pytest.mark.parametrize("read", READS, ids=lambda read: "-".join((next(iter(read)), *read.get("predicate", {}))))
def test_what_is_written_during_a_pause_is_not_seen(read: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        node = _Watched(monkeypatch)
        await node.fill()
        before = await node.wide(read)
        writes: list[dict[str, Any]] = [
            {"wcRemove": "F", "key": "k", "timestamp": Int64(1)},
            {"wcInsert": "F", "key": "k", "column": Int64(650), "value": "new", "timestamp": Int64(2)},
        ]
        node.meanwhile = [lambda write=write: node.wide(write) for write in writes]  # type: ignore[misc]
        during = await node.wide(read)
        assert node.meanwhile == []
        assert {**during, "operationTime": None} == {**before, "operationTime": None}
        assert await node.wide(read) != before
        assert node.open_snapshots == 0

    asyncio.run(asyncio.wait_for(told(), 60))


def test_a_read_that_ends_in_its_first_step_takes_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    async def told() -> None:
        node = _Watched(monkeypatch)
        await node.fill()
        await node.wide({"cql": "CREATE TABLE t (a int PRIMARY KEY, v int)"})
        await node.wide({"cql": "INSERT INTO t (a, v) VALUES (1, 2)"})
        node.snapshots = 0
        names = {"columnNames": [Int64(1), Int64(5)]}
        assert len((await node.wide({"wcGetSlice": "F", "key": "k", "predicate": names}))["columns"]) == 2
        assert (await node.wide({"wcGetSlice": "F", "key": "l", "predicate": {"sliceRange": {}}}))["columns"] == []
        assert (await node.wide({"cql": "SELECT v FROM t WHERE a = 1"}))["rows"] == [[2]]
        assert node.snapshots == 0
        assert (await node.wide(READS[0]))["columns"]
        assert (node.snapshots, node.open_snapshots) == (1, 0)

    asyncio.run(asyncio.wait_for(told(), 60))
