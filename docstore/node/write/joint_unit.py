"""Statements of one command that write together: one unit of work, and so one write of the engine, for many of them.

Always true: what a statement looks for, it finds as the statements before it have left it, written or not; the unit is
committed before others run, before anything is read past it and before another unit begins. Where a statement is
refused while the unit is open, nothing of the unit is written, and its statements are carried out one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.js.script_thread import current
from docstore.optime import OpTime
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.oplog.sessions import SessionWrite
    from docstore.collection.store import Store

MOST_RECORDS = 64
"""Documents that one unit changes, so that its commit does not hold the loop for long."""
_MOST_BYTES = 1024 * 1024
_RECORDS = Family.RECORDS


class Unjoined(Exception):
    """A statement cannot go on before the joint unit is committed."""


class JointUnit:
    """Of one command. `unit` is the open one, None where nothing is waiting to be committed. `allowed`: whether its
    statements may write together.
    """

    __slots__ = ("_bytes", "_session", "_store", "allowed", "unit")

    def __init__(self, store: Store, session: SessionWrite | None, statements: int) -> None:
        self._store = store
        self._session = session
        # Whoever looks at each write of a session counts statements one by one.
        self.allowed = statements > 1 and store.sessions.before_write is None
        self._bytes = 0
        self.unit: WriteUnitOfWork | None = None

    def begin(self, collection: Collection, size: int) -> WriteUnitOfWork | None:
        """The unit to write to, for documents of `size` bytes; None where the statement is to have its own: what goes
        from a capped collection is found in what is written. Errors: those of `Store.unit`.
        """
        if not self.allowed or collection.options.capped or current() is not None:
            return None
        if self.unit is None:
            self._bytes = 0
            self.unit = self._store.unit(session=self._session)
        self._bytes += size
        return self.unit

    @property
    def is_full(self) -> bool:
        """Whether it is time to commit."""
        unit = self.unit
        return unit is not None and (self._bytes > _MOST_BYTES or len(unit.batch.changes[_RECORDS]) >= MOST_RECORDS)

    def commit(self) -> OpTime | None:
        """Write what is waiting; the optime of its last entry. Errors: those of `WriteUnitOfWork.commit`."""
        unit, self.unit = self.unit, None
        return None if unit is None else unit.commit()

    def give_up(self) -> bool:
        """Write nothing of what is waiting, and let the statements of the command go on one by one; False where nothing
        was waiting.
        """
        unit, self.unit = self.unit, None
        if unit is None:
            return False
        unit.abort()
        self.allowed = False
        return True
