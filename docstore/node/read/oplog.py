"""Reads of `local.oplog.rs`: forward from a timestamp, backward from the newest entry, and tailing.

* A tail sees an entry in the step after its commit, in timestamp order. It skips none, because an entry and the data it
  describes are one write batch.
* A cursor whose next entry was truncated fails with CappedPositionLost; so do all when entries are rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.bson.walk import TIMESTAMP
from docstore.collection.oplog.oplog import OPLOG_NS, Oplog, entry_optime
from docstore.commands.context import Context
from docstore.commands.declaration import Encoded
from docstore.errors import Code, CommandError
from docstore.kernel.scan.documents import scan
from docstore.node.node import DataNode, node_of
from docstore.node.read.cursors import first_batch
from docstore.node.read.requests import CursorOptions
from docstore.node.read.sources import Batch, Documents, ListSource
from docstore.node.read.tailing import Selection, Tail
from docstore.node.slices import Steps
from docstore.query.filter.tree import And, Comparison, Filter, Op
from docstore.query.find import FindQuery
from docstore.storage.engine import Snapshot

_LAST = (1 << 64) - 1
"""The highest possible timestamp."""


def open_oplog(context: Context, query: FindQuery, options: CursorOptions) -> Steps[Encoded]:
    """Return the first batch of a find on the oplog. Errors: BadValue for a sort other than `$natural`."""
    node = node_of(context)
    if query.sort.fields:
        raise CommandError(Code.BadValue, "the oplog can only be read in its natural order")
    if options.tailable and query.sort.natural < 0:
        raise CommandError(Code.BadValue, "cannot use tailable option with a sort other than {$natural: 1}")
    oplog = node.store.oplog
    source: ListSource | Tail | OplogRange
    if oplog is None:
        source = ListSource([])
    elif options.tailable:
        log, start = OplogLog(node, oplog), bounds_of(query.filter)[0]
        picks_all = _is_lower_bound(query.filter)
        source = Tail(
            node, log, query, start=start, await_data=options.await_data, ends_empty=False, picks_all=picks_all
        )
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


def bounds_of(tree: Filter) -> tuple[int, int | None]:
    """Return packed timestamps (after, before) that bound the filter's matches, from its conditions on `ts`."""
    after, before = 0, 1 << 64
    for child in tree.children if isinstance(tree, And) else (tree,):
        if isinstance(child, Comparison) and child.path == "ts" and child.value[0] == TIMESTAMP:
            bound = int.from_bytes(child.value[1], "little")
            if child.op in (Op.GTE, Op.EQ):
                after = max(after, bound - 1)
            elif child.op is Op.GT:
                after = max(after, bound)
            if child.op in (Op.LTE, Op.EQ):
                before = min(before, bound + 1)
            elif child.op is Op.LT:
                before = min(before, bound)
    return min(after, _LAST - 1), before if before <= _LAST else None


def _is_lower_bound(tree: Filter) -> bool:
    """Return True if the filter is only a lower bound on `ts`, as secondaries send."""
    return (
        isinstance(tree, Comparison)
        and tree.path == "ts"
        and tree.value[0] == TIMESTAMP
        and tree.op in (Op.GT, Op.GTE)
        and int.from_bytes(tree.value[1], "little") < _LAST
    )


class OplogRange:
    """The entries of a snapshot of the oplog, oldest or newest first."""

    def __init__(self, node: DataNode, oplog: Oplog, query: FindQuery) -> None:
        self._clock = node.clock
        self._selection = Selection(query)
        self._snapshot: Snapshot = node.engine.snapshot()
        backwards = query.sort.natural < 0 or (query.hint is not None and query.hint.natural < 0)
        after, before = bounds_of(query.filter)
        self._entries: Iterator[bytes] = (
            oplog.scan_back(self._snapshot, before, after) if backwards else oplog.scan(self._snapshot, after, before)
        )

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        entries: list[bytes] = []
        status = scan(
            self._entries,
            self._selection.predicate,
            entries,
            self._selection.wanted(max_docs),
            max_bytes,
            self._clock,
            deadline,
        )
        return Documents(self._selection.take(entries), status == 0 or self._selection.satisfied)

    def close(self) -> None:
        self._entries = iter(())
        self._snapshot.close()


class OplogLog:
    """The oplog as a log: positions are packed timestamps."""

    def __init__(self, node: DataNode, oplog: Oplog) -> None:
        self._node = node
        self._oplog = oplog
        self._cuts = oplog.cuts

    def after(self, position: int) -> Iterator[tuple[int, bytes]]:
        for entry in self.documents_after(position):
            yield self.position_of(entry), entry

    def documents_after(self, position: int) -> Iterator[bytes]:
        if self._oplog.last.timestamp <= position:
            return iter(())
        return self._oplog.scan(self._node.engine, position)

    def position_of(self, document: bytes) -> int:
        return entry_optime(document).timestamp

    def holds(self, position: int) -> bool:
        if self._oplog.cuts != self._cuts:
            # After a rollback, other entries may stand at the cursor's position and before it.
            return False
        return position >= self._oplog.first.timestamp or self._oplog.entry(position) is not None

    async def wait(self, position: int, timeout: float) -> None:
        await self._node.replication.wait_oplog(position, timeout)
