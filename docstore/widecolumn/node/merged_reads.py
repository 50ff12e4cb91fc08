"""A row as several members hold it, fetched as far as a reader needs it.

Every member applies the same log, so the state of the furthest member is the merge of all. Merging cell by cell would
be wrong if a lagging member still has records that were collected or truncated meanwhile. Invariants of results:

- as many members as the level requires were asked, this one included, and the result is that of the furthest;
- it will not be rolled back, so no later quorum read finds less. Either the commit point has passed it, or a majority
  of the voters has the same, with logs that end in their current term. Then nobody without it can be elected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.key_layout import family_prefix
from docstore.net import NetworkError
from docstore.node.node import DataNode
from docstore.optime import OpTime
from docstore.replicaset.replicaset import ReplicaSet
from docstore.sharding.version import STALE_CODES
from docstore.widecolumn.model.consistency import Level
from docstore.widecolumn.model.errors import read_timed_out
from docstore.widecolumn.model.executor import RecordPage
from docstore.widecolumn.model.keys import ROW_DELETION
from docstore.widecolumn.node.keyspaces import FamilyStore
from docstore.widecolumn.node.read_state import is_owned
from docstore.widecolumn.node.replica_reads import (
    RecordRange,
    RecordRangeReply,
    RowKeyList,
    ask_member,
    ask_rows,
    list_rows,
    read_record_range,
)
from docstore.widecolumn.node.replicas import others_alive

T = TypeVar("T")
_FIRST = 256
_MOST = 16_384
_PATIENCE_SECONDS = 0.25
"""The wait for a member before a further one is asked."""


class NotFetched(Exception):
    """Raised when a reader needs a path, or the records of a range, that has not been fetched."""

    def __init__(self, points: tuple[bytes, ...], bounds: tuple[bytes, bytes, bool] | None) -> None:
        super().__init__("not fetched yet")
        self.points = points
        self.bounds = bounds


class _FetchedRange(NamedTuple):
    """The fetched part of a range. `limit`: the last requested number of records."""

    page: RecordPage
    limit: int


@dataclass(slots=True, kw_only=True)
class Quorum:
    """The parameters for asking members on behalf of one request. `deadline`: on the node's clock."""

    context: Context
    node: DataNode
    found: FamilyStore
    level: Level
    needed: int
    deadline: float

    async def read(self, record_range: RecordRange) -> RecordRangeReply:
        """Return the record range as the furthest of this node and enough others has it. Errors: TimedOut."""
        own = partial(read_record_range, self.context, self.node, self.found.collection, record_range)
        while True:
            answers = await self._ask(own, partial(self._ask_one, record_range))
            furthest = max(answers, key=lambda answer: answer.optime)
            if self._stands(answers) or await self._settled(furthest.optime):
                return furthest
            self.context.operation.check()

    async def list_rows(self, start: bytes, end: bytes, limit: int, owned: Predicate | None) -> list[bytes]:
        """Return the next rows of the ring that the furthest of enough members has and this shard owns. Errors:
        TimedOut.
        """
        while True:
            own = partial(list_rows, self.context, self.node, self.found, start, end, limit)
            lists = await self._ask(own, partial(self._list_one, start, end, limit))
            row_keys = max(lists, key=lambda listing: listing.optime).row_keys
            mine = [row_key for row_key in row_keys if is_owned(self.found, row_key, owned)]
            if mine or not row_keys:
                return mine
            start = row_keys[-1] + b"\xff"

    async def _ask(
        self, own_answer: Callable[[], Awaitable[T]], ask_one: Callable[[str], Awaitable[T]]
    ) -> tuple[T, ...]:
        node = self.node
        own = asyncio.ensure_future(own_answer())
        candidates = others_alive(node)
        member_by_task: dict[asyncio.Future[T], str] = {}
        failed: set[str] = set()
        pending = {own}

        def ask_next() -> None:
            if candidates:
                task = asyncio.ensure_future(ask_one(candidates[0]))
                member_by_task[task] = candidates.pop(0)
                pending.add(task)

        for _ in range(self.needed - 1):
            ask_next()
        answers: list[T] = []
        try:
            while pending and len(answers) < self.needed:
                timeout = max(self.deadline - node.clock(), 0.0)
                done, pending = await asyncio.wait(
                    pending,
                    timeout=min(timeout, _PATIENCE_SECONDS) if candidates else timeout,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if not done:
                    if not candidates or not timeout:
                        break
                    ask_next()
                for task in done:
                    try:
                        answers.append(task.result())
                    except (NetworkError, CommandError) as error:
                        moved = isinstance(error, CommandError) and error.code in STALE_CODES
                        if task is own or moved:
                            raise
                        if member_by_task[task] not in failed:
                            # The connection may have broken since it was used last: it is tried once more, in its turn.
                            failed.add(member_by_task[task])
                            candidates.append(member_by_task[task])
                        ask_next()
        finally:
            for task in pending:
                task.cancel()
        if len(answers) < self.needed:
            raise read_timed_out(self.level.value, self.needed, len(answers))
        return tuple(answers)

    async def _ask_one(self, record_range: RecordRange, address: str) -> RecordRangeReply:
        return await ask_member(self.context, self.node, address, self.found.collection.ns, record_range, self._left())

    async def _list_one(self, start: bytes, end: bytes, limit: int, address: str) -> RowKeyList:
        namespace = self.found.collection.ns
        return await ask_rows(self.context, self.node, address, namespace, (start, end, limit), self._left())

    def _left(self) -> float:
        return max(self.deadline - self.node.clock(), 0.001)

    def _stands(self, answers: Sequence[RecordRangeReply]) -> bool:
        """True if the replies alone prove that this state will not be rolled back."""
        first = answers[0]
        if not all(
            answer.optime.term == answer.term == first.term
            and answer.points == first.points
            and answer.page == first.page
            for answer in answers
        ):
            return False
        config = self._set.membership.state.config
        return config is not None and sum(answer.votes for answer in answers) >= config.majority_votes

    @property
    def _set(self) -> ReplicaSet:
        replication = self.node.replication
        assert isinstance(replication, ReplicaSet), "one node agrees with itself"
        return replication

    async def _settled(self, optime: OpTime) -> bool:
        """Wait until a majority has the log up to there; False when that log has been left meanwhile: ask again."""
        state = self._set.membership.state
        timeout = self.deadline - self.node.clock()
        if not await self._set.wait_for(lambda: state.commit_point >= optime, max(timeout, 0.0)):
            raise read_timed_out(self.level.value, self.needed, 1)
        return state.commit_point.term == optime.term


class MergedRow:
    """The cells of one row, for a `RowReader`. Raises `NotFetched` for data that `fetch` must get first."""

    def __init__(self, quorum: Quorum, row_key: bytes, points: tuple[bytes, ...] = ()) -> None:
        """`points`: paths that the reader will need, fetched together."""
        self._quorum = quorum
        self._row_key = row_key
        self._at = len(family_prefix(quorum.found.collection.ident)) + len(row_key)
        self._wanted = points
        self._points: dict[bytes, bytes | None] = {}
        self._walks: dict[tuple[bytes, bytes, bool], _FetchedRange] = {}

    def get(self, key: bytes) -> bytes | None:
        path = key[self._at :]
        if path not in self._points:
            raise NotFetched((path,), None)
        return self._points[path]

    def items(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        at = self._at
        bounds = (start[at:], end[at:], reverse)
        walk = self._walks.get(bounds)
        if walk is None:
            raise NotFetched((), bounds)
        prefix = start[:at]
        for path, record in walk.page.entries:
            yield prefix + path, record
        if walk.page.more:
            raise NotFetched((), bounds)

    async def fetch(self, lack: NotFetched) -> None:
        """Fetch the missing data; of a range twice as much as before."""
        points = tuple(dict.fromkeys((*lack.points, *self._wanted, ROW_DELETION)))
        points = tuple(path for path in points if path not in self._points)
        self._wanted = ()
        walk = None if lack.bounds is None else self._walks.get(lack.bounds)
        limit = _FIRST if walk is None else min(walk.limit * 2, _MOST)
        start, end, reverse = lack.bounds or (b"", b"", False)
        if walk is not None and walk.page.entries:
            last = walk.page.entries[-1][0]
            start, end = (start, last) if reverse else (last + b"\0", end)
        record_range = RecordRange(self._row_key, points, start, end, reverse, limit if lack.bounds else 0)
        answer = await self._quorum.read(record_range)
        self._points.update(zip(points, answer.points, strict=True))
        if lack.bounds is not None:
            before = [] if walk is None else walk.page.entries
            self._walks[lack.bounds] = _FetchedRange(RecordPage(before + answer.page.entries, answer.page.more), limit)
