"""Statements of one command that each ask for one `_id`, carried out side by side.

Always true: a group is carried out as a whole, in one step, or nothing of it is; what it leaves, documents, entries of
the log and the outcome, is what its statements would have left one by one in their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from docstore.bson.walk import Value
from docstore.collection.collection import Collection
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.write.evaluated import evaluated
from docstore.node.write.statement_loop import UNIT_DOCUMENTS, Work, WriteTarget

MOST_BYTES = 1024 * 1024
"""Of documents that one group writes or removes."""

Statement = TypeVar("Statement")


class StepOfGroup(Protocol):
    """What the statement with that number, which asks for `identity`, does."""

    @property
    def number(self) -> int: ...

    @property
    def identity(self) -> Value: ...

    @property
    def meets(self) -> bool:
        """Whether there is a document that it concerns."""

    @property
    def size(self) -> int:
        """The bytes of the document that it writes or removes; 0 where it writes nothing."""


Step = TypeVar("Step", bound=StepOfGroup)


class GroupedWorks(Generic[Statement, Step]):
    """Makes the works of the statements of one command, in their order. `alone` begins one by itself, `group` as many
    as may go together.
    """

    def __init__(
        self,
        target: WriteTarget,
        statements: Sequence[Statement],
        alone: Callable[[WriteTarget, int, Statement], Work],
        group: type[IdentityGroup[Statement, Step]],
    ) -> None:
        self._target = target
        self._statements = statements
        self._alone = alone
        self._group = group
        self._alone_until = 0

    def __call__(self, index: int) -> Work:
        single = self._alone(self._target, index, self._statements[index])
        if index < self._alone_until or not self._groups():
            return single
        return self._group(self._target, self._statements, index, single, self._refused)

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


class IdentityGroup(ABC, Generic[Statement, Step]):
    """As many statements from `first` on as may be carried out side by side; the first by itself, `single`, where that
    cannot be.
    """

    def __init__(
        self,
        target: WriteTarget,
        statements: Sequence[Statement],
        first: int,
        single: Work,
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
        if collection.collation is not None or collection.options.capped or self.is_refused_by(collection):
            self._refused(len(self._all))
            return False
        end = min(self._first + UNIT_DOCUMENTS, len(self._all))
        steps = self.steps(collection, range(self._first, end), owned)
        if len(steps) < 2:
            return False
        end = steps[-1].number + 1
        stmt_ids: dict[int, int] | None = None
        if target.session_write is not None and target.session is not None:
            ids = target.session.statement_ids(self._first, end)
            stmt_ids = dict(zip(range(self._first, end), ids, strict=True))
            if not target.node.store.sessions.none_executed(*target.session_write, ids):
                self._refused(end)
                return False
        writing = [step for step in steps if step.size]
        if writing:
            unit = target.joined(collection, sum([step.size for step in writing]))
            try:
                self.write(unit, collection, writing, stmt_ids)
            except BaseException:
                unit.abort()
                raise
        self.statements = len(steps)
        collection.id_index.uses += len(steps)
        for step in steps:
            self._note(step)
        return True

    def _note(self, step: Step) -> None:
        """Report what has been done."""
        execution, outcome = self._target.execution, self._target.outcome
        concerned, modified = self.count(step)
        outcome.n += concerned
        if execution is not None:
            execution.lookup(step.identity, found=step.meets)
        if outcome.counts is not None and outcome.modified_counts is not None:
            outcome.counts.append(concerned)
            outcome.modified_counts.append(modified)

    def is_refused_by(self, collection: Collection) -> bool:
        """Whether its documents are written one by one."""
        return False

    @abstractmethod
    def steps(self, collection: Collection, numbers: range, owned: Predicate | None) -> list[Step]:
        """Those of the statements before the first that is to be carried out by itself."""

    @abstractmethod
    def write(
        self, unit: WriteUnitOfWork, collection: Collection, steps: list[Step], stmt_ids: dict[int, int] | None
    ) -> None:
        """Carry out those that write. `stmt_ids`: those of the statements of a session, by their numbers."""

    @abstractmethod
    def count(self, step: Step) -> tuple[int, int]:
        """How many documents the statement concerned and modified; what else there is to report is reported."""
