"""Run the statements of an update or delete command in order, each in as many slices as it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from docstore.bson import Value, get_field
from docstore.collection.catalog.views import check_no_view
from docstore.collection.collection import Collection
from docstore.collection.oplog.sessions import SessionWrite, incomplete_history
from docstore.collection.read.prepared import bound_scan_of_write
from docstore.collection.transaction.claims import WriteConflict
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.sessions.fields import Session
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.node import DataNode
from docstore.node.read.at_once import collation_of
from docstore.node.read.requests import query_context_at, under
from docstore.node.shard_filter import Hold, MustWait, post_images_of
from docstore.node.upkeep.execution import Execution
from docstore.node.write.driver import Outcome
from docstore.node.write.evaluated import Overtaken
from docstore.node.write.identity import identity_in
from docstore.node.write.joint_unit import JointUnit, Unjoined
from docstore.node.write.modification import takes_long
from docstore.node.write.validators import Validator, validator_of
from docstore.optime import OpTime
from docstore.query.context import QueryContext
from docstore.query.filter.tree import Filter
from docstore.query.filter.where import has_evaluations
from docstore.query.scripts import ScriptsWanted
from docstore.query.value.collation import Collation
from docstore.sharding.post_images import PostImages
from docstore.sharding.targeting import KeyRanges
from docstore.storage import Reader

UNIT_DOCUMENTS = 64
"""Maximum number of documents that one unit of work of a multi-document statement changes."""


@dataclass(slots=True)
class WriteTarget:
    """Target collection, options and running outcome of the statements of one command."""

    node: DataNode
    namespace: str
    outcome: Outcome
    session: Session | None = None
    session_write: SessionWrite | None = None
    let: bytes | None = None
    sent_time: bytes | None = None
    """Time of the statements that a router has sent (`docstore.node.read.statement_time`); None: now."""
    bypass_validation: bool = False
    shard_version: bytes | None = None
    within: KeyRanges | None = None
    """Shard key ranges that a multi-document statement covers; None: all that the shard owns."""
    can_pause: bool = False
    """True if the statement runs where other tasks may be served in the middle of a step."""
    weight: Callable[[bytes], int] | None = None
    """Number of documents that one stored document counts for in the outcome; None: one."""
    joint: JointUnit | None = None
    """Unit of work that the statements share; None: each statement commits its own."""
    execution: Execution | None = None
    """Receives the plans of the statements."""
    _query_context: QueryContext | None = None

    def query_context(self, collation: bytes | None = None) -> QueryContext:
        """Return the query context (`let`, collation, time) of a statement.

        Errors: those of `let` and of the collation.
        """
        if self._query_context is None:
            self._query_context = query_context_at(self.node, self.let, self.sent_time)
        return under(self._query_context, self.node, self.namespace, collation)

    @property
    def collation(self) -> Collation | None:
        """The collection's default collation."""
        collection = self.node.store.collection(self.namespace)
        return None if collection is None else collection.collation

    def collection(self) -> Collection | None:
        """Return the collection, or None if it does not exist. Errors: CommandNotSupportedOnView."""
        store = self.node.store
        collection = store.collection(self.namespace)
        if collection is None:
            check_no_view(store, self.namespace)
        return collection

    def validator(self, collection: Collection) -> Validator | None:
        """Return the validator that this command's documents must pass, or None."""
        return validator_of(self.node, collection, bypass=self.bypass_validation)

    def post_images(self) -> PostImages | None:
        """Return the shard key rules for post-images, as of the step that was entered; None if unsharded."""
        return post_images_of(self.node.shard_filter, self.namespace, self.shard_version)

    def hold(self, tree: Filter, *, multi: bool) -> Hold | None:
        """Return a hold on the owned ranges of a statement that spans steps; else None.

        Such are multi-document statements and those whose search waits for scripts or expressions. Requests without a
        shard version need none.
        Call it in the step that was entered. Errors: MustWait.
        """
        if self.node.shard_filter is None or self.shard_version is None or not (multi or has_evaluations(tree)):
            return None
        return self.node.shard_filter.hold(self.namespace, self.within)

    def check_new(self, made: bytes) -> None:
        """Raise if the shard may not insert this upserted document. Errors: those of the shard key."""
        rules = self.post_images()
        if rules is not None:
            rules.check_new(made, in_session=self.in_session)

    @property
    def in_session(self) -> bool:
        """True if the statement is a retryable write or part of a transaction: only these may change a shard key."""
        return self.session_write is not None or (self.session is not None and self.session.transaction is not None)

    def counted(self, documents: Sequence[bytes]) -> int:
        """Return how many documents these count for in the outcome."""
        return len(documents) if self.weight is None else sum(map(self.weight, documents))

    def is_plain(self, multi: bool) -> bool:
        """True if a statement has no `let`, covers all owned documents and needs no hold."""
        needs_hold = multi and self.node.shard_filter is not None
        return self.let is None and self.within is None and not needs_hold

    def matches_at_once(
        self, filter_: bytes, owned: Predicate | None, *, multi: bool, collation: bytes | None = None
    ) -> tuple[Collection | None, list[tuple[int, bytes]] | None]:
        """Return (collection, matches) by a prepared scan.

        The matches are (record id, document), one at most unless `multi`. Both are None if there is no prepared scan,
        or if changing the matches takes more than one step. `collation`: the statement's.
        """
        if self.execution is not None and self.execution.exact:
            return None, None
        collection = self.node.store.collection(self.namespace)
        if collection is None or identity_in(filter_) is not None:
            return None, None
        is_valid, rules = collation_of(collection, collation)
        reader = self.reader
        bound = bound_scan_of_write(collection, filter_, reader, collation=rules) if is_valid else None
        matches = None if bound is None else bound.pairs(reader, UNIT_DOCUMENTS + 1 if multi else 1, owned)
        if bound is None or matches is None or len(matches) > UNIT_DOCUMENTS:
            return None, None
        if takes_long(collection, matches):
            return None, None
        bound.used()
        return collection, matches

    def look_up(self, collection: Collection, identity: Value, owned: Predicate | None) -> tuple[int, bytes] | None:
        """Return the (record id, document) with this `_id`, or None if there is none that is owned."""
        match = collection.look_up(self.reader, identity)
        if match is not None and owned is not None and not owned.matches(match[1]):
            match = None
        if self.execution is not None:
            self.execution.lookup(identity, exists=match is not None)
        return match

    @property
    def reader(self) -> Reader:
        """Reader that sees the writes of the statements so far, committed or not."""
        waiting = None if self.joint is None else self.joint.unit
        return self.node.engine if waiting is None else waiting

    def read_past(self) -> None:
        """Require an empty joint unit; call before reading without `reader` or writing to another unit.

        Errors: Unjoined.
        """
        if self.joint is not None and self.joint.unit is not None:
            raise Unjoined

    def unit(self) -> WriteUnitOfWork:
        self.read_past()
        return self.node.store.unit(session=self.session_write)

    def joined(self, collection: Collection, size: int) -> WriteUnitOfWork:
        """Return the unit for a statement of one step that reads only by `reader` and writes `size` bytes of documents.

        Errors: Unjoined.
        """
        joint = None if self.joint is None else self.joint.begin(collection, size)
        return self.unit() if joint is None else joint

    def go_apart(self) -> None:
        """Raise Overtaken if the statement can be offloaded; call before a change that may take long.

        The statement then continues where other tasks may run meanwhile.
        """
        if self.can_pause:
            self.outcome.apart = True
            raise Overtaken

    def commit(self, unit: WriteUnitOfWork) -> None:
        """Commit the unit and remember its optime; a joint unit is committed later, by `StatementLoop`."""
        if self.joint is None or unit is not self.joint.unit:
            self.outcome.last = unit.commit() or self.outcome.last

    def drop(self, unit: WriteUnitOfWork) -> None:
        """Abort the unit of a statement that has written nothing; a joint unit stays open."""
        if self.joint is None or unit is not self.joint.unit:
            unit.abort()

    def statement_id(self, index: int) -> int | None:
        """Return the statement's id, or None if the write is not retryable."""
        if self.session_write is None or self.session is None:
            return None
        return self.session.statement_id(index)

    def executed(self, stmt_id: int | None) -> OpTime | None:
        """Return the optime at which an earlier attempt executed the statement, or None."""
        if stmt_id is None or self.session_write is None:
            return None
        row = self.session_write
        return self.node.store.sessions.statement(row.lsid, row.txn_number, stmt_id)

    def entry(self, optime: OpTime) -> bytes:
        """Return the oplog entry of an executed statement. Errors: IncompleteTransactionHistory if it was truncated."""
        row, oplog = self.session_write, self.node.store.oplog
        assert row is not None, "only a retryable write has statements"
        assert oplog is not None, "statements are remembered with an oplog only"
        entry = oplog.entry(optime.timestamp)
        if entry is None:
            raise incomplete_history(row.lsid, row.txn_number)
        return entry


def entry_operation(entry: bytes) -> str:
    """Return the `op` of an oplog entry."""
    value = get_field(entry, "op")
    assert value is not None, "an oplog entry without op"
    return value[1][4:-1].decode()


class Work(Protocol):
    """A statement in execution, or a group executed together.

    `statements` is their number once a step has finished them.
    """

    statements: int

    def step(self, owned: Predicate | None, until: float) -> bool:
        """Work until `until`, at least one unit of progress; return True when the statement is done.

        Errors: Overtaken; Unjoined, with nothing done.
        """

    def outlives(self) -> bool:
        """Return True if the statement may continue although its shard version has become stale."""

    def pause(self) -> None:
        """Prepare for other tasks to run before the next step."""

    def close(self) -> None:
        """Release the search and the hold."""

    def cut_short(self, error: CommandError) -> CommandError:
        """Return the error to report when `error` ends the statement early."""


class StatementLoop:
    """Runs the statements of one command; `make(index)` begins one.

    Implements `docstore.node.write.driver.Statements`. The joint unit is committed before a slice ends. A statement
    that conflicts with a transaction waits for its end. `counted`: the outcome lists, per statement in order, the
    documents matched and modified.
    """

    def __init__(
        self, outcome: Outcome, make: Callable[[int], Work], count: int, *, ordered: bool, clock: Callable[[], float],
        counted: bool = False, joint: JointUnit | None = None,
    ) -> None:  # fmt: skip
        self.outcome = outcome
        self._joint = joint
        self._mark = (0, outcome.mark())
        self.can_wait = True
        self._make = make
        self._count = count
        self._ordered = ordered
        self._clock = clock
        self._at = 0
        self._running: Work | None = None
        self._stale: CommandError | None = None
        self._before = self._modified_before = 0
        if counted:
            outcome.counts, outcome.modified_counts = [], []

    def advance(self, owned: Predicate | None, until: float) -> bool:
        try:
            return self._advance(owned, until)
        except MustWait:
            self._commit()
            raise
        finally:
            if self._joint is not None:
                # Still open only if something other than a statement has failed.
                self._joint.give_up()

    def _advance(self, owned: Predicate | None, until: float) -> bool:
        while self._at < self._count:
            if self._running is None and self._stale is not None:
                self.fail_rest(self._stale)
                break
            if self._running is None and (self._joint is None or self._joint.unit is None):
                self._mark = (self._at, self.outcome.mark())
            try:
                if self._running is None:
                    self._before, self._modified_before = self.outcome.n, self.outcome.modified or 0
                    self._running = self._make(self._at)
                if self._running.step(owned, until):
                    self._end(self._running.statements)
            except WriteConflict:
                # The statement continues when the conflicting transaction has ended.
                if not self._go_back():
                    self._pause()
                raise
            except CommandError as error:
                if not self._go_back():
                    self._fail(error)
            except Unjoined:
                self._commit()
            except Overtaken:
                return self._pause()
            except ScriptsWanted:
                # An evaluation has held the loop: it continues where other tasks may run meanwhile.
                self._go_back()
                self.outcome.apart = True
                return self._pause()
            if self._joint is not None and self._joint.is_full:
                self._commit()
            if self._at < self._count and self._clock() >= until:
                return self._pause()
        self._commit()
        return True

    def _pause(self) -> bool:
        """Prepare for other tasks to run; return False (not done)."""
        self._commit()
        if self._running is not None:
            self._running.pause()
        return False

    def _commit(self) -> None:
        """Commit the joint unit; if the commit is refused, its statements fail."""
        if self._joint is None or self._joint.unit is None:
            return
        try:
            self.outcome.last = self._joint.commit() or self.outcome.last
        except CommandError as error:
            end = self._at
            self._return_to_mark()
            while self._at < end:
                self._fail(error)

    def _go_back(self) -> bool:
        """Abort the joint unit and rerun its statements one at a time; return False if no unit is open."""
        if self._joint is None or not self._joint.give_up():
            return False
        self._return_to_mark()
        return True

    def _return_to_mark(self) -> None:
        self.close()
        self._at, mark = self._mark
        self.outcome.return_to(mark)
        self._before, self._modified_before = self.outcome.n, self.outcome.modified or 0

    def outlives(self, error: CommandError) -> bool:
        if self._running is None or not self._running.outlives():
            return False
        self._stale = error
        return True

    def fail_rest(self, error: CommandError) -> None:
        if self._running is not None:
            self._fail(self._running.cut_short(error))
        while self._at < self._count:
            self._fail(error)

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None

    def _end(self, statements: int = 1) -> None:
        """Finish the running statement or group; a group has reported its own counts."""
        self.close()
        self._at += statements
        outcome = self.outcome
        if statements > 1:
            return
        if outcome.counts is not None and outcome.modified_counts is not None:
            outcome.counts.append(outcome.n - self._before)
            outcome.modified_counts.append((outcome.modified or 0) - self._modified_before)

    def _fail(self, error: CommandError) -> None:
        self.outcome.fail(self._at, error)
        self._end()
        if self._ordered:
            self._at = self._count
