"""Reading `local.oplog.rs`: in its own order from a timestamp on, backwards from the newest entry, and by tailing.

A tail sees an entry in the step after its write unit was committed, in the order of timestamps; entries are never
skipped, because an entry and the data it describes are one batch. A cursor whose next entry was truncated away ends
with CappedPositionLost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import cast

from docstore.bson import FULL, Predicate, scan
from docstore.bson.walk import TIMESTAMP
from docstore.collection.oplog import OPLOG_NS, Oplog, entry_optime
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.cursors import Batch, Documents, ListSource, first_batch
from docstore.node.node import DataNode, node_of
from docstore.node.requests import CursorOptions
from docstore.query.compile import compile_filter
from docstore.query.find import FindQuery
from docstore.query.projection import Projection
from docstore.query.tree import And, Comparison, Filter, Op
from docstore.replicaset.replicaset import ReplicaSet
from docstore.storage.engine import Snapshot


def open_oplog(context: Context, query: FindQuery, options: CursorOptions) -> bytes | Awaitable[bytes]:
    """The first batch of a find on the oplog. Errors: BadValue for an order other than the natural one."""
    node = node_of(context)
    if query.sort.fields:
        raise CommandError(Code.BadValue, "the oplog can only be read in its natural order")
    if options.tailable and query.sort.natural < 0:
        raise CommandError(Code.BadValue, "cannot use tailable option with a sort other than {$natural: 1}")
    oplog = node.store.oplog
    source: ListSource | OplogTail | OplogRange
    if oplog is None:
        source = ListSource([])
    elif options.tailable:
        source = OplogTail(node, oplog, query, await_data=options.await_data)
    else:
        source = OplogRange(node, oplog, query)
    return first_batch(
        context,
        source,
        batch_size=options.batch_size,
        single=options.single,
        no_timeout=options.no_timeout,
        namespace=OPLOG_NS,
    )


def start_of(tree: Filter) -> int:
    """The packed timestamp after which all entries lie that the filter can pick: its lower bound on `ts`."""
    start = 0
    for child in tree.children if isinstance(tree, And) else (tree,):
        if isinstance(child, Comparison) and child.path == "ts" and child.value[0] == TIMESTAMP:
            bound = int.from_bytes(child.value[1], "little")
            if child.op in (Op.GTE, Op.EQ):
                start = max(start, bound - 1)
            elif child.op is Op.GT:
                start = max(start, bound)
    return start


class _Selection:
    """Filter, skip, limit and projection over entries in order."""

    def __init__(self, query: FindQuery) -> None:
        self.predicate: Predicate = compile_filter(query.filter)
        self._projection: Projection | None = query.projection
        self._skip = query.skip
        self._left = query.limit or None

    @property
    def satisfied(self) -> bool:
        return self._left == 0

    def take(self, entries: list[bytes]) -> list[bytes]:
        skipped = min(self._skip, len(entries))
        self._skip -= skipped
        taken = entries[skipped:] if skipped else entries
        if self._left is not None:
            taken = taken[: self._left]
            self._left -= len(taken)
        return taken if self._projection is None else [self._projection.apply(entry) for entry in taken]


class OplogRange:
    """The entries that stand now, oldest or newest first."""

    def __init__(self, node: DataNode, oplog: Oplog, query: FindQuery) -> None:
        self._clock = node.clock
        self._selection = _Selection(query)
        self._snapshot: Snapshot = node.engine.snapshot()
        backwards = query.sort.natural < 0 or (query.hint is not None and query.hint.natural < 0)
        self._entries: Iterator[bytes] = (
            oplog.scan_back(self._snapshot) if backwards else oplog.scan(self._snapshot, start_of(query.filter))
        )

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        found: list[bytes] = []
        status = scan(self._entries, self._selection.predicate, found, max_docs, max_bytes, self._clock, deadline)
        return Documents(self._selection.take(found), status == 0 or self._selection.satisfied)

    def close(self) -> None:
        self._entries = iter(())
        self._snapshot.close()


class OplogTail:
    """The entries that stand and those to come. It reads the newest state with each batch and is never exhausted."""

    def __init__(self, node: DataNode, oplog: Oplog, query: FindQuery, *, await_data: bool) -> None:
        self.await_data = await_data
        self._node = node
        self._oplog = oplog
        self._selection = _Selection(query)
        self._after = start_of(query.filter)
        self._seen = False

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        if self._seen and self._after < self._oplog.first.timestamp and self._oplog.entry(self._after) is None:
            raise CommandError(Code.CappedPositionLost, "the cursor's position in the oplog has been truncated away")
        found: list[bytes] = []
        passed = _Passed(self._oplog.scan(self._node.engine, self._after))
        status = scan(passed, self._selection.predicate, found, max_docs, max_bytes, self._node.clock, deadline)
        if passed.last is not None:
            self._after = entry_optime(passed.last).timestamp
            self._seen = True
        del passed
        return Documents(self._selection.take(found), status != FULL and self._selection.satisfied)

    async def wait(self, timeout: float) -> None:
        """Return when there is an entry behind those read, or after `timeout` seconds."""
        # Only a member of a set has an oplog.
        await cast(ReplicaSet, self._node.replication).wait_oplog(self._after, timeout)

    def close(self) -> None:
        """Nothing is held between batches."""


class _Passed:
    """An iterator that remembers what it gave last."""

    __slots__ = ("_entries", "last")

    def __init__(self, entries: Iterator[bytes]) -> None:
        self._entries = entries
        self.last: bytes | None = None

    def __iter__(self) -> _Passed:
        return self

    def __next__(self) -> bytes:
        self.last = next(self._entries)
        return self.last
