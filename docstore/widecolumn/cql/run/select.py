"""Execution of a SELECT: partitions read page by page, their rows assembled and passed to a collector.

Rows come in the order of the plan. No state is kept between pages: the next one begins after the last row of the one
before (`docstore.widecolumn.cql.run.paging`), and a page never splits a row.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass

from docstore.widecolumn.cql.errors import protocol
from docstore.widecolumn.cql.plan.bindings import Bindings
from docstore.widecolumn.cql.plan.clustering_ranges import EVERYTHING, Range, Region, check_combinations
from docstore.widecolumn.cql.plan.select import SelectPlan
from docstore.widecolumn.cql.plan.token_ranges import ring_range
from docstore.widecolumn.cql.run.paging import PagePosition
from docstore.widecolumn.cql.run.result_collectors import Collector, NextStep, ResultPage, collector_of
from docstore.widecolumn.cql.run.rows import Partition, Row, RowAssembler
from docstore.widecolumn.cql.schema.layout import beyond
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.executor import Executor, PartitionRead, RecordPage, RingScan
from docstore.widecolumn.model.keys import COLUMNS, after_part, decode_row_key, encode_row_key, row_end
from docstore.widecolumn.model.slices import ReadCounts

_LEAST, _MOST = 32, 800
"""Stored entries read at once: few enough for a reply and for the event loop, enough to be quick."""

_END = after_part(COLUMNS)
_PARTITIONS_AT_ONCE = 64
_RANGES_AT_ONCE = 64
Pause = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read. `pause` is awaited between pages, and between named partitions now and
    then.
    """

    level: Level
    counts: ReadCounts
    pause: Pause


async def read_page(
    executor: Executor,
    plan: SelectPlan,
    bindings: Bindings,
    conditions: ReadOptions,
    *,
    size: int = 0,
    max_bytes: int = 1 << 62,
    after: PagePosition | None = None,
) -> ResultPage:
    """The rows behind a position, at most `size` of them unless that is 0, and hardly more than `max_bytes`."""
    collector = collector_of(plan, bindings, size, max_bytes, after)
    reading = _SelectRun(executor, plan, bindings, conditions, collector)
    if plan.keys is not None:
        await reading.named_partitions(plan.keys(bindings), after)
    else:
        await reading.ring(after)
    return collector.page()


class _SelectRun:
    def __init__(
        self,
        executor: Executor,
        plan: SelectPlan,
        bindings: Bindings,
        conditions: ReadOptions,
        collector: Collector,
    ) -> None:
        self._executor = executor
        self._plan = plan
        self._bindings = bindings
        self._conditions = conditions
        self._collector = collector
        table = plan.table
        self._table = table
        self._assembly = RowAssembler(table, bindings.time.seconds, conditions.counts)
        records = len(table.columns) - len(table.partition) - len(table.clustering) + 2
        row_limit = collector.wanted
        self._limit = _MOST if row_limit is None or plan.tests else min(max(row_limit * records, _LEAST), _MOST)

    async def named_partitions(self, keys: list[bytes], after: PagePosition | None) -> None:
        if after is not None:
            if after.key not in keys:
                raise protocol("Invalid value for the paging state")
            keys = keys[keys.index(after.key) :]
        region = self._plan.clustering_ranges.region(self._bindings)
        check_combinations(len(keys), len(region))
        for position, key in enumerate(keys, 1):
            if not position % _PARTITIONS_AT_ONCE:
                await self._conditions.pause()
            clustering_key = after.clustering_key if after is not None and after.key == key else None
            if await self._partition(key, region, clustering_key) is NextStep.STOP:
                return

    async def ring(self, after: PagePosition | None) -> None:
        partitioner = self._table.keyspace.partitioner
        record_range = ring_range(partitioner, self._plan.token, self._bindings)
        if record_range is None:
            return
        start: bytes | None
        start, end = record_range
        if after is not None:
            if await self._partition(after.key, [EVERYTHING], after.clustering_key) is NextStep.STOP:
                return
            start = row_end(encode_row_key(partitioner, after.key))
        while start is not None:
            start = await self._record_range(start, end)

    async def _partition(self, key: bytes, region: Region, behind: bytes | None) -> NextStep:
        """Hand over the rows of one partition that lie in a region, without those up to the clustering key `behind`."""
        if behind is not None and not behind:
            # The one row of a partition without clustering columns, or without rows, has been given.
            return NextStep.PARTITION
        partition = Partition(self._assembly, key)
        head = True
        for number, (start, end) in enumerate(reversed(region) if self._plan.reverse else region, 1):
            if not number % _RANGES_AT_ONCE:
                await self._conditions.pause()
            if behind is not None:
                start, end = self._cut(start, end, behind)
            async for page in self._pages(key, COLUMNS + start, COLUMNS + end if end else _END, head=head):
                head = False
                verdict = self._hand_over(partition.feed([*page.head, *page.entries]))
                if verdict is not NextStep.ROW:
                    return verdict
        return self._finish(partition, alone=behind is None)

    def _cut(self, start: bytes, end: bytes, behind: bytes) -> Range:
        """Return the part of a range that lies after a clustering key in the order of the plan."""
        if self._plan.reverse:
            return start, min(end, behind) if end else behind
        return max(start, beyond(behind)), end

    async def _pages(self, key: bytes, start: bytes, end: bytes, *, head: bool) -> AsyncIterator[RecordPage]:
        """Yield the records of a range in pages. The first page has the partition's head if it is requested."""
        reverse = self._plan.reverse
        while start < end:
            read = PartitionRead(
                keyspace=self._table.keyspace.name,
                family=self._table.name,
                key=key,
                start=start,
                end=end,
                reverse=reverse,
                limit=self._limit,
                head=head,
            )
            page = await self._executor.read(read, self._conditions.level)
            yield page
            head = False
            if not page.more:
                return
            last = page.entries[-1][0]
            start, end = (start, last) if reverse else (last + b"\0", end)
            await self._conditions.pause()

    async def _record_range(self, start: bytes, end: bytes) -> bytes | None:
        """Read the partitions from `start` on. Return where to continue if the rest of one is not needed."""
        table, partitioner = self._table, self._table.keyspace.partitioner
        standing: bytes | None = None
        partition: Partition | None = None
        after: tuple[bytes, bytes] | None = None
        skipped = False
        while True:
            scan = RingScan(
                keyspace=table.keyspace.name, family=table.name, start=start, end=end, after=after, limit=self._limit
            )
            page = await self._executor.scan(scan, self._conditions.level)
            for row_key, records in page.rows:
                if row_key != standing:
                    if partition is not None and not skipped and self._finish(partition) is NextStep.STOP:
                        return None
                    standing, skipped = row_key, False
                    partition = Partition(self._assembly, decode_row_key(partitioner, row_key))
                if skipped or partition is None:
                    continue
                verdict = self._hand_over(partition.feed(records))
                if verdict is NextStep.STOP:
                    return None
                skipped = verdict is NextStep.PARTITION
            after = page.resume
            if after is None:
                if partition is not None and not skipped:
                    self._finish(partition)
                return None
            if skipped and after[0] == standing:
                return row_end(after[0])
            await self._conditions.pause()

    def _finish(self, partition: Partition, *, alone: bool = True) -> NextStep:
        verdict = self._hand_over(partition.rest())
        if verdict is NextStep.ROW and alone and self._plan.statics_alone:
            row = partition.alone()
            if row is not None:
                return self._hand_over([row])
        return verdict

    def _hand_over(self, rows: Iterable[Row]) -> NextStep:
        for row in rows:
            verdict = self._collector.take(row)
            if verdict is not NextStep.ROW:
                return verdict
        return NextStep.ROW
