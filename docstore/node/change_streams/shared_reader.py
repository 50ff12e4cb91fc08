"""Shared oplog reader: reads each entry once for all change streams that have caught up.

* The cache holds the operations of all entries in (`start`, `end`], in order, numbered without gaps.
* Entries are read only once committed, so no event is ever retracted.
* A waiting stream is woken by an operation under its scope's name, or by its timeout, and by nothing else.
* While streams wait, this node's writes are committed soon, including those of others.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Protocol, TypeVar

from docstore.collection.oplog.oplog import entry_optime
from docstore.node.change_streams.events import StreamOperation
from docstore.node.change_streams.operations import operations_in
from docstore.node.signals import Signal
from docstore.node.slices import step_end

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from docstore.collection.oplog.oplog import Oplog
    from docstore.node.node import DataNode
    from docstore.optime import OpTime

MOST_OPERATIONS = 4096
MOST_BYTES = 8 << 20
"""Maximum bytes of cached entries; streams further behind read the oplog themselves."""
_ENTRIES_PER_LOOK = 16
_TICK_SECONDS = 0.02
"""Timeouts within one tick fire together."""
_LATER_SECONDS = 0.002
_TOLD_PER_LOOK = 16

K = TypeVar("K", str, int)


class CommitProgress(Protocol):
    """The commit point of a replica set.

    `watchers` are called when it advances. `awaiting` return True if someone waits for an advance.
    """

    watchers: list[Callable[[], None]]
    awaiting: list[Callable[[], bool]]

    @property
    def committed(self) -> OpTime: ...


class News(Signal):
    """Signal of a stream: an operation under its name, or its timeout."""

    __slots__ = ("_reader", "happened", "name", "tick")

    def __init__(self, reader: SharedReader, name: str, tick: int) -> None:
        self._reader = reader
        self.name = name
        self.tick = tick
        self.happened: Callable[[], None] | None = None

    def tell(self, happened: Callable[[], None]) -> None:
        self.happened = happened
        self._reader.await_news(self)

    def cancel(self) -> None:
        if self.happened is not None:
            self.happened = None
            self._reader.forget(self)


class SharedReader:
    """The shared reader of one node. `start`, `end` are packed timestamps."""

    def __init__(self, node: DataNode, oplog: Oplog, replication: CommitProgress) -> None:
        self._node = node
        self.oplog = oplog
        self._replication = replication
        self._operations: list[StreamOperation] = []
        self._first = 0
        self._bytes = 0
        self._streams = 0
        self._waiting: dict[str, dict[News, None]] = {}
        self._ticks: dict[int, dict[News, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._woken: deque[News] = deque()
        self._scheduled = False
        self.start = self.end = 0
        replication.watchers.append(self._progressed)
        replication.awaiting.append(lambda: bool(self._waiting))

    @property
    def next_number(self) -> int:
        """The number of the next operation."""
        return self._first + len(self._operations)

    @property
    def committed(self) -> int:
        """The packed timestamp up to which the oplog may be read."""
        return self._replication.committed.timestamp

    def opened(self) -> None:
        """Count a new stream."""
        self._streams += 1

    def closed(self) -> None:
        """Discount a closed stream; the last one clears the cache."""
        self._streams -= 1
        if not self._streams:
            self._restart(self.end)

    def join(self, position: int) -> int | None:
        """Return the number of the first operation behind the packed timestamp `position`, which is committed.

        None if that is older than the cache. A stream ahead of the cache empties it.
        """
        if position > self.end:
            self._restart(position)
        if position < self.start:
            return None
        index = len(self._operations)
        while index and self._operations[index - 1].timestamp > position:
            index -= 1
        return self._first + index

    def _restart(self, position: int) -> None:
        """Empty the cache and continue at the packed timestamp `position`.

        Streams further behind read for themselves.
        """
        self._first = self.next_number + 1
        self._operations.clear()
        self._bytes = 0
        self.start = self.end = position

    def operations(self, number: int, most: int) -> Sequence[StreamOperation] | None:
        """Return about `most` operations from `number` on, in whole entries; None if they have left the cache."""
        index, operations = number - self._first, self._operations
        if index < 0:
            return None
        end = min(index + most, len(operations))
        while 0 < end < len(operations) and operations[end].timestamp == operations[end - 1].timestamp:
            end += 1
        return operations[index:end]

    def advance(self, deadline: float) -> None:
        """Read newly committed entries until `deadline`."""
        committed = self.committed
        if committed <= self.end:
            return
        if is_lost(self.oplog, self.end):
            self._restart(self.oplog.first.timestamp - 1)
        clock = self._node.clock
        for read, entry in enumerate(self.oplog.scan(self._node.engine, self.end), 1):
            timestamp = entry_optime(entry).timestamp
            if timestamp > committed:
                break
            operations = operations_in(entry, self.oplog)
            if operations:
                self._operations += operations
                self._bytes += len(entry)
                self._wake(operations)
            self.end = timestamp
            if read % _ENTRIES_PER_LOOK == 0 and clock() >= deadline:
                break
        else:
            self.end = committed
        self._trim()

    def _trim(self) -> None:
        if len(self._operations) <= MOST_OPERATIONS and self._bytes <= MOST_BYTES:
            return
        retained_count = MOST_OPERATIONS // 2 if self._bytes <= MOST_BYTES else len(self._operations) // 4
        cut = len(self._operations) - retained_count
        # An entry's operations stay or go together, because `start` is a timestamp.
        while cut < len(self._operations) and (self._operations[cut].timestamp == self._operations[cut - 1].timestamp):
            cut += 1
        self.start = self._operations[cut - 1].timestamp
        self._first += cut
        self._bytes = self._bytes * (len(self._operations) - cut) // len(self._operations)
        del self._operations[:cut]

    # Waiting streams

    def news(self, name: str, timeout: float) -> News:
        """Return a signal for an operation under `name`, with a timeout in seconds.

        Use it when all committed entries have been read.
        """
        # Slightly late: a stream woken early would wait again.
        end = asyncio.get_running_loop().time() + timeout + _LATER_SECONDS
        return News(self, name, math.ceil(end / _TICK_SECONDS))

    def await_news(self, news: News) -> None:
        """Register a signal."""
        self._waiting.setdefault(news.name, {})[news] = None
        self._ticks.setdefault(news.tick, {})[news] = None
        if self._timer is None:
            self._set_timer()
        elif news.tick * _TICK_SECONDS < self._timer.when():
            self._timer.cancel()
            self._set_timer()

    def forget(self, news: News) -> None:
        """Unregister a signal."""
        _remove(self._waiting, news.name, news)
        _remove(self._ticks, news.tick, news)

    def _set_timer(self) -> None:
        self._timer = None
        if self._ticks:
            self._timer = asyncio.get_running_loop().call_at(min(self._ticks) * _TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        due = math.floor(asyncio.get_running_loop().time() / _TICK_SECONDS + 0.5)
        for tick in sorted(tick for tick in self._ticks if tick <= due):
            self._wake_all(list(self._ticks.get(tick, ())))
        self._set_timer()

    def _wake_all(self, messages: Sequence[News]) -> None:
        if messages and not self._woken:
            asyncio.get_running_loop().call_soon(self._tell)
        for news in messages:
            self.forget(news)
        self._woken += messages

    def _tell(self) -> None:
        """Call back woken signals, as many as fit into a slice."""
        woken, clock, until = self._woken, self._node.clock, step_end(self._node)
        try:
            while woken:
                news = woken.popleft()
                happened, news.happened = news.happened, None
                if happened is not None:
                    happened()
                if len(woken) % _TOLD_PER_LOOK == 0 and clock() >= until:
                    break
        finally:
            if woken:
                asyncio.get_running_loop().call_soon(self._tell)

    def _progressed(self) -> None:
        """Schedule reading: the commit point has advanced."""
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        self._scheduled = False
        if self._waiting:
            self.advance(step_end(self._node))
            if self.committed > self.end:
                self._progressed()

    def _wake(self, operations: Sequence[StreamOperation]) -> None:
        for operation in operations:
            for name in operation.names:
                if name in self._waiting:
                    self._wake_all(list(self._waiting[name]))


def _remove(registered: dict[K, dict[News, None]], key: K, news: News) -> None:
    among = registered.get(key)
    if among is not None and news in among:
        del among[news]
        if not among:
            del registered[key]


def is_lost(oplog: Oplog, position: int) -> bool:
    """Return True if entries behind the packed timestamp `position` were truncated."""
    return oplog.first.timestamp > position + 1 and oplog.entry(position) is None and not oplog.is_whole
