"""The recipient's side of migrations, as pure decisions: events in, effects out (`recipient_messages`).

A shard receives one migration at a time. It serves the donor's requests; the donor alone decides.

    CLEARING    waiting for earlier deletions that overlap, then reading the owner
    PERSISTING  the collection, its indexes and then the pending range deletion are being written (majority)
    SWEEPING    leftovers in the range are being deleted
    RECEIVING   batches and changes are taken, in the donor's numbering
    SECURING    everything received is becoming majority-committed
    SECURED     it is: the donor may commit
    ENDED       it failed or the donor fell silent: all is refused, and the range deletion stays pending until resolved

For a database PERSISTING and SWEEPING are left out: the donor sends the definitions of collections among the
documents. Before any document of a collection, a durable note says that it is to be dropped if the migration fails.

Invariants:

- the pending deletion is majority-committed before the first document is deleted or taken, so it survives any
  failure;
- batches are stored once each, in order and one at a time. A repeated number is acknowledged, once it is stored, and
  ignored; a skipped one fails;
- a clone batch is acknowledged when its storing begins, so that the next one is on its way meanwhile. Any other is
  acknowledged once it and all before it are stored. If an acknowledged one cannot be stored, the next request is
  refused;
- SECURED is left only by the donor's decision or by its silence; nothing is taken in it;
- a decision is majority-committed before it is acknowledged to the donor;
- a migration that was decided does not begin again.

Except for the range deletion, all state is in the memory of one primary. After a crash or failover a new core refuses
the donor's requests. The donor then aborts and tells the decision to the current primary: `Resolve` needs only the
document.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from bson.binary import Binary

from docstore.errors import Code, CommandError
from docstore.sharding.migration import (
    AnyMigration,
    DatabaseMigration,
    Decision,
    Deletion,
    RangeDeletion,
    conflict_with,
)
from docstore.sharding.recipient_batches import is_answered_ahead, work_of
from docstore.sharding.recipient_messages import (
    AwaitDeletions,
    AwaitMajority,
    Batch,
    BuildIndexes,
    CheckCollection,
    Commit,
    DatabaseRead,
    Done,
    Event,
    Failed,
    ForgetRouting,
    GetStatus,
    HoldColumnFamily,
    Interrupted,
    LogDecision,
    Logged,
    MajorityFailed,
    MajorityReached,
    MakeCollection,
    Outcome,
    PersistDeletion,
    PersistResolution,
    ReadRouting,
    Reply,
    Request,
    Resolve,
    RoutingRead,
    Start,
    StopWork,
    SweepRange,
    TakeChanges,
    TakeCollections,
    TakeDocuments,
    TakeStatements,
    WakeDeleter,
)
from docstore.sharding.recipient_state import PREPARING, Effects, Incoming, State

SILENCE_SECONDS = 90.0
"""A donor that says nothing for so long has gone; its successor starts a new migration."""
DECIDED_REMEMBERED = 256
NEVER = float("inf")


class Recipient:
    """The receiving side of a shard's primary."""

    def __init__(self) -> None:
        self._incoming: Incoming | None = None
        self._decided: deque[bytes] = deque(maxlen=DECIDED_REMEMBERED)
        self._resolving: dict[int, tuple[Resolve, AnyMigration | None]] = {}
        """Decisions being written, by token, each with the migration if it ran here."""

    @property
    def running(self) -> AnyMigration | None:
        """Return the migration being received, during which no other may begin here; None if there is none."""
        incoming = self._incoming
        return None if incoming is None or incoming.state is State.ENDED else incoming.migration

    def receive(self, event: Event, now: float) -> Effects:
        """Return the effects of an event. Ends of work that has been stopped are ignored."""
        out = self.tick(now)
        match event:
            case Start():
                self._start(event, now, out)
            case Resolve():
                self._resolve(event, out)
            case MajorityReached() | MajorityFailed() | Logged():
                self._settle(event, now, out)
            case Interrupted():
                self._interrupt(event.reason, out)
            case GetStatus() | TakeDocuments() | TakeChanges() | TakeStatements() | TakeCollections() | Commit():
                self._ask(event, now, out)
            case _:
                self._go_on(event, now, out)
        return out

    def tick(self, now: float) -> Effects:
        """Handle timeouts: give up on a silent donor, answer requests that have waited long enough."""
        out: Effects = []
        incoming = self._incoming
        if incoming is None or incoming.state is State.ENDED:
            return out
        if now >= incoming.heard + SILENCE_SECONDS:
            self._end(incoming, "the donor went silent", out)
        for token in [token for token, until in incoming.watching.items() if now >= until]:
            del incoming.watching[token]
            out.append(Reply(token, incoming.status))
        return out

    def next_wakeup(self) -> float:
        """Return the latest time for the next `tick`; infinity for never."""
        incoming = self._incoming
        if incoming is None or incoming.state is State.ENDED:
            return NEVER
        return min(incoming.heard + SILENCE_SECONDS, *incoming.watching.values(), NEVER)

    def check(self) -> None:
        """Assert the invariants of the state."""
        incoming = self._incoming
        if incoming is None:
            return
        assert incoming.admitted - incoming.stored == len(incoming.batches), "batches are stored in order"
        assert not incoming.batches or incoming.state is State.RECEIVING, "nothing is stored out of its time"
        assert (incoming.work is not None) == (incoming.state in PREPARING or bool(incoming.batches))
        assert not incoming.securing or incoming.state in (State.SECURING, State.SECURED)
        assert not incoming.watching or incoming.state in PREPARING
        assert not incoming.reason or incoming.state is State.ENDED

    # Beginning and ending

    def _start(self, event: Start, now: float, out: Effects) -> None:
        incoming = self._incoming
        if incoming is not None and incoming.id == bytes(event.migration.id):
            out.append(Reply(event.token, incoming.status))
            return
        refusal = self._refusal_to_start(event)
        if refusal is not None:
            out.append(Reply(event.token, refusal))
            return
        incoming = self._incoming = Incoming(event.migration, event.definition, now)
        incoming.begin(AwaitDeletions(event.migration), out)
        out.append(Reply(event.token, incoming.status))

    def _refusal_to_start(self, event: Start) -> CommandError | None:
        migration = event.migration
        if bytes(migration.id) in self._decided:
            return CommandError(Code.OperationFailed, "this migration was decided already")
        if migration.recipient != event.shard:
            return CommandError(
                Code.ConflictingOperationInProgress, f"this is {event.shard}, not {migration.recipient}"
            )
        return event.conflict if self.running is None else conflict_with(self.running)

    def _end(self, incoming: Incoming, reason: str, out: Effects) -> None:
        """End the migration: refuse waiting requests now, and the donor with its next one."""
        if incoming.work is not None and incoming.batches and is_answered_ahead(incoming.batches[0]):
            incoming.batches.popleft()
        incoming.state, incoming.reason, incoming.work = State.ENDED, reason, None
        out.append(StopWork())
        batches = [batch.token for batch in (*incoming.batches, *incoming.repeated)]
        out += [Reply(token, incoming.refusal()) for token in (*batches, *incoming.acknowledging, *incoming.securing)]
        out += [Reply(token, incoming.status) for token in incoming.watching]
        incoming.admitted = incoming.stored
        for waiting in (incoming.batches, incoming.repeated, incoming.acknowledging, incoming.securing):
            waiting.clear()
        incoming.watching.clear()

    def _interrupt(self, reason: str, out: Effects) -> None:
        if self.running is not None and self._incoming is not None:
            self._end(self._incoming, reason, out)
        self._incoming = None
        for token in self._resolving:
            out.append(Reply(token, CommandError(Code.InterruptedDueToReplStateChange, reason)))
        self._resolving.clear()

    # Preparation

    def _go_on(self, event: Outcome, now: float, out: Effects) -> None:
        incoming = self._incoming
        if incoming is None or event.work is not incoming.work:
            return
        incoming.heard, incoming.work = now, None
        match event:
            case Failed(_, error):
                if incoming.batches and not is_answered_ahead(batch := incoming.batches.popleft()):
                    out.append(Reply(batch.token, error))
                self._end(incoming, error.message, out)
            case RoutingRead():
                self._judge_routing(incoming, event, out)
            case DatabaseRead():
                self._judge_database(incoming, event, out)
            case Done(AwaitDeletions()):
                incoming.begin(ReadRouting(incoming.migration), out)
            case Done(MakeCollection() | HoldColumnFamily() | CheckCollection()):
                incoming.begin(BuildIndexes(*incoming.chunk), out)
            case Done(BuildIndexes()):
                incoming.begin(PersistDeletion(RangeDeletion.of(incoming.chunk[0], pending=True, delayed=False)), out)
            case Done(PersistDeletion()):
                incoming.state = State.SWEEPING
                incoming.begin(SweepRange(incoming.chunk[0]), out)
            case Done(SweepRange()):
                incoming.be_ready(out)
            case Done():
                self._stored(incoming, out)

    def _judge_database(self, incoming: Incoming, event: DatabaseRead, out: Effects) -> None:
        migration = incoming.migration
        assert isinstance(migration, DatabaseMigration), "a database was looked up"
        same = (event.version, event.primary) == (migration.version, migration.donor)
        if not same and not event.work.anew:
            incoming.begin(ReadRouting(migration, anew=True), out)
        elif not same:
            self._end(incoming, f"{migration.namespace} is not the donor's under this version", out)
        elif not event.is_held:
            self._end(incoming, f"{migration.namespace} is not held for the move", out)
        else:
            incoming.be_ready(out)

    def _judge_routing(self, incoming: Incoming, event: RoutingRead, out: Effects) -> None:
        migration, definition = incoming.chunk
        if event.epoch != migration.epoch and not event.work.anew:
            incoming.begin(ReadRouting(migration, anew=True), out)
        elif event.epoch != migration.epoch:
            self._end(incoming, f"{migration.namespace} is not sharded under the donor's epoch", out)
        elif event.owned:
            self._end(incoming, f"{migration.range} is owned here already", out)
        else:
            incoming.state = State.PERSISTING
            if definition.keyspace is None:
                incoming.begin(MakeCollection(migration, definition), out)
            elif event.primary == migration.recipient:
                incoming.begin(CheckCollection(migration), out)
            else:
                incoming.begin(HoldColumnFamily(migration, definition), out)

    # Requests of the donor during a migration

    def _ask(self, event: Request, now: float, out: Effects) -> None:
        incoming = self._incoming
        if incoming is None or incoming.id != event.id:
            out.append(Reply(event.token, CommandError(Code.OperationFailed, "no such migration runs here")))
            return
        incoming.heard = now
        match event:
            case GetStatus():
                if event.seconds > 0 and incoming.state in PREPARING:
                    incoming.watching[event.token] = now + event.seconds
                else:
                    out.append(Reply(event.token, incoming.status))
            case Commit():
                self._secure(incoming, event, out)
            case _:
                self._take(incoming, event, out)

    def _take(self, incoming: Incoming, batch: Batch, out: Effects) -> None:
        next_number = incoming.admitted + 1
        if incoming.state is State.RECEIVING and batch.number > next_number:
            self._end(incoming, f"batch {batch.number} came before batch {next_number}", out)
        if incoming.state is State.RECEIVING and isinstance(batch, TakeCollections):
            incoming.collections |= {definition.namespace: definition for definition in batch.definitions}
        elif incoming.state is State.RECEIVING and incoming.is_unknown(batch):
            self._end(incoming, f"batch {batch.number} is of a collection that was not told of", out)
        if incoming.state is not State.RECEIVING:
            out.append(Reply(batch.token, incoming.refusal()))
        elif batch.number <= incoming.stored:
            self._acknowledge(incoming, batch, out)
        elif batch.number < next_number:
            incoming.repeated.append(batch)
        else:
            incoming.admitted = next_number
            incoming.batches.append(batch)
            if incoming.work is None:
                self._store(incoming, batch, out)

    def _store(self, incoming: Incoming, batch: Batch, out: Effects) -> None:
        incoming.begin(work_of(batch, incoming.migration, incoming.definition, incoming.collections), out)
        if is_answered_ahead(batch):
            out.append(Reply(batch.token))

    def _stored(self, incoming: Incoming, out: Effects) -> None:
        incoming.stored += 1
        if not is_answered_ahead(batch := incoming.batches.popleft()):
            self._acknowledge(incoming, batch, out)
        for batch in [batch for batch in incoming.repeated if batch.number <= incoming.stored]:
            incoming.repeated.remove(batch)
            self._acknowledge(incoming, batch, out)
        if incoming.batches:
            self._store(incoming, incoming.batches[0], out)

    def _acknowledge(self, incoming: Incoming, batch: Batch, out: Effects) -> None:
        if batch.majority:
            incoming.acknowledging.add(batch.token)
            out.append(AwaitMajority(batch.token))
        else:
            out.append(Reply(batch.token))

    def _secure(self, incoming: Incoming, event: Commit, out: Effects) -> None:
        if incoming.state is State.RECEIVING and event.last != incoming.stored:
            self._end(incoming, f"batch {incoming.stored} is the last received, not {event.last}", out)
        if incoming.state is State.SECURED:
            out.append(Reply(event.token))
        elif incoming.state in (State.RECEIVING, State.SECURING):
            incoming.state = State.SECURING
            incoming.securing.add(event.token)
            out.append(AwaitMajority(event.token))
        else:
            out.append(Reply(event.token, incoming.refusal()))

    # The decision

    def _resolve(self, event: Resolve, out: Effects) -> None:
        """Resolve the migration. Idempotent."""
        self._decided.append(event.id)
        incoming, ended = self._incoming, None
        if incoming is not None and incoming.id == event.id:
            ended = incoming.migration
            if incoming.state is not State.ENDED:
                self._end(incoming, event.decision.value, out)
            self._incoming = None
        self._resolving[event.token] = (event, ended)
        change: Deletion | Binary | None = None
        if event.deletion is not None and event.decision is Decision.ABORTED:
            change = replace(event.deletion, pending=False, delayed=False)
        elif event.deletion is not None:
            change = event.deletion.id
        out.append(PersistResolution(event.token, change))

    def _settle(self, event: MajorityReached | MajorityFailed | Logged, now: float, out: Effects) -> None:
        if event.token in self._resolving:
            self._resolved(event, out)
            return
        incoming = self._incoming
        if incoming is None or event.token not in incoming.acknowledging | incoming.securing:
            return
        assert not isinstance(event, Logged), "only decisions are logged"
        incoming.heard = now
        if isinstance(event, MajorityReached) and event.token in incoming.securing:
            incoming.state = State.SECURED
        incoming.acknowledging.discard(event.token)
        incoming.securing.discard(event.token)
        out.append(Reply(event.token, event.error if isinstance(event, MajorityFailed) else None))

    def _resolved(self, event: MajorityReached | MajorityFailed | Logged, out: Effects) -> None:
        resolve, ended = self._resolving[event.token]
        if isinstance(event, MajorityReached):
            if resolve.decision is Decision.COMMITTED:
                out.append(ForgetRouting(resolve.namespace))
            out.append(WakeDeleter())
            if ended is not None:
                out.append(LogDecision(event.token, ended, resolve.decision))
                return
        del self._resolving[event.token]
        out.append(Reply(event.token, event.error if isinstance(event, MajorityFailed) else None))
