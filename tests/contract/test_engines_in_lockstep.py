"""The engines side by side: the same random calls on both, and the same answers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from docstore.storage import Batch, Engine, Family, Snapshot, open_engine, rocks_snapshot
from docstore.storage.engine import getter_of, keys_of_ranges, values_of_ranges

KEYS = st.binary(min_size=1, max_size=3).map(lambda raw: bytes(byte % 4 for byte in raw))
FAMILIES = st.sampled_from([Family.RECORDS, Family.INDEXES])
CHANGES = st.lists(st.tuples(FAMILIES, KEYS, st.none() | st.binary(max_size=4)), max_size=12)
RANGES = st.lists(st.tuples(FAMILIES, KEYS, KEYS), max_size=1)


class Lockstep(RuleBasedStateMachine):
    """Engines, snapshots and half-read iterators in pairs."""

    def __init__(self) -> None:
        super().__init__()
        self.most_touched = rocks_snapshot.MAX_TOUCHED_KEYS
        rocks_snapshot.MAX_TOUCHED_KEYS = 6
        self.path = tempfile.mkdtemp()
        self.engines: list[Engine] = [open_engine("inMemory", ""), open_engine("rocksdb", self.path)]
        self.snapshots: list[list[Snapshot]] = []
        self.walks: list[list[Iterator[Any]]] = []

    @rule(changes=CHANGES, ranges=RANGES)
    def write(
        self, changes: list[tuple[Family, bytes, bytes | None]], ranges: list[tuple[Family, bytes, bytes]]
    ) -> None:
        for engine in self.engines:
            batch = Batch()
            for family, start, end in ranges:
                batch.delete_range(family, min(start, end), max(start, end))
            for family, key, value in changes:
                batch.changes[family][key] = value
            engine.write(batch)

    @precondition(lambda self: len(self.snapshots) < 5)
    @rule()
    def take(self) -> None:
        self.snapshots.append([engine.snapshot() for engine in self.engines])

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        for snapshot in self.snapshots.pop(data.draw(st.integers(0, len(self.snapshots) - 1))):
            snapshot.close()

    @rule(data=st.data(), family=FAMILIES, start=KEYS, end=KEYS, reverse=st.booleans())
    def walk(self, data: st.DataObject, family: Family, start: bytes, end: bytes, reverse: bool) -> None:
        readers: list[Any] = data.draw(st.sampled_from([self.engines, *self.snapshots]))
        self.walks.append([reader.items(family, start, end, reverse) for reader in readers])

    @precondition(lambda self: self.walks)
    @rule(data=st.data(), count=st.integers(1, 5))
    def step(self, data: st.DataObject, count: int) -> None:
        place = data.draw(st.integers(0, len(self.walks) - 1))
        found = [[next(walk, None) for _ in range(count)] for walk in self.walks[place]]
        assert found[0] == found[1]
        if found[0][-1] is None:
            del self.walks[place]

    @rule(data=st.data(), family=FAMILIES, keys=st.lists(KEYS, max_size=12), values=st.booleans())
    def walk_ranges(self, data: st.DataObject, family: Family, keys: list[bytes], values: bool) -> None:
        readers: list[Any] = data.draw(st.sampled_from([self.engines, *self.snapshots]))
        bounds = sorted(keys)
        ranges = list(zip(bounds[::2], bounds[1::2], strict=False))
        read = values_of_ranges if values else keys_of_ranges
        found = [list(read(reader, family, ranges)) for reader in readers]
        assert found[0] == found[1]

    @rule(data=st.data(), family=FAMILIES, keys=st.lists(KEYS, max_size=12))
    def get(self, data: st.DataObject, family: Family, keys: list[bytes]) -> None:
        readers: list[Any] = data.draw(st.sampled_from([self.engines, *self.snapshots]))
        memory, rocks = ([*map(getter_of(reader, family), keys)] for reader in readers)
        assert memory == rocks

    @invariant()
    def same_states(self) -> None:
        pairs: list[Any] = [self.engines, *self.snapshots]
        for readers in pairs:
            for family in (Family.RECORDS, Family.INDEXES):
                for reverse in (False, True):
                    memory, rocks = (list(reader.items(family, b"", b"\xff", reverse)) for reader in readers)
                    assert memory == rocks

    def teardown(self) -> None:
        rocks_snapshot.MAX_TOUCHED_KEYS = self.most_touched
        self.walks.clear()
        for snapshots in self.snapshots:
            for snapshot in snapshots:
                snapshot.close()
        for engine in self.engines:
            engine.close()
        shutil.rmtree(self.path)


TestLockstep = Lockstep.TestCase
TestLockstep.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
