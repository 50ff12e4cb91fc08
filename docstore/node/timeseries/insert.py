"""Inserts into time-series collections: the measurements of one series and span in a command become one bucket write.

A command alternates two steps: measurements are gathered in drafts of buckets, and the drafts are written.

* Other tasks may run in between, so a draft whose stored bucket has changed is rebuilt before it is written.
* A bucket and the statement ids of its measurements are one oplog entry, so a retry never repeats a statement.
* Only the `_id` of a series's open bucket is kept in memory. The bucket is read again when measurements arrive, so that
  changes to it are seen.
* A bucket that is no longer in memory, as after a restart, stays as it is, and a new one is opened.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain
from secrets import randbits
from typing import TYPE_CHECKING, TypeVar

from docstore.bson import OBJECT_ID, validate
from docstore.bson.walk import encoded_name
from docstore.collection.oplog.diff import make_update
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.transaction.claims import WriteConflict
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.commands.sessions.fields import Session
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.series.bucket import Bucket
from docstore.kernel.series.filling import Filling, Identities, Lane
from docstore.key_layout import RECORD_ID_BYTES, long_of
from docstore.node.limits import MAX_OPEN_BUCKETS
from docstore.node.node import DataNode
from docstore.node.timeseries.indexes import measured_paths
from docstore.node.timeseries.series import Series, series_of
from docstore.node.timeseries.statistics import counters_of
from docstore.node.write.documents import check_size
from docstore.node.write.driver import Outcome
from docstore.storage import Family
from docstore.storage.engine import getter_of
from docstore.timeseries.buckets import check_indexed, lane_of, rules_of, series_key, time_and_metadata

if TYPE_CHECKING:
    from docstore.collection.unit_of_work import WriteUnitOfWork

T = TypeVar("T")
GATHERED_MEASUREMENTS = 1000
GATHERED_BYTES = 1024 * 1024
"""Limit of measurements gathered, or bytes read to extend buckets, before buckets are written."""
_CLOCK_EVERY = 128
_CLOCK_EVERY_BUCKETS = 16
_CHANGED = frozenset((b"control", b"data"))


class OpenBuckets(OrderedDict[bytes, tuple[bytes, int]]):
    """The open buckets of a node, least recently used first.

    Key: collection uuid followed by the key of the series. Value: (`_id` of the bucket, its size in bytes).
    """

    def __init__(self) -> None:
        super().__init__()
        self.identities = Identities(randbits(64))

    def keep(self, key: bytes, bucket: Bucket) -> None:
        self[key] = (bucket.identity, bucket.size)
        self.move_to_end(key)
        if len(self) > MAX_OPEN_BUCKETS:
            self.popitem(last=False)


class SeriesInserts:
    """The measurements of one insert command, in progress."""

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
        buckets = node.parts.get(OpenBuckets)
        self._known: OpenBuckets = node.parts.setdefault(OpenBuckets, OpenBuckets()) if buckets is None else buckets
        self._at = 0
        self._filling: Filling | None = None

    def advance(self, owned: Predicate | None, until: float) -> bool:
        del owned
        series = series_of(self._node.store, self._namespace)
        if series is None:
            self.fail_rest(CommandError(Code.NamespaceNotFound, f"{self._namespace} was dropped meanwhile"))
            return True
        filling = self._resumed(series)
        documents, drafts = self._documents, filling.drafts
        while self._at < len(documents) or drafts:
            if self._at < len(documents) and not _enough(filling):
                self._gather(series, filling, until)
            else:
                self._write(series, filling, until)
            if self._node.clock() >= until:
                break
        return self._at >= len(documents) and not drafts

    def outlives(self, _error: CommandError) -> bool:
        return False

    def fail_rest(self, error: CommandError) -> None:
        positions = list(range(self._at, len(self._documents)))
        if self._filling is not None:
            positions += chain.from_iterable([draft.positions for draft in self._filling.drafts])
            self._filling.give_up()
        for position in sorted(positions)[: 1 if self._ordered else None]:
            self.outcome.fail(position, error)
        self._at = len(self._documents)

    def close(self) -> None:
        """Do nothing: no resource is held between steps."""

    def _resumed(self, series: Series) -> Filling:
        """Return the current drafts, rebuilt if their stored buckets have changed since the last step."""
        rules = rules_of(series.definition)
        filling = self._filling
        if filling is None:
            filling = self._filling = Filling(rules, self._known.identities, lane_of)
            return filling
        filling.rules = rules
        filling.close_lanes()
        for draft in list(filling.drafts):
            before = draft.stored
            if (
                before is not None
                and self._node.engine.get(Family.RECORDS, series.buckets.prefix + draft.rid) != before
            ):
                lane = filling.take_back(draft, self._documents)
                for position in draft.positions:
                    raw = self._documents[position]
                    self._add(series, filling, position, time_and_metadata(series.definition, raw)[0], lane)
        return filling

    def _gather(self, series: Series, filling: Filling, until: float) -> None:
        """Add measurements to drafts, up to the first error if ordered."""
        documents, indexed = self._documents, measured_paths(series)
        paths = [list(map(encoded_name, path.split("."))) for path in indexed]
        together = self._none_executed()
        while self._at < len(documents) and not _enough(filling):
            end = min(self._at + _CLOCK_EVERY, len(documents))
            if together:
                self._open(series, filling, filling.read(documents, self._at, end, MAX_DOCUMENT_BYTES, paths))
                self._at = filling.fill(documents, self._at, GATHERED_MEASUREMENTS, GATHERED_BYTES)
            while self._at < end and not _enough(filling):
                self._at += 1
                if not self._try_take(series, filling, self._at - 1, indexed):
                    return
                if together:
                    break
            if self._node.clock() >= until:
                return

    def _none_executed(self) -> bool:
        """Return True if certainly none of the remaining statements was executed before."""
        row = self._session_write
        if row is None:
            return True
        statements = [self._statement(position) for position in range(self._at, len(self._documents))]
        return self._node.store.sessions.none_executed(row.lsid, row.txn_number, statements)

    def _try_take(self, series: Series, filling: Filling, position: int, indexed: list[str]) -> bool:
        """Add one measurement; return True to continue with the next."""
        try:
            self._take(series, filling, position, indexed)
        except CommandError as error:
            self.outcome.fail(position, error)
            if self._ordered:
                self._at = len(self._documents)
                return False
        return True

    def _take(self, series: Series, filling: Filling, position: int, indexed: list[str]) -> None:
        """Add one measurement to a draft.

        Errors: those of an invalid or too large document, of `time_and_metadata` and of `check_indexed`.
        """
        if self._session_write is not None and self._executed(self._statement(position)):
            self.outcome.n += 1
            return
        raw = self._documents[position]
        validate(check_size(raw))
        time, meta = time_and_metadata(series.definition, raw)
        if indexed:
            check_indexed(raw, indexed)
        self._add(series, filling, position, time, filling.lane(meta))

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

    def _add(self, series: Series, filling: Filling, position: int, time: int, lane: Lane) -> None:
        """Add a measurement to the open bucket, or to a new one."""
        if not lane.opened:
            self._open(series, filling, [lane])
        filling.add(self._documents[position], position, time, lane)

    def _open(self, series: Series, filling: Filling, lanes: list[Lane]) -> None:
        """Read the open buckets of these series in their current state; fewer of them if they are large."""
        buckets, engine, open_buckets = series.buckets, self._node.engine, self._known
        uuid, id_prefix, prefix = buckets.uuid.bytes, buckets.id_prefix, buckets.prefix
        entry_of, record_of = getter_of(engine, Family.INDEXES), getter_of(engine, Family.RECORDS)
        size = 0
        for lane in lanes:
            if size > GATHERED_BYTES:
                return
            lane.opened = True
            open_bucket = open_buckets.get(uuid + lane.key)
            entry = None if open_bucket is None else entry_of(id_prefix + encode_key((OBJECT_ID, open_bucket[0])))
            if open_bucket is None or entry is None:
                continue
            rid = entry[-RECORD_ID_BYTES:]
            raw = record_of(prefix + rid)
            assert raw is not None, f"{buckets.ns}: the _id index leads to no record"
            size += len(raw)
            bucket = filling.stored(rid, raw, open_bucket[1])
            if bucket is not None and series_key(bucket.meta) == lane.key:
                lane.bucket = bucket

    def _write(self, series: Series, filling: Filling, until: float) -> None:
        """Write the oldest drafts, as many as there is time for. Errors: WriteConflict."""
        documents: list[bytes] = []
        for draft in filling.drafts:
            documents.append(draft.document())
            if len(documents) % _CLOCK_EVERY_BUCKETS == 0 and self._node.clock() >= until:
                break
        drafts = filling.drafts[: len(documents)]
        try:
            with self._node.store.unit(session=self._session_write) as unit:
                self._add_to_unit(unit, series, drafts, documents)
                self.outcome.last = unit.commit() or self.outcome.last
        except WriteConflict:
            # They are checked again when the conflicting transaction has ended.
            raise
        except CommandError as error:
            self.fail_rest(error)
            return
        del filling.drafts[: len(drafts)]
        uuid = series.buckets.uuid.bytes
        for key, bucket in filling.written(drafts):
            self._known.keep(uuid + key, bucket)
        self.outcome.n += counters_of(self._node, series).note(drafts)

    def _add_to_unit(self, unit: WriteUnitOfWork, series: Series, drafts: list[Bucket], documents: list[bytes]) -> None:
        """Add buckets to a unit, in one batch if each has one statement or statement ids do not matter."""
        buckets = series.buckets
        statements = None if self._session_write is None else [self._statements(draft.positions) for draft in drafts]
        ids = None if statements is None else [bucket_statements[0] for bucket_statements in statements]
        new: list[int] = []
        old: list[int] = []
        single: list[int] = []
        for index, draft in enumerate(drafts):
            several = statements is not None and len(statements[index]) > 1
            (single if several else new if draft.stored is None else old).append(index)
        if not (
            len(new) > 1 and unit.insert_each(buckets, _at(documents, new), None if ids is None else _at(ids, new))
        ):
            single += new
        if not (
            len(old) > 1 and self._replaced(unit, series, _at(drafts, old), _at(documents, old), ids and _at(ids, old))
        ):
            single += old
        for index in sorted(single):
            draft, stmt_id = drafts[index], None if statements is None else statements[index]
            if draft.stored is None:
                unit.insert(buckets, documents[index], stmt_id=stmt_id)
            else:
                before, after = draft.stored, documents[index]
                operation = _operation(draft, before, after) if self._logs else None
                rid = long_of(draft.rid)
                unit.replace(buckets, rid, before, after, stmt_id=stmt_id, changed=_CHANGED, operation=operation)

    def _replaced(
        self,
        unit: WriteUnitOfWork,
        series: Series,
        drafts: list[Bucket],
        documents: list[bytes],
        stmt_ids: list[int] | None,
    ) -> bool:
        """Replace buckets in one batch, if possible; else return False."""
        indexes = series.buckets.indexes_of(_CHANGED)
        if any(index.unique for index in indexes):
            return False
        rids = [draft.rid for draft in drafts]
        before = [draft.stored for draft in drafts if draft.stored is not None]
        operations = list(map(_operation, drafts, before, documents)) if self._logs else None
        return unit.replace_each(series.buckets, rids, before, documents, None, stmt_ids, indexes, operations)

    @property
    def _logs(self) -> bool:
        return self._node.store.oplog is not None

    def _statements(self, positions: list[int]) -> tuple[int, ...]:
        return tuple(map(self._statement, positions))


def _operation(draft: Bucket, before: bytes, after: bytes) -> bytes:
    """Return the oplog entry's update of a bucket: the draft's own diff if that is shorter than the document."""
    update = draft.update()
    return update if 0 < len(update) < len(after) else make_update(before, after)


def _enough(filling: Filling) -> bool:
    return filling.gathered >= GATHERED_MEASUREMENTS or filling.gathered_bytes >= GATHERED_BYTES


def _at(values: list[T], positions: list[int]) -> list[T]:
    return [values[index] for index in positions]
