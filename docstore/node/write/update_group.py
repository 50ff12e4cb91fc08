"""Statements of an update command that each ask for one `_id`, carried out side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from docstore.bson.walk import get_field
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import LARGE_BYTES
from docstore.collection.oplog.diff import REPLACED, WHOLE_FIELDS, Paths
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.write.identity_updates import IdentityUpdates, Ways, Where, Written
from docstore.key_layout import long_of
from docstore.node.write.identity_group import MOST_BYTES, IdentityGroup
from docstore.node.write.modification import update_by_identity
from docstore.node.write.update_statements import UpdateStatement
from docstore.query.update.direct import direct_update
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.kernel.write.identity_updates import Judged

_RECORDS = Family.RECORDS
_INDEXES = Family.INDEXES


class UpdateGroup(IdentityGroup[UpdateStatement, IdentityUpdates]):
    """Of an update command."""

    def is_refused_by(self, collection: Collection) -> bool:
        return self._target.validator(collection) is not None

    def work_out(self, collection: Collection, end: int, owned: Predicate | None) -> IdentityUpdates:
        get = self._target.reader.get
        where = Where(
            partial(get, _INDEXES), partial(get, _RECORDS),
            collection.id_prefix, collection.prefix, collection.newest_id, owned, LARGE_BYTES,
        )  # fmt: skip
        ways = Ways(self._judge, self._admits(), _pushed, WHOLE_FIELDS, REPLACED)
        # Nobody sees the order in which documents are written together, but the log.
        found = IdentityUpdates(where, ways, MOST_BYTES, self._target.node.store.oplog is not None)
        found.work_out(self._all, self.first, end)
        return found

    def _judge(self, number: int, before: bytes | None) -> Judged | None:
        """What a statement makes of a document, or inserts, the general way; None where it is to be carried out by
        itself. Errors: those of the update.
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
        """Whether top-level fields may be changed, and a document be made, where documents are sharded."""
        rules, target = self._target.post_images(), self._target
        if rules is None:
            return None

        def admits(names: frozenset[bytes] | None, made: bytes | None) -> bool:
            if rules.concerned(names):
                return False
            if made is not None:
                target.check_new(made)
            return True

        return admits

    def write(
        self, unit: WriteUnitOfWork, collection: Collection, found: IdentityUpdates, stmt_ids: list[int] | None
    ) -> None:
        for run in found.runs:
            ids = None if stmt_ids is None else [stmt_ids[number - self.first] for number in run.numbers]
            if run.makes:
                _insert(unit, collection, run, ids)
            else:
                _replace(unit, collection, run, ids)

    def report(self, found: IdentityUpdates) -> None:
        self._target.outcome.upserted += found.upserted


def _pushed(specification: bytes) -> Paths | None:
    """The paths of an update with `$push` that the kernel carries out."""
    update = direct_update(specification)
    assert update is not None, "the kernel carries it out"
    return update.paths


def _insert(unit: WriteUnitOfWork, collection: Collection, run: Written, stmt_ids: list[int] | None) -> None:
    if not unit.insert_each(collection, run.after, stmt_ids):
        for place, made in enumerate(run.after):
            unit.insert(collection, made, stmt_id=None if stmt_ids is None else stmt_ids[place])


def _replace(unit: WriteUnitOfWork, collection: Collection, run: Written, stmt_ids: list[int] | None) -> None:
    indexes = collection.indexes_of(run.names)
    together = run.same_identity and not any(index.unique for index in indexes)
    if together and unit.replace_each(
        collection, run.record_ids, run.before, run.after, run.paths, stmt_ids, indexes
    ):  # fmt: skip
        return
    for place, (rid, before, after) in enumerate(zip(run.record_ids, run.before, run.after, strict=True)):
        unit.replace(
            collection, long_of(rid), before, after, stmt_id=None if stmt_ids is None else stmt_ids[place],
            changed=run.names, paths=run.paths,
        )  # fmt: skip
