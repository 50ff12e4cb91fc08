"""Group execution of statements that each address one document by `_id` or by an index key.

* A group is executed as a whole, in one step, or not at all.
* Documents, oplog entries and outcome equal those of the statements executed one at a time in their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.kernel.write.statements import identity_type
from docstore.node.write.evaluated import evaluated
from docstore.node.write.statement_loop import UNIT_DOCUMENTS, Work, WriteTarget

MOST_BYTES = 1024 * 1024
"""Maximum bytes of documents that one group writes or removes."""


class Asking(Protocol):
    """A statement with its filter."""

    @property
    def filter(self) -> bytes: ...


Statement = TypeVar("Statement", bound=Asking)


class GroupResult(Protocol):
    """Result of evaluating the statements of a group.

    `count`: statements evaluated. `size`: bytes of documents to write or remove. `matched`, `modified`: documents per
    statement.
    """

    @property
    def count(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def matched(self) -> list[int]: ...

    @property
    def modified(self) -> list[int]: ...


Result = TypeVar("Result", bound=GroupResult)


class GroupedWorks(Generic[Statement, Result]):
    """Makes the work of each statement of one command, in order.

    `alone` executes a single statement, `group` statements by `_id`, `by_key` statements by other keys.
    """

    def __init__(
        self,
        target: WriteTarget,
        statements: Sequence[Statement],
        alone: Callable[[WriteTarget, int, Statement], Work],
        group: type[IdentityGroup[Statement, Result]],
        by_key: type[IdentityGroup[Statement, Any]] | None = None,
    ) -> None:
        self._target = target
        self._statements = statements
        self._alone = alone
        self._group = group
        self._by_key = by_key
        self._alone_until = 0

    def __call__(self, index: int) -> Work:
        single = self._alone(self._target, index, self._statements[index])
        group = None if index < self._alone_until or not self._groups() else self._group_of(index)
        return single if group is None else group(self._target, self._statements, index, single, self._refused)

    def _group_of(self, index: int) -> type[IdentityGroup[Statement, Any]] | None:
        """Return the kind of group that this statement and the next can start, or None."""
        pair = self._statements[index : index + 2]
        if len(pair) < 2:
            return None
        try:
            by_identity = [identity_type(statement.filter) != 0 for statement in pair]
        except CommandError:
            return None
        return self._group if all(by_identity) else None if any(by_identity) else self._by_key

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
        """Execute the statements before `end` one at a time."""
        self._alone_until = end


class IdentityGroup(ABC, Generic[Statement, Result]):
    """Executes as many statements from `first` on as can be grouped; otherwise the first alone, by `single`."""

    def __init__(
        self,
        target: WriteTarget,
        statements: Sequence[Statement],
        first: int,
        single: Work,
        refused: Callable[[int], None],
    ) -> None:
        """`refused` receives the end of a refused group."""
        self._target = target
        self._all = statements
        self.first = first
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
        """Execute the group; return False, with nothing done, if it cannot be grouped.

        Errors: those of refused documents, WriteConflict; the joint unit is then abandoned and its statements run one
        at a time.
        """
        target = self._target
        if collection.collation is not None or collection.options.capped or self.is_refused_by(collection):
            self._refused(len(self._all))
            return False
        end = min(self.first + UNIT_DOCUMENTS, len(self._all))
        result = self.work_out(collection, end, owned)
        if result.count < 2:
            return False
        end = self.first + result.count
        stmt_ids: list[int] | None = None
        if target.session_write is not None and target.session is not None:
            stmt_ids = target.session.statement_ids(self.first, end)
            if not target.node.store.sessions.none_executed(*target.session_write, stmt_ids):
                self._refused(end)
                return False
        if result.size:
            unit = target.joined(collection, result.size)
            try:
                self.write(unit, collection, result, stmt_ids)
            except BaseException:
                unit.abort()
                raise
        self.statements = result.count
        self.note_uses(collection, result)
        self._report(result)
        return True

    def _report(self, result: Result) -> None:
        """Add the group to the outcome. Plan statistics exist only for single statements (`JointUnit`)."""
        outcome = self._target.outcome
        outcome.n += sum(result.matched)
        if outcome.modified is not None:
            outcome.modified += sum(result.modified)
        if outcome.counts is not None and outcome.modified_counts is not None:
            outcome.counts += result.matched
            outcome.modified_counts += result.modified
        self.report(result)

    def is_refused_by(self, collection: Collection) -> bool:
        """Return True if the collection requires its documents to be written one at a time."""
        return False

    def note_uses(self, collection: Collection, result: Result) -> None:
        """Count the uses of the index that served the statements."""
        collection.id_index.uses += result.count

    def report(self, result: Result) -> None:
        """Report outcome beyond the counts."""

    @abstractmethod
    def work_out(self, collection: Collection, end: int, owned: Predicate | None) -> Result:
        """Evaluate the statements from the `first` to `end`, stopping before one that must run alone."""

    @abstractmethod
    def write(self, unit: WriteUnitOfWork, collection: Collection, result: Result, stmt_ids: list[int] | None) -> None:
        """Write the group's changes. `stmt_ids`: the statement ids of a retryable write, from the `first` on."""
