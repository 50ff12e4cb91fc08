"""Joint unit of work: statements of one command that share one unit, and so one write batch of the engine.

* A statement reads the writes of the statements before it, committed or not.
* The unit is committed before other tasks run, before a read that bypasses it, and before another unit begins.
* If a statement is refused while the unit is open, the unit is aborted and its statements run one at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.js.script_thread import current
from docstore.node.limits import MAX_BATCH_BYTES
from docstore.optime import OpTime
from docstore.storage import Family

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.collection.oplog.sessions import SessionWrite
    from docstore.collection.store import Store

MOST_RECORDS = 64
"""Maximum number of documents per unit, so that its commit does not hold the loop for long."""
_RECORDS = Family.RECORDS


class Unjoined(Exception):
    """The statement needs the joint unit committed before it can continue."""


class JointUnit:
    """The joint unit of one command. `unit`: the open one, None if nothing is pending.

    `allowed`: its statements may share.
    """

    __slots__ = ("_bytes", "_session", "_store", "allowed", "unit")

    def __init__(self, store: Store, session: SessionWrite | None, statements: int) -> None:
        self._store = store
        self._session = session
        # An observer of each write of a session counts single statements.
        self.allowed = statements > 1 and store.sessions.before_write is None
        self._bytes = 0
        self.unit: WriteUnitOfWork | None = None

    def begin(self, collection: Collection, size: int) -> WriteUnitOfWork | None:
        """Return the unit for documents of `size` bytes, or None if the statement needs its own.

        Errors: those of `Store.unit`. A capped collection needs its own: deletions from its front are computed from
        committed documents.
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
        """True if the unit has reached its limit of documents or bytes."""
        unit = self.unit
        return unit is not None and (self._bytes > MAX_BATCH_BYTES or len(unit.batch.changes[_RECORDS]) >= MOST_RECORDS)

    def commit(self) -> OpTime | None:
        """Commit the pending writes; return the optime of the last entry. Errors: those of `WriteUnitOfWork.commit`."""
        unit, self.unit = self.unit, None
        return None if unit is None else unit.commit()

    def give_up(self) -> bool:
        """Abort the pending writes and disable sharing for the rest of the command.

        Return False if nothing was pending.
        """
        unit, self.unit = self.unit, None
        if unit is None:
            return False
        unit.abort()
        self.allowed = False
        return True
