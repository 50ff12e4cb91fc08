"""Statements of an update command that each ask for one `_id`, carried out side by side.

Always true: a group is carried out as a whole, in one step, or nothing of it is; what it leaves, documents, entries of
the log and the outcome, is what its statements would have left one by one in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from docstore.node.write.evaluated import evaluated
from docstore.node.write.modification import Modification, update_by_identity
from docstore.node.write.statement_loop import UNIT_DOCUMENTS, Work, WriteTarget
from docstore.node.write.update import UpdateStatement, UpdateWork
from docstore.sharding.post_images import PostImages

_MOST_BYTES = 1024 * 1024


class UpdateWorks:
    """Makes the works of the statements of one update, in their order."""

    def __init__(self, target: WriteTarget, statements: Sequence[UpdateStatement]) -> None:
        self._target = target
        self._statements = statements
        self._alone_until = 0

    def __call__(self, index: int) -> Work:
        single = UpdateWork(self._target, index, self._statements[index])
        if index < self._alone_until or not self._groups():
            return single
        return IdentityGroup(self._target, self._statements, index, single, self._refused)

    def _groups(self) -> bool:
        target = self._target
        return (
            len(self._statements) > 1
            and target.joint is not None
            and target.joint.allowed
            and target.let is None
            and target.within is None
            and target.weight is None
        )

    def _refused(self, end: int) -> None:
        """The statements before that one are carried out one by one."""
        self._alone_until = end


class _Step(NamedTuple):
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
    def kind(self) -> tuple[bool, bool, Paths | None]:
        """What those that are written by one call have in common."""
        return self.before is None, self.each, self.modification.paths


class IdentityGroup:
    """As many statements from `first` on as may be carried out side by side; the first by itself, `single`, where that
    cannot be.
    """

    def __init__(
        self,
        target: WriteTarget,
        statements: Sequence[UpdateStatement],
        first: int,
        single: UpdateWork,
        refused: Callable[[int], None],
    ) -> None:
        """`refused` is told the end of a group that was refused."""
        self._target = target
        self._all = statements
        self._first = first
        self._single = single
        self._refused = refused
        self._tried = False
        self.statements = 1

    def step(self, owned: Predicate | None, until: float) -> bool:
        if not self._tried and evaluated() is None:
            self._tried = True
            collection = self._target.collection()
            if collection is not None and self._carried_out(collection, owned):
                return True
        return self._single.step(owned, until)

    def outlives(self) -> bool:
        return self._single.outlives()

    def pause(self) -> None:
        self._single.pause()

    def close(self) -> None:
        self._single.close()

    def cut_short(self, error: CommandError) -> CommandError:
        return self._single.cut_short(error)

    def _carried_out(self, collection: Collection, owned: Predicate | None) -> bool:
        """Whether the group was; if not, nothing has been done. Errors: those of documents that are refused,
        WriteConflict; then the statements that write together are given up, and go on one by one.
        """
        target = self._target
        if collection.collation is not None or collection.options.capped or target.validator(collection) is not None:
            self._refused(len(self._all))
            return False
        steps = self._steps(collection, owned, target.post_images())
        if len(steps) < 2:
            return False
        end = steps[-1].number + 1
        stmt_ids: list[int] | None = None
        if target.session_write is not None and target.session is not None:
            stmt_ids = target.session.statement_ids(self._first, end)
            if not target.node.store.sessions.none_executed(*target.session_write, stmt_ids):
                self._refused(end)
                return False
        self._write(collection, steps, stmt_ids)
        self.statements = len(steps)
        self._note(collection, steps)
        return True

    def _steps(self, collection: Collection, owned: Predicate | None, rules: PostImages | None) -> list[_Step]:
        """Those of the statements before the first that is to be carried out by itself."""
        steps: list[_Step] = []
        changed: dict[bytes, _Step] = {}
        size = 0
        for index in range(self._first, min(self._first + UNIT_DOCUMENTS, len(self._all))):
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
            if size > _MOST_BYTES:
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
        earlier: _Step | None,
    ) -> _Step | None:
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
            return _Step(index, modification, identity, 0, None, made, True)
        record_id, before = found
        if len(before) > LARGE_BYTES or (owned is not None and not owned.matches(before)):
            return None
        after = modification.apply(before)
        changed = modification.changed
        if changed is None:
            each = not collection.secondary and get_field(before, "_id") == get_field(after, "_id")
        else:
            each = collection.untouched_by(changed)
        return _Step(index, modification, identity, record_id, before, after, each)

    def _write(self, collection: Collection, steps: list[_Step], stmt_ids: list[int] | None) -> None:
        writing = [step for step in steps if step.after != step.before]
        if not writing:
            return
        unit = self._target.joined(collection, sum([len(step.after) for step in writing]))
        try:
            for (makes, each, paths), alike in groupby(writing, key=lambda step: step.kind):
                run = list(alike)
                ids = None if stmt_ids is None else [stmt_ids[step.number - self._first] for step in run]
                if makes:
                    _insert(unit, collection, run, ids)
                else:
                    _replace(unit, collection, run, ids, each=each, paths=paths)
        except BaseException:
            unit.abort()
            raise

    def _note(self, collection: Collection, steps: list[_Step]) -> None:
        """Count what has been done."""
        target = self._target
        outcome, execution = target.outcome, target.execution
        assert outcome.modified is not None, "updates report what they modified"
        collection.id_index.uses += len(steps)
        outcome.n += len(steps)
        for step in steps:
            modified = 0
            if step.before is None:
                identity = get_field(step.after, "_id")
                assert identity is not None, "a stored document has an _id"
                outcome.upserted.append((step.number, identity))
            else:
                modified = int(step.modification.counts(step.before, step.after))
                outcome.modified += modified
            if execution is not None:
                execution.lookup(step.identity, found=step.before is not None)
            if outcome.counts is not None and outcome.modified_counts is not None:
                outcome.counts.append(1)
                outcome.modified_counts.append(modified)


def _insert(unit: WriteUnitOfWork, collection: Collection, run: list[_Step], stmt_ids: list[int] | None) -> None:
    if not unit.insert_each(collection, [step.after for step in run], stmt_ids):
        for place, step in enumerate(run):
            unit.insert(collection, step.after, stmt_id=None if stmt_ids is None else stmt_ids[place])


def _replace(
    unit: WriteUnitOfWork, collection: Collection, run: list[_Step], stmt_ids: list[int] | None,
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
