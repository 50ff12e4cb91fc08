"""Statements of an update command that each ask for one `_id`, carried out side by side."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

from docstore.bson.walk import Value, get_field
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import LARGE_BYTES
from docstore.collection.oplog.diff import Paths
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.match.predicate import Predicate
from docstore.node.write.identity_group import MOST_BYTES, IdentityGroup
from docstore.node.write.modification import Modification, update_by_identity
from docstore.node.write.update import UpdateStatement


class UpdateStep(NamedTuple):
    """What the statement with that number does. `before`: None where it makes a document; `after`: `before` itself
    where it changes nothing. `each`: whether it only changes what no index reads.
    """

    number: int
    modification: Modification
    identity: Value
    record_id: int
    before: bytes | None
    after: bytes
    each: bool

    @property
    def meets(self) -> bool:
        return self.before is not None

    @property
    def size(self) -> int:
        return 0 if self.after == self.before else len(self.after)

    @property
    def kind(self) -> tuple[bool, bool, Paths | None]:
        """What those that are written by one call have in common."""
        return self.before is None, self.each, self.modification.paths


class UpdateGroup(IdentityGroup[UpdateStatement, UpdateStep]):
    """Of an update command."""

    def is_refused_by(self, collection: Collection) -> bool:
        return self._target.validator(collection) is not None

    def steps(self, collection: Collection, numbers: range, owned: Predicate | None) -> list[UpdateStep]:
        rules = self._target.post_images()
        steps: list[UpdateStep] = []
        changed: dict[bytes, UpdateStep] = {}
        size = 0
        for index in numbers:
            statement = self._all[index]
            if statement.multi or not statement.is_plain:
                break
            found = update_by_identity(self._target.node, statement.filter, statement.update[1])
            if found is None:
                break
            identity, modification = found
            key = encode_key(identity)
            earlier = changed.get(key)
            if earlier is not None and earlier.before is None:
                # What has just been made has no record yet.
                break
            if rules is not None and rules.concerned(modification.changed):
                break
            try:
                step = self._step(collection, owned, index, identity, modification, earlier)
            except CommandError:
                break
            if step is None:
                break
            changed[key] = step
            size += len(step.after)
            if size > MOST_BYTES:
                break
            steps.append(step)
        return steps

    def _step(
        self,
        collection: Collection,
        owned: Predicate | None,
        index: int,
        identity: Value,
        modification: Modification,
        earlier: UpdateStep | None,
    ) -> UpdateStep | None:
        """What a statement does; None where it is to be carried out by itself. `earlier`: the one before it that has
        changed the same document. Errors: those of the update.
        """
        if earlier is None:
            found = collection.by_id(self._target.reader, identity)
        else:
            found = earlier.record_id, earlier.after
        if found is None:
            if not self._all[index].upsert:
                return None
            made = modification.upsert()
            self._target.check_new(made)
            return UpdateStep(index, modification, identity, 0, None, made, True)
        record_id, before = found
        if len(before) > LARGE_BYTES or (owned is not None and not owned.matches(before)):
            return None
        after = modification.apply(before)
        changed = modification.changed
        if changed is None:
            each = not collection.secondary and get_field(before, "_id") == get_field(after, "_id")
        else:
            each = collection.untouched_by(changed)
        return UpdateStep(index, modification, identity, record_id, before, after, each)

    def write(
        self, unit: WriteUnitOfWork, collection: Collection, steps: list[UpdateStep], stmt_ids: dict[int, int] | None
    ) -> None:
        for (makes, each, paths), alike in groupby(steps, key=lambda step: step.kind):
            run = list(alike)
            ids = None if stmt_ids is None else [stmt_ids[step.number] for step in run]
            if makes:
                _insert(unit, collection, run, ids)
            else:
                _replace(unit, collection, run, ids, each=each, paths=paths)

    def count(self, step: UpdateStep) -> tuple[int, int]:
        outcome = self._target.outcome
        assert outcome.modified is not None, "updates report what they modified"
        if step.before is None:
            identity = get_field(step.after, "_id")
            assert identity is not None, "a stored document has an _id"
            outcome.upserted.append((step.number, identity))
            return 1, 0
        modified = int(step.modification.counts(step.before, step.after))
        outcome.modified += modified
        return 1, modified


def _insert(unit: WriteUnitOfWork, collection: Collection, run: list[UpdateStep], stmt_ids: list[int] | None) -> None:
    if not unit.insert_each(collection, [step.after for step in run], stmt_ids):
        for place, step in enumerate(run):
            unit.insert(collection, step.after, stmt_id=None if stmt_ids is None else stmt_ids[place])


def _replace(
    unit: WriteUnitOfWork, collection: Collection, run: list[UpdateStep], stmt_ids: list[int] | None,
    *, each: bool, paths: Paths | None,
) -> None:  # fmt: skip
    changes = [(step.record_id, step.before, step.after) for step in run if step.before is not None]
    if each and unit.replace_each(collection, changes, paths, stmt_ids):
        return
    for place, change in enumerate(changes):
        unit.replace(
            collection, *change, stmt_id=None if stmt_ids is None else stmt_ids[place],
            changed=run[place].modification.changed, paths=paths,
        )  # fmt: skip
