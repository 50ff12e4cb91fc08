"""Measurements on their way into buckets: those of one series and span of a command go into one write of a bucket.

A command is carried out in two steps that alternate: measurements are gathered in drafts of buckets, and the drafts are
written. Others may run in between, so a draft whose bucket has changed meanwhile is made anew when it is to be written;
a bucket and the statements of its measurements are one entry, and so a retried statement is never done twice.

Which bucket of a series is open is remembered in memory and by its `_id` alone: what it holds is read when measurements
come, so that whatever has happened to it is seen. A bucket that is forgotten, as all are when a process begins, stays
as it is, and another one is begun.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from bson.objectid import ObjectId

from docstore.bson import OBJECT_ID, Value, validate
from docstore.bson.walk import encoded_name
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.series.intake import measured
from docstore.node.node import DataNode
from docstore.node.timeseries.indexes import measured_paths
from docstore.node.timeseries.series import Series, series_of
from docstore.node.timeseries.statistics import counters_of
from docstore.node.write.documents import check_size
from docstore.node.write.driver import Outcome
from docstore.timeseries.buckets import Bucket, Full, check_indexed, normalized, series_key, time_and_metadata

GATHERED_MEASUREMENTS = 1000
GATHERED_BYTES = 1024 * 1024
"""So much is gathered before buckets are written."""
_CLOCK_EVERY = 32
_MOST_OPEN = 10_000
_CHANGED = frozenset((b"control", b"data"))


class OpenBuckets(OrderedDict[tuple[UUID, bytes], tuple[bytes, int]]):
    """A part of a node: by collection and series the `_id` of the bucket that takes measurements, and how many bytes it
    has taken; the least recently used first.
    """

    def keep(self, key: tuple[UUID, bytes], bucket: Bucket) -> None:
        self[key] = (bucket.identity, bucket.size)
        self.move_to_end(key)
        if len(self) > _MOST_OPEN:
            self.popitem(last=False)


@dataclass(slots=True)
class _Draft:
    """A bucket that is to be written with the measurements that have been added, which stand at these `positions` of
    the command; `stored` is (record id, document) as it was before, None for a new one. `full`: why the bucket of the
    series before it took no more.
    """

    key: bytes
    bucket: Bucket
    stored: tuple[int, bytes] | None = None
    full: Full | None = None
    positions: list[int] = field(default_factory=list)


class SeriesInserts:
    """The measurements of one insert command on their way into a time-series collection."""

    def __init__(
        self,
        node: DataNode,
        namespace: str,
        documents: list[bytes],
        *,
        ordered: bool,
        session: Session | None = None,
        session_write: SessionWrite | None = None,
    ) -> None:
        self.outcome = Outcome()
        self.can_wait = True
        self._node = node
        self._namespace = namespace
        self._documents = documents
        self._ordered = ordered
        self._session = session
        self._session_write = session_write
        self._known: OpenBuckets = node.parts.setdefault(OpenBuckets, OpenBuckets())
        self._at = 0
        self._gathered = 0
        self._bytes = 0
        # Of metadata as they come: as a bucket has them, and what tells their series.
        self._series: dict[Value | None, tuple[Value | None, bytes]] = {None: (None, series_key(None))}
        # Those to be written, the oldest first, and of them the one that each series goes into.
        self._drafts: list[_Draft] = []
        self._current: dict[bytes, _Draft] = {}

    def advance(self, owned: Predicate | None, until: float) -> bool:
        del owned
        series = series_of(self._node.store, self._namespace)
        if series is None:
            self.fail_rest(CommandError(Code.NamespaceNotFound, f"{self._namespace} was dropped meanwhile"))
            return True
        while self._at < len(self._documents) or self._drafts:
            if self._at < len(self._documents) and not self._enough():
                self._gather(series, until)
            else:
                self._write(series, until)
            if self._node.clock() >= until:
                break
        return self._at >= len(self._documents) and not self._drafts

    def outlives(self, _error: CommandError) -> bool:
        return False

    def fail_rest(self, error: CommandError) -> None:
        left = [position for draft in self._drafts for position in draft.positions]
        left += range(self._at, len(self._documents))
        for position in sorted(left)[: 1 if self._ordered else None]:
            self.outcome.fail(position, error)
        self._drafts.clear()
        self._at = len(self._documents)

    def close(self) -> None:
        """Nothing is held between steps."""

    def _enough(self) -> bool:
        return self._gathered >= GATHERED_MEASUREMENTS or self._bytes >= GATHERED_BYTES

    def _gather(self, series: Series, until: float) -> None:
        """Put measurements into drafts, up to an ordered command's first error."""
        indexed, definition = measured_paths(series), series.definition
        time_field = encoded_name(definition.time_field)
        meta_field = None if definition.meta_field is None else encoded_name(definition.meta_field)
        documents = self._documents
        together = not indexed and self._none_executed()
        while self._at < len(documents):
            begin, end = self._at, min(self._at + _CLOCK_EVERY, len(documents))
            read: Sequence[tuple[int, Value | None] | None] = [None] * (end - begin)
            if together:
                read = measured(documents, begin, end, time_field, meta_field, MAX_DOCUMENT_BYTES)
            for position, each in enumerate(read, begin):
                self._at = position + 1
                if each is not None:
                    self._add(series, position, *each)
                elif not self._taken(series, position, indexed):
                    return
                if self._enough():
                    return
            if self._node.clock() >= until:
                return

    def _none_executed(self) -> bool:
        """Whether none of the statements that are left has been executed before, as is plain to see."""
        row = self._session_write
        if row is None:
            return True
        statements = [self._statement(position) for position in range(self._at, len(self._documents))]
        return self._node.store.sessions.none_executed(row.lsid, row.txn_number, statements)

    def _taken(self, series: Series, position: int, indexed: list[str]) -> bool:
        """Take one by itself; whether those behind it have their turn."""
        try:
            self._take(series, position, indexed)
        except CommandError as error:
            self.outcome.fail(position, error)
            if self._ordered:
                self._at = len(self._documents)
                return False
        return True

    def _take(self, series: Series, position: int, indexed: list[str]) -> None:
        """Errors: those of a document that is none or too large, of `time_and_metadata` and of `check_indexed`."""
        if self._session_write is not None and self._executed(self._statement(position)):
            self.outcome.n += 1
            return
        raw = self._documents[position]
        validate(check_size(raw))
        time, meta = time_and_metadata(series.definition, raw)
        if indexed:
            check_indexed(raw, indexed)
        self._add(series, position, time, meta)

    def _statement(self, position: int) -> int:
        assert self._session is not None, "a retryable write belongs to a session"
        return self._session.statement_id(position)

    def _executed(self, statement: int) -> bool:
        row = self._session_write
        assert row is not None, "only a retryable write has statements"
        if self._node.store.sessions.statement(row.lsid, row.txn_number, statement) is None:
            return False
        self.outcome.retried.append(statement)
        return True

    def _add(self, series: Series, position: int, time: int, meta: Value | None) -> None:
        """Add a measurement to the draft of its series, or to one of the bucket that is open, or of a new bucket."""
        raw = self._documents[position]
        known = self._series.get(meta)
        if known is None:
            assert meta is not None, "what has none is known"
            own = normalized(meta)
            known = self._series[meta] = own, series_key(own)
        of_bucket, key = known
        current = self._current.get(key)
        draft = current or self._open(series, key)
        full = None if draft is None else draft.bucket.take(raw, time)
        if draft is None or full is not None:
            draft = _Draft(key, Bucket.begun(series.definition, time, of_bucket, ObjectId().binary), full=full)
            refused = draft.bucket.take(raw, time)
            assert refused is None, "a bucket takes the measurement that it was begun for"
        if draft is not current:
            self._current[key] = draft
            self._drafts.append(draft)
        draft.positions.append(position)
        self._gathered += 1
        self._bytes += len(raw)

    def _open(self, series: Series, key: bytes) -> _Draft | None:
        """The bucket that took the last measurement of the series, as it stands now."""
        known = self._known.get((series.buckets.uuid, key))
        found = None if known is None else series.buckets.by_id(self._node.engine, (OBJECT_ID, known[0]))
        if known is None or found is None:
            return None
        try:
            bucket = Bucket.stored(series.definition, found[1], known[1])
        except LookupError:
            return None
        return _Draft(key, bucket, found) if series_key(bucket.meta) == key else None

    def _write(self, series: Series, until: float) -> None:
        """Write the oldest drafts, as many as there is time for. Errors: WriteConflict."""
        drafts: list[_Draft] = []
        try:
            with self._node.store.unit(session=self._session_write) as unit:
                while self._drafts and (not drafts or self._node.clock() < until):
                    self._renew_first(series)
                    draft = self._drafts.pop(0)
                    drafts.append(draft)
                    self._put(unit, series, draft)
                self.outcome.last = unit.commit() or self.outcome.last
        except WriteConflict:
            # It is made anew when the transaction that it has met has ended.
            self._drafts[:0] = drafts
            raise
        except CommandError as error:
            self._drafts[:0] = drafts
            self.fail_rest(error)
            return
        self._written(series, drafts)

    def _renew_first(self, series: Series) -> None:
        """Make the oldest draft anew, where others have changed its bucket since it was read."""
        draft = self._drafts[0]
        while draft.stored is not None:
            record_id, before = draft.stored
            if series.buckets.record(self._node.engine, record_id) == before:
                return
            self._drafts.pop(0)
            if self._current.get(draft.key) is draft:
                del self._current[draft.key]
            for position in draft.positions:
                self._gathered -= 1
                self._bytes -= len(self._documents[position])
                self._add(series, position, *time_and_metadata(series.definition, self._documents[position]))
            draft = self._drafts[0]

    def _written(self, series: Series, drafts: list[_Draft]) -> None:
        counters = counters_of(self._node, series)
        for draft in drafts:
            if self._current.get(draft.key) is draft:
                del self._current[draft.key]
                self._known.keep((series.buckets.uuid, draft.key), draft.bucket)
            self.outcome.n += len(draft.positions)
            counters.note(len(draft.positions), begun=draft.stored is None, full=draft.full)
        if not self._drafts:
            self._gathered = self._bytes = 0

    def _put(self, unit: WriteUnitOfWork, series: Series, draft: _Draft) -> None:
        statements = None if self._session_write is None else tuple(map(self._statement, draft.positions))
        document = draft.bucket.document()
        if draft.stored is None:
            unit.insert(series.buckets, document, stmt_id=statements)
        else:
            unit.replace(series.buckets, *draft.stored, document, stmt_id=statements, changed=_CHANGED)
