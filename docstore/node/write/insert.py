"""Insert statements: documents are prepared, and runs of them are written in one unit of work.

* A unit is bounded in documents and bytes, because its commit must not hold the loop for long.
* A refused document leaves the unit unchanged.
* The keys of a large document are computed before its unit begins (`KeysAhead`). Other tasks may run meanwhile, so the
  write enters again afterwards.
"""

from __future__ import annotations

from functools import partial

from bson.objectid import ObjectId

from docstore.bson import is_storable
from docstore.collection.catalog.options import CollectionOptions
from docstore.collection.collection import Collection
from docstore.collection.index.ahead import KeysAhead, keys_take_long
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import CommandError
from docstore.js.script_thread import current
from docstore.kernel.match.predicate import Predicate
from docstore.node.ddl.catalog_changes import make_collection
from docstore.node.shard_filter import post_images_of
from docstore.node.write.documents import prepare
from docstore.node.write.statement_loop import WriteTarget
from docstore.node.write.validators import Validator, validator_of
from docstore.query.pausing import OVERTAKEN, allowing
from docstore.query.scripts import ScriptsWanted
from docstore.sharding.post_images import PostImages

UNIT_DOCUMENTS = 500
UNIT_BYTES = 1024 * 1024
_CLOCK_EVERY = 64


class Inserts:
    """The documents of one insert command, in progress; creates the collection if it does not exist."""

    def __init__(
        self, target: WriteTarget, documents: list[bytes], *, ordered: bool, from_migrate: bool = False
    ) -> None:
        self.outcome = target.outcome
        self.can_wait = True
        self._node = target.node
        self._namespace = target.namespace
        self._documents = documents
        self._ordered = ordered
        self._session = target.session
        self._session_write = target.session_write
        self._from_migrate = from_migrate
        self._bypass = target.bypass_validation
        self._validator: Validator | None = None
        self._shard_version = target.shard_version
        self._rules: PostImages | None = None
        self._at = 0
        self._retried_before = 0
        self._ahead = KeysAhead()
        # Large documents in their stored form, by position.
        self._prepared: dict[int, bytes] = {}
        # What the validator in these options says of documents, by position; None: they are valid.
        self._verdicts: dict[int, tuple[CollectionOptions, CommandError | None]] = {}

    def advance(self, owned: Predicate | None, until: float) -> bool:
        del owned
        while self._at < len(self._documents):
            if not (self._keys_known() and self._verdicts_known(until)):
                break
            if not self._unit(until):
                self._at = len(self._documents)
            elif self._node.clock() >= until:
                break
        return self._at >= len(self._documents)

    def _keys_known(self) -> bool:
        """Compute the keys of the next document if that takes long.

        Return False if other tasks may have run meanwhile.
        """
        collection = self._node.store.collection(self._namespace)
        if collection is None or not keys_take_long(collection, self._documents[self._at]):
            return True
        try:
            prepared = self._made(self._at)
        except CommandError:
            # The error is raised when the document is inserted.
            return True
        self._prepared[self._at] = prepared
        if self._ahead.has(collection, prepared):
            return True
        self._ahead.calculate(collection, prepared)
        return current() is None

    def _verdicts_known(self, until: float) -> bool:
        """On a thread, validate the next documents, while other tasks may run.

        Return False if some were validated.
        """
        collection = self._node.store.collection(self._namespace)
        if collection is None or current() is None:
            return True
        validator = validator_of(self._node, collection, bypass=self._bypass)
        if validator is None:
            return True
        first = position = self._at
        end = min(first + _CLOCK_EVERY, len(self._documents))
        while position < end and self._has_verdict(collection, position):
            position += 1
        if position > first:
            return True
        while position < end and (position == first or self._node.clock() < until):
            verdict: CommandError | None = None
            try:
                self._prepared[position] = self._made(position)
                allowing(OVERTAKEN, validator.check_new, self._prepared[position])
            except CommandError as error:
                verdict = error
            self._verdicts[position] = collection.options, verdict
            position += 1
        return False

    def _awaits_verdict(self, collection: Collection) -> bool:
        """True if the next document must be validated on a thread before it is written."""
        return self._validator is not None and current() is not None and not self._has_verdict(collection, self._at)

    def _has_verdict(self, collection: Collection, position: int) -> bool:
        known = self._verdicts.get(position)
        return known is not None and known[0] == collection.options

    def _made(self, position: int) -> bytes:
        """Return a document in its stored form. Errors: those of `prepare`."""
        document = self._prepared.get(position) if self._prepared else None
        return prepare(self._documents[position], _new_id, self._node.timestamp) if document is None else document

    def outlives(self, _error: CommandError) -> bool:
        return False

    def fail_rest(self, error: CommandError) -> None:
        positions = range(self._at, self._at + 1 if self._ordered else len(self._documents))
        for index in positions:
            self.outcome.fail(index, error)

    def close(self) -> None:
        """Do nothing: no resource is held between units."""

    def _unit(self, until: float) -> bool:
        """Write one unit; return False if it ends the command with an error."""
        collection = self._collection()
        if collection is None:
            return not self._ordered
        self._validator = validator_of(self._node, collection, bypass=self._bypass)
        self._rules = post_images_of(self._node.shard_filter, self._namespace, self._shard_version)
        unit = self._node.store.unit(session=self._session_write, from_migrate=self._from_migrate)
        first = self._at
        failed, self._retried_before = len(self.outcome.errors), len(self.outcome.retried)
        remaining_bytes = UNIT_BYTES
        try:
            while True:
                stop = min(self._stop(first, collection), len(self._documents))
                remaining_bytes -= self._record_range(unit, collection, stop)
                full = remaining_bytes <= 0 or self._at - first >= UNIT_DOCUMENTS or self._at == len(self._documents)
                full = full or _begins_unit(collection, self._documents[self._at]) or self._awaits_verdict(collection)
                ends = self._ordered and len(self.outcome.errors) > failed
                if full or ends or self._node.clock() >= until:
                    break
        except (ScriptsWanted, WriteConflict):
            # The unit is repeated, on a thread or when the conflicting transaction has ended.
            unit.abort()
            self._go_back(first)
            raise
        except BaseException:
            unit.abort()
            raise
        try:
            self.outcome.last = unit.commit() or self.outcome.last
        except CommandError as error:
            # The disk is full: nothing of the unit is written.
            self._go_back(first)
            self.fail_rest(error)
            return False
        self._ahead.clear()
        for known in (self._prepared, self._verdicts):
            for position in [position for position in known if position < self._at]:
                del known[position]
        failed = len(self.outcome.errors) - failed
        self.outcome.n += self._at - first - failed
        return not (failed and self._ordered)

    def _go_back(self, first: int) -> None:
        """Undo the outcome of the unit that began with the document `first`."""
        self.outcome.errors = [error for error in self.outcome.errors if error[0] < first]
        self.outcome.retried = self.outcome.retried[: self._retried_before]
        self._at = first

    def _stop(self, first: int, collection: Collection) -> int:
        """Return the end of the next part of the unit that began with document `first`.

        It stops before a document that must begin a unit, and at the limit of documents or bytes.
        """
        stop = self._at + _CLOCK_EVERY
        if self._validator is not None and current() is not None:
            # Others are validated in a step of their own.
            stop = next((at for at in range(self._at, stop) if not self._has_verdict(collection, at)), stop)
        documents = self._documents[self._at : stop]
        if max(map(len, documents)) <= UNIT_BYTES // _CLOCK_EVERY:
            return stop
        size = 0
        for at, raw in enumerate(documents, self._at):
            if size >= UNIT_BYTES or (at > first and _begins_unit(collection, raw)):
                return at
            size += len(raw)
        return stop

    def _record_range(self, unit: WriteUnitOfWork, collection: Collection, stop: int) -> int:
        """Add the documents before `stop` to the unit, up to the first error if ordered; return their size in bytes."""
        if self._node.transaction is not None and not self._prepared and self._validator is None:
            size = self._all_at_once(collection, stop)
            if size:
                return size
        elif not self._prepared:
            size = self._each(unit, collection, stop)
            if size:
                return size
        documents, timestamp, insert = self._documents, self._node.timestamp, unit.insert
        if self._prepared:
            insert = partial(insert, index_keys=self._ahead)
        size = 0
        for position in range(self._at, stop):
            raw = documents[position]
            size += len(raw)
            try:
                if self._session_write is None and self._validator is None and self._rules is None:
                    insert(collection, self._made(position) if self._prepared else prepare(raw, _new_id, timestamp))
                elif self._session_write is None:
                    insert(collection, self._valid(position))
                else:
                    self._insert_once(unit, collection, position, self._session_write)
            except WriteConflict:
                raise
            except CommandError as error:
                self.outcome.fail(position, error)
                if self._ordered:
                    self._at = position + 1
                    return size
        self._at = stop
        return size

    def _all_at_once(self, collection: Collection, stop: int) -> int:
        """Add the documents before `stop` to the transaction in a unit of their own; return their size in bytes.

        0 if they must be added one at a time, to find the one in error.
        """
        documents, timestamp = self._documents, self._node.timestamp
        if collection.options.capped:
            return 0
        try:
            batch = documents[self._at : stop]
            if max(map(len, batch)) > MAX_DOCUMENT_BYTES or not all(map(is_storable, batch)):
                batch = [prepare(raw, _new_id, timestamp) for raw in batch]
            with self._node.store.unit() as unit:
                unit.insert_all(collection, batch)
                unit.commit()
        except WriteConflict:
            raise
        except CommandError:
            return 0
        self._at = stop
        return sum(map(len, batch))

    def _each(self, unit: WriteUnitOfWork, collection: Collection, stop: int) -> int:
        """Add the documents before `stop` to the unit in one batch; return their size in bytes.

        0 if they must be added one at a time.
        """
        timestamp, row, first = self._node.timestamp, self._session_write, self._at
        try:
            batch = self._documents[first:stop]
            if max(map(len, batch)) > MAX_DOCUMENT_BYTES or not all(map(is_storable, batch)):
                batch = [prepare(raw, _new_id, timestamp) for raw in batch]
                if self._rules is not None and any(
                    raw is not original for raw, original in zip(batch, self._documents[first:stop], strict=True)
                ):
                    # The router has not seen the added fields.
                    return 0
            if self._validator is not None and not self._validator.allows_all(batch):
                return 0
            stmt_ids = None
            if row is not None:
                assert self._session is not None, "a retryable write belongs to a session"
                stmt_ids = self._session.statement_ids(first, stop)
                if not self._node.store.sessions.none_executed(*row, stmt_ids):
                    return 0
        except CommandError:
            return 0
        if not unit.insert_each(collection, batch, stmt_ids):
            return 0
        self._at = stop
        return sum(map(len, batch))

    def _insert_once(self, unit: WriteUnitOfWork, collection: Collection, position: int, row: SessionWrite) -> None:
        """Insert the document unless an earlier attempt has executed the statement."""
        assert self._session is not None, "a retryable write belongs to a session"
        stmt_id = self._session.statement_id(position)
        if self._node.store.sessions.statement(row.lsid, row.txn_number, stmt_id) is not None:
            self.outcome.retried.append(stmt_id)
            return
        raw = self._valid(position)
        unit.insert(collection, raw, stmt_id=stmt_id, index_keys=self._ahead)

    def _valid(self, position: int) -> bytes:
        """Return the prepared document. Errors: DocumentValidationFailure, those of the shard key."""
        prepared, given = self._made(position), self._documents[position]
        known = self._verdicts.get(position)
        if self._validator is not None and known is None:
            self._validator.check_new(prepared)
        elif known is not None and known[1] is not None:
            raise known[1]
        if self._rules is not None and prepared is not given:
            # The router targeted the document as sent; a timestamp filled in here may be part of its shard key.
            self._rules.check_new(prepared, in_session=True)
        return prepared

    def _collection(self) -> Collection | None:
        """Return the collection, created in a unit of its own before the first insertable document.

        None if there is none.
        """
        store = self._node.store
        collection = store.collection(self._namespace)
        while collection is None and self._at < len(self._documents):
            try:
                prepare(self._documents[self._at], _new_id, self._node.timestamp)
                collection = make_collection(store, self._namespace)
            except WriteConflict:
                raise
            except CommandError as error:
                self.outcome.fail(self._at, error)
                self._at += 1
                if self._ordered:
                    break
        return collection


def _begins_unit(collection: Collection, raw: bytes) -> bool:
    """Return True if other tasks may run between the preceding document and this one."""
    return len(raw) > UNIT_BYTES or keys_take_long(collection, raw)


def _new_id() -> bytes:
    return ObjectId().binary
