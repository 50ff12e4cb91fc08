"""Statements of one command that each ask for one document, by its `_id` or by a key, carried out side by side.

Always true: a group is carried out as a whole, in one step, or nothing of it is; what it leaves, documents, entries of
the log and the outcome, is what its statements would have left one by one in their order.
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
"""Of documents that one group writes or removes."""


class Asking(Protocol):
    """A statement with its filter."""

    @property
    def filter(self) -> bytes: ...


Statement = TypeVar("Statement", bound=Asking)


class WorkedOut(Protocol):
    """What the statements of a group do. `count` are as many as could be worked out, `size` is that of the documents
    that they write or remove; `matched` and `modified` say of each how many documents it concerns and modifies.
    """

    @property
    def count(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def matched(self) -> list[int]: ...

    @property
    def modified(self) -> list[int]: ...


Found = TypeVar("Found", bound=WorkedOut)


class GroupedWorks(Generic[Statement, Found]):
    """Makes the works of the statements of one command, in their order. `alone` begins one by itself, `group` as many
    as may go together; `by_key` those that do not ask for an `_id`.
    """

    def __init__(
        self,
        target: WriteTarget,
        statements: Sequence[Statement],
        alone: Callable[[WriteTarget, int, Statement], Work],
        group: type[IdentityGroup[Statement, Found]],
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
        """What this statement and the next may be the first of."""
        pair = self._statements[index : index + 2]
        if len(pair) < 2:
            return None
        try:
            by_identity = [identity_type(each.filter) != 0 for each in pair]
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
        """The statements before that one are carried out one by one."""
        self._alone_until = end


class IdentityGroup(ABC, Generic[Statement, Found]):
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
        """Whether the group was; if not, nothing has been done. Errors: those of documents that are refused,
        WriteConflict; then the statements that write together are given up, and go on one by one.
        """
        target = self._target
        if collection.collation is not None or collection.options.capped or self.is_refused_by(collection):
            self._refused(len(self._all))
            return False
        end = min(self.first + UNIT_DOCUMENTS, len(self._all))
        found = self.work_out(collection, end, owned)
        if found.count < 2:
            return False
        end = self.first + found.count
        stmt_ids: list[int] | None = None
        if target.session_write is not None and target.session is not None:
            stmt_ids = target.session.statement_ids(self.first, end)
            if not target.node.store.sessions.none_executed(*target.session_write, stmt_ids):
                self._refused(end)
                return False
        if found.size:
            unit = target.joined(collection, found.size)
            try:
                self.write(unit, collection, found, stmt_ids)
            except BaseException:
                unit.abort()
                raise
        self.statements = found.count
        self.note_uses(collection, found)
        self._report(found)
        return True

    def _report(self, found: Found) -> None:
        """Say what has been done. Figures of plans are those of single statements only (`JointUnit`)."""
        outcome = self._target.outcome
        outcome.n += sum(found.matched)
        if outcome.modified is not None:
            outcome.modified += sum(found.modified)
        if outcome.counts is not None and outcome.modified_counts is not None:
            outcome.counts += found.matched
            outcome.modified_counts += found.modified
        self.report(found)

    def is_refused_by(self, collection: Collection) -> bool:
        """Whether its documents are written one by one."""
        return False

    def note_uses(self, collection: Collection, found: Found) -> None:
        """Note which index has answered the statements."""
        collection.id_index.uses += found.count

    def report(self, found: Found) -> None:
        """Say what else there is to say of what has been done."""

    @abstractmethod
    def work_out(self, collection: Collection, end: int, owned: Predicate | None) -> Found:
        """The statements from the `first` to `end`, up to one that is to be carried out by itself."""

    @abstractmethod
    def write(self, unit: WriteUnitOfWork, collection: Collection, found: Found, stmt_ids: list[int] | None) -> None:
        """Write what they write. `stmt_ids`: those of a session's statements, from the `first` on."""
