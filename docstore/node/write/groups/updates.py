# cython: annotation_typing=False
"""Group execution of update statements that each address one document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import cython

from docstore.bson.walk import elements, get_field
from docstore.collection.collection import Collection
from docstore.collection.oplog.diff import REPLACED, WHOLE_FIELDS
from docstore.collection.read.plan_cache import ScanKey
from docstore.collection.read.prepared import NOTHING, BoundScan, bound_scan_of_write
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import CommandError
from docstore.kernel.keys.entry_source import LARGE_BYTES
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.write.identity_updates import FallbackHooks, IdentityUpdates, Where, Written
from docstore.key_layout import long_of, record_id_bytes
from docstore.node.write.groups.group import MOST_BYTES, IdentityGroup
from docstore.node.write.identity import identity_in
from docstore.node.write.modification import Modification, plain_modification, update_by_identity
from docstore.node.write.update_statements import UpdateStatement
from docstore.query.value.places import meet, read_place
from docstore.storage import Family
from docstore.storage.engine import getter_of

if TYPE_CHECKING:
    from docstore.kernel.write.identity_updates import Judged

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES


class UpdateGroup(IdentityGroup[UpdateStatement, IdentityUpdates]):
    """Update statements by `_id`, executed as a group."""

    def is_refused_by(self, collection: Collection) -> bool:
        return self._target.validator(collection) is not None

    def work_out(self, collection: Collection, end: int, owned: Predicate | None) -> IdentityUpdates:
        reader = self._target.reader
        where = Where(
            getter_of(reader, _INDEXES), getter_of(reader, _RECORDS),
            collection.id_prefix, collection.prefix, collection.newest_id, owned, LARGE_BYTES,
        )  # fmt: skip
        ways = FallbackHooks(self._judge, self._admits(), WHOLE_FIELDS, REPLACED)
        # Only the oplog shows the order of documents written together.
        updates = IdentityUpdates(where, ways, MOST_BYTES, self._target.node.store.oplog is not None)
        updates.work_out(self._all, self.first, end)
        return updates

    def _judge(self, number: int, before: bytes | None) -> Judged | None:
        """Evaluate one statement on the general path; None if it must run alone. Errors: those of the update.

        Returns (post-image or inserted document, changed paths, oplog paths, counts as modified, `_id` unchanged).
        """
        statement = self._all[number]
        modification = update_by_identity(self._target.node, statement.filter, statement.update[1])
        if modification is None:
            return None
        changed = modification.changed
        if before is None:
            return modification.upsert(), changed, None, True, True
        after = modification.apply(before)
        same = get_field(before, "_id") == get_field(after, "_id") if changed is None else b"_id" not in changed
        return after, changed, modification.paths, modification.counts(before, after), same

    def _admits(self) -> Callable[[frozenset[bytes] | None, bytes | None], bool] | None:
        """Return a predicate that tells whether the shard admits a change; None: it admits all.

        Its arguments are the changed top-level fields and the upserted document.
        """
        rules, target = self._target.post_images(), self._target
        if rules is None:
            return None

        def admits(names: frozenset[bytes] | None, document: bytes | None) -> bool:
            if rules.concerned(names):
                return False
            if document is not None:
                target.check_new(document)
            return True

        return admits

    def write(
        self, unit: WriteUnitOfWork, collection: Collection, updates: IdentityUpdates, stmt_ids: list[int] | None
    ) -> None:
        for run in updates.runs:
            ids = None if stmt_ids is None else [stmt_ids[number - self.first] for number in run.numbers]
            if run.makes:
                _insert(unit, collection, run, ids)
            else:
                _replace(unit, collection, run, ids)

    def report(self, updates: IdentityUpdates) -> None:
        self._target.outcome.upserted += updates.upserted


@dataclass
class KeyUpdates:
    """Evaluated update statements; each of `runs` holds the documents changed by one kind of update."""

    matched: list[int] = field(default_factory=list)
    modified: list[int] = field(default_factory=list)
    runs: list[Written] = field(default_factory=list)
    size: int = 0
    latest: dict[int, bytes] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return len(self.matched)

    @cython.ccall
    def take(self, number: int, record_id: int, before: bytes, after: bytes, update: Modification) -> None:
        """Add the change of one document by one statement."""
        run = self.runs[-1] if self.runs else None
        rid = record_id_bytes(record_id)
        if run is None or run.names != update.changed or run.paths != update.paths or record_id in self.latest:
            run = Written(False, update.changed, update.paths, True)
            self.runs.append(run)
        run.numbers.append(number)
        run.record_ids.append(rid)
        run.before.append(before)
        run.after.append(after)
        self.latest[record_id] = after
        self.size += len(before)


class KeyUpdateGroup(IdentityGroup[UpdateStatement, KeyUpdates]):
    """Update statements that find their documents by prepared scans, executed as a group.

    Each is evaluated as if none of the group had run, so none may change a path or index that another reads.
    """

    def is_refused_by(self, collection: Collection) -> bool:
        return self._target.validator(collection) is not None

    def work_out(self, collection: Collection, end: int, owned: Predicate | None) -> KeyUpdates:
        updates = KeyUpdates()
        changed = _ChangedPaths(collection)
        for number in range(self.first, end):
            if not self._take(number, collection, owned, updates, changed):
                break
        if updates.count < 2:
            # A statement that cannot join is usually followed by more of its kind.
            self._refused(end)
        return updates

    def _take(
        self, number: int, collection: Collection, owned: Predicate | None, updates: KeyUpdates, changed: _ChangedPaths
    ) -> bool:
        """Add the statement to the group; return False if it cannot join."""
        statement, target = self._all[number], self._target
        if statement.multi or not statement.is_plain or identity_in(statement.filter) is not None:
            return False
        update = plain_modification(target.node, statement.filter, statement.update, upsert=statement.upsert)
        if update is None or update.update.is_replacement or update.update.needs_position:
            return False
        if update.changed is None or b"_id" in update.changed:
            return False
        bound = bound_scan_of_write(collection, statement.filter, target.reader)
        rules = target.post_images()
        if bound is None or not bound.parts or changed.concerns(bound, statement.filter):
            # Without an index each scan takes long and gets a step of its own.
            return False
        match = bound.first(target.reader, owned)
        if match is None or (match is NOTHING and statement.upsert):
            return False
        if rules is not None and rules.concerned(update.changed):
            return False
        if match is NOTHING:
            updates.matched.append(0)
            updates.modified.append(0)
            return True
        record_id, before = match
        before = updates.latest.get(record_id, before)
        if len(before) > LARGE_BYTES or updates.size > MOST_BYTES:
            return False
        try:
            after = update.apply(before)
        except CommandError:
            # Executed alone, the statement reports the error.
            return False
        if after != before:
            updates.take(number, record_id, before, after, update)
            changed.add(update.changed)
        updates.matched.append(1)
        updates.modified.append(int(update.counts(before, after)))
        return True

    def write(
        self, unit: WriteUnitOfWork, collection: Collection, updates: KeyUpdates, stmt_ids: list[int] | None
    ) -> None:
        for run in updates.runs:
            ids = None if stmt_ids is None else [stmt_ids[number - self.first] for number in run.numbers]
            _replace(unit, collection, run, ids)

    def note_uses(self, collection: Collection, updates: KeyUpdates) -> None:
        """Do nothing: each scan has counted its own use."""


class _ChangedPaths:
    """Paths that the group changes, compared with the paths that its statements read."""

    __slots__ = ("_collection", "_decisions", "_places")

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._places: set[frozenset[bytes]] = set()
        # By scan key: whether the scan's result may have changed.
        self._decisions: dict[ScanKey, bool] = {}

    @cython.ccall
    def add(self, places: frozenset[bytes]) -> None:
        if places not in self._places:
            self._places.add(places)
            self._decisions.clear()

    @cython.ccall
    def concerns(self, bound: BoundScan, filter_: bytes) -> bool:
        """Return True if the group's changes may alter the result of the scan."""
        is_affected = self._decisions.get(bound.key)
        if is_affected is None:
            is_affected = self._decisions[bound.key] = bool(self._places) and self._may_concern(bound, filter_)
        return is_affected

    def _may_concern(self, bound: BoundScan, filter_: bytes) -> bool:
        names = [name for name, _, _ in elements(filter_)]
        read_places = [read_place(name) for name in names]
        indexes = [index for index, _ in bound.parts]
        return any(name.startswith("$") for name in names) or any(
            meet(places, read_places) or any(index in indexes for index in self._collection.indexes_of(places))
            for places in self._places
        )


def _insert(unit: WriteUnitOfWork, collection: Collection, run: Written, stmt_ids: list[int] | None) -> None:
    if not unit.insert_each(collection, run.after, stmt_ids):
        for position, document in enumerate(run.after):
            unit.insert(collection, document, stmt_id=None if stmt_ids is None else stmt_ids[position])


def _replace(unit: WriteUnitOfWork, collection: Collection, run: Written, stmt_ids: list[int] | None) -> None:
    indexes = collection.indexes_of(run.names)
    together = run.same_identity and not any(index.unique for index in indexes)
    if together and unit.replace_each(
        collection, run.record_ids, run.before, run.after, run.paths, stmt_ids, indexes
    ):  # fmt: skip
        return
    for position, (rid, before, after) in enumerate(zip(run.record_ids, run.before, run.after, strict=True)):
        unit.replace(
            collection, long_of(rid), before, after, stmt_id=None if stmt_ids is None else stmt_ids[position],
            changed=run.names, paths=run.paths,
        )  # fmt: skip
