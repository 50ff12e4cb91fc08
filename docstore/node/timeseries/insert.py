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
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from bson.objectid import ObjectId

from docstore.bson import OBJECT_ID, Value, validate
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.timeseries.indexes import measured_paths
from docstore.node.timeseries.series import Series, series_of
from docstore.node.timeseries.statistics import counters_of
from docstore.node.write.documents import check_size
from docstore.node.write.driver import Outcome
from docstore.timeseries.buckets import Bucket, Full, Measurement, check_indexed, measurement_of, series_key

GATHERED_MEASUREMENTS = 1000
GATHERED_BYTES = 1024 * 1024
"""So much is gathered before buckets are written."""
_CLOCK_EVERY = 16
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


class _Row(NamedTuple):
    """A measurement of the command: its position there, and its statement where that may be retried."""

    position: int
    measurement: Measurement
    statement: int | None


@dataclass(slots=True)
class _Draft:
    """A bucket that is to be written with the rows that have been added; `stored` is (record id, document) as it was
    before, None for a new one. `full`: why the bucket of the series before it took no more.
    """

    key: bytes
    bucket: Bucket
    stored: tuple[int, bytes] | None = None
    full: Full | None = None
    rows: list[_Row] = field(default_factory=list)


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
        self._metas: dict[Value, Value] = {}
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
        left = [row.position for draft in self._drafts for row in draft.rows]
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
        indexed = measured_paths(series)
        for count, position in enumerate(range(self._at, len(self._documents)), 1):
            self._at = position + 1
            try:
                self._take(series, position, indexed)
            except CommandError as error:
                self.outcome.fail(position, error)
                if self._ordered:
                    self._at = len(self._documents)
                    return
            if self._enough() or (count % _CLOCK_EVERY == 0 and self._node.clock() >= until):
                return

    def _take(self, series: Series, position: int, indexed: list[str]) -> None:
        """Errors: those of a document that is none or too large, of `measurement_of` and of `check_indexed`."""
        statement = None if self._session_write is None else self._statement(position)
        if statement is not None and self._executed(statement):
            self.outcome.n += 1
            return
        raw = self._documents[position]
        validate(check_size(raw))
        measurement = measurement_of(series.definition, raw, self._metas)
        if indexed:
            check_indexed(measurement, indexed)
        self._add(series, _Row(position, measurement, statement))
        self._gathered += 1
        self._bytes += len(raw)

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

    def _add(self, series: Series, row: _Row) -> None:
        """Add a row to the draft of its series, or to one of the bucket that is open, or to one of a new bucket."""
        key = series_key(row.measurement.meta)
        draft = self._current.get(key) or self._open(series, key)
        full = None if draft is None else draft.bucket.refuses(row.measurement)
        if draft is None or full is not None:
            draft = _Draft(key, Bucket.begun(series.definition, row.measurement, ObjectId().binary), full=full)
        if self._current.get(key) is not draft:
            self._current[key] = draft
            self._drafts.append(draft)
        draft.bucket.add(row.measurement)
        draft.rows.append(row)

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
                    _put(unit, series, draft)
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
            for row in draft.rows:
                self._add(series, row)
            draft = self._drafts[0]

    def _written(self, series: Series, drafts: list[_Draft]) -> None:
        counters = counters_of(self._node, series)
        for draft in drafts:
            if self._current.get(draft.key) is draft:
                del self._current[draft.key]
                self._known.keep((series.buckets.uuid, draft.key), draft.bucket)
            self.outcome.n += len(draft.rows)
            counters.note(len(draft.rows), begun=draft.stored is None, full=draft.full)
        if not self._drafts:
            self._gathered = self._bytes = 0


def _put(unit: WriteUnitOfWork, series: Series, draft: _Draft) -> None:
    statements = tuple(row.statement for row in draft.rows if row.statement is not None) or None
    document = draft.bucket.document()
    if draft.stored is None:
        unit.insert(series.buckets, document, stmt_id=statements)
    else:
        unit.replace(series.buckets, *draft.stored, document, stmt_id=statements, changed=_CHANGED)
