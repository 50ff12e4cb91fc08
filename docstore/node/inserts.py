"""The statements of an insert: documents prepared and written many to a unit.

One unit holds a run of documents of the command, bounded in number and bytes: its commit must not hold the loop for
long either. A document that is refused leaves the unit as it was.
"""

from __future__ import annotations

from bson.objectid import ObjectId

from docstore.bson import Predicate
from docstore.collection.collection import Collection
from docstore.collection.sessions import SessionWrite
from docstore.collection.unit import WriteUnit
from docstore.commands.session import Session
from docstore.errors import CommandError
from docstore.node.documents import prepare
from docstore.node.node import DataNode
from docstore.node.schema import make_collection
from docstore.node.writes import Outcome

UNIT_DOCUMENTS = 500
UNIT_BYTES = 1024 * 1024
_CLOCK_EVERY = 64


class Inserts:
    """The documents of one insert command on their way into a collection, which is made when it is not there."""

    def __init__(
        self,
        node: DataNode,
        namespace: str,
        documents: list[bytes],
        *,
        ordered: bool,
        session: Session | None = None,
        session_write: SessionWrite | None = None,
        from_migrate: bool = False,
    ) -> None:
        self.outcome = Outcome()
        self._node = node
        self._namespace = namespace
        self._documents = documents
        self._ordered = ordered
        self._session = session
        self._session_write = session_write
        self._from_migrate = from_migrate
        self._at = 0

    def advance(self, owned: Predicate | None, until: float) -> bool:
        del owned
        while self._at < len(self._documents):
            if not self._unit(until):
                self._at = len(self._documents)
            elif self._node.clock() >= until:
                break
        return self._at >= len(self._documents)

    def fail_rest(self, error: CommandError) -> None:
        rest = range(self._at, self._at + 1 if self._ordered else len(self._documents))
        self.outcome.errors += [(index, error) for index in rest]

    def close(self) -> None:
        """Nothing is held between units."""

    def _unit(self, until: float) -> bool:
        """Write one unit; False when the command ends with an error in it."""
        collection = self._collection()
        if collection is None:
            return not self._ordered
        unit = self._node.store.unit(session=self._session_write, from_migrate=self._from_migrate)
        going = True
        size = 0
        first = self._at
        end = min(first + UNIT_DOCUMENTS, len(self._documents))
        inserted = 0
        try:
            while self._at < end:
                raw = self._documents[self._at]
                try:
                    inserted += self._insert(unit, collection, raw)
                except CommandError as error:
                    self.outcome.errors.append((self._at, error))
                    going = not self._ordered
                self._at += 1
                size += len(raw)
                if not going or size >= UNIT_BYTES:
                    break
                if (self._at - first) % _CLOCK_EVERY == 0 and self._node.clock() >= until:
                    break
        except BaseException:
            unit.abort()
            raise
        self.outcome.last = unit.commit() or self.outcome.last
        self.outcome.n += inserted
        return going

    def _insert(self, unit: WriteUnit, collection: Collection, raw: bytes) -> int:
        stmt_id = None
        if self._session_write is not None:
            assert self._session is not None
            stmt_id = self._session.statement_id(self._at)
            row = self._session_write
            if self._node.store.sessions.statement(row.lsid, row.txn_number, stmt_id) is not None:
                self.outcome.retried.append(stmt_id)
                return 1
        unit.insert(collection, prepare(raw, _new_id, self._node.timestamp), stmt_id=stmt_id)
        return 1

    def _collection(self) -> Collection | None:
        """The collection, made in a unit of its own before the first document that can be inserted; else None."""
        store = self._node.store
        found = store.collection(self._namespace)
        while found is None and self._at < len(self._documents):
            try:
                prepare(self._documents[self._at], _new_id, self._node.timestamp)
                found = make_collection(store, self._namespace)
            except CommandError as error:
                self.outcome.errors.append((self._at, error))
                self._at += 1
                if self._ordered:
                    break
        return found


def _new_id() -> bytes:
    return ObjectId().binary
