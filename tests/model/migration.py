"""Two shards, three chunks of one document each, and the config servers, in small scope.

Both sides of a migration are the shipping cores (`docstore.sharding.donor.Donor` and
`docstore.sharding.recipient.Recipient`); the model's own are their drivers, which carry out an effect in one step, and
what is durable. An answer may be lost, and a commit may arrive at the config servers when nobody waits for it any more.
Each shard's primary may crash once and is back at once with what was durable. Clients write at a shard that believes to
own the chunk and does not block.

Invariants, after every step: the owner of a chunk, as the config servers have it, holds the last acknowledged write; no
shard deletes what it owns; a deletion that waits for a decision has somebody who will decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from bson.binary import Binary

from docstore.errors import CommandError
from docstore.sharding import donor as giving
from docstore.sharding import recipient_messages as told
from docstore.sharding import recipient_state as receiving
from docstore.sharding.donor import CommitOutcome, Donor
from docstore.sharding.key import KeyRange
from docstore.sharding.migration import Decision, Migration, RangeDeletion, conflict_with
from docstore.sharding.recipient import Recipient
from docstore.sharding.version import Lastmod
from tests.model.exploration import Violation
from tests.unit.sharding.maps import EPOCH, KEY, at

CHUNKS = 3
SHARDS = ("one", "two")


class Move(NamedTuple):
    """The migration `number`: a chunk goes from a shard to the other, if its version is still `version`."""

    number: int
    chunk: int
    donor: int
    version: int


class Chunk(NamedTuple):
    """As the config servers have it, and the value that was acknowledged last."""

    owner: int
    version: int
    acknowledged: int


class Giving(NamedTuple):
    """What a donor's primary remembers. `waits` is the effect whose end it waits for."""

    move: Move
    state: giving.State
    decision: Decision | None
    waits: giving.Effect
    blocked: bool = False
    changed: bool = False
    batches: int = 0


class Receiving(NamedTuple):
    """What a recipient's primary remembers."""

    move: Move
    state: receiving.State
    stored: int


class Deletion(NamedTuple):
    """A range deletion of the migration `move`."""

    move: int
    pending: bool


class Shard(NamedTuple):
    """By chunk: the value that is held (None: no document), the range deletion and whether the shard takes itself for
    the owner. The rest: the coordinator document, then what a crash forgets.
    """

    held: tuple[int | None, ...]
    deletions: tuple[Deletion | None, ...]
    believes: tuple[bool, ...]
    coordinator: tuple[Move, Decision | None] | None = None
    giving: Giving | None = None
    receiving: Receiving | None = None
    crashed: bool = False


class World(NamedTuple):
    """`late`: commits that are still on their way to the config servers. `version`: the highest of any chunk."""

    chunks: tuple[Chunk, ...]
    shards: tuple[Shard, ...]
    late: frozenset[Move]
    moves: int
    writes: int
    losses: int
    version: int = 1


@dataclass(frozen=True, slots=True)
class Scope:
    moves: int = 2
    writes: int = 1
    losses: int = 1
    crashes: bool = True


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plant leaves out. `fence`: asking the config servers after a crash keeps late commits from succeeding.
    `block`: writes wait in the critical section. `durable`: a recipient's deletion is written before documents come.
    """

    fence: bool = True
    block: bool = True
    durable: bool = True


class Model:
    """The steps of a scope."""

    def __init__(self, scope: Scope, rules: Rules) -> None:
        self.scope = scope
        self.rules = rules

    def initial(self) -> World:
        """The first shard owns everything."""
        nothing: tuple[None, ...] = (None,) * CHUNKS
        shards = (
            Shard((0,) * CHUNKS, nothing, (True,) * CHUNKS, crashed=not self.scope.crashes),
            Shard(nothing, nothing, (False,) * CHUNKS, crashed=not self.scope.crashes),
        )
        chunk = Chunk(owner=0, version=1, acknowledged=0)
        return World((chunk,) * CHUNKS, shards, frozenset(), self.scope.moves, self.scope.writes, self.scope.losses)

    def canonical(self, world: World) -> World:
        """Nothing is forgotten: chunks are told apart by the moves in which they are."""
        return world

    def successors(self, world: World) -> Iterator[tuple[str, World]]:
        for story, after in self._steps(world):
            _check(after)
            yield story, after

    def _steps(self, world: World) -> Iterator[tuple[str, World]]:
        for number, shard in enumerate(world.shards):
            name = SHARDS[number]
            if shard.giving is None:
                yield from self._begin(world, number)
            else:
                yield from self._answered(world, number, shard.giving)
            for chunk in range(CHUNKS):
                deletion = shard.deletions[chunk]
                if deletion is not None and not deletion.pending:
                    yield f"{name} deletes chunk {chunk}", _deleted(world, number, chunk)
                if world.writes and shard.believes[chunk] and not self._blocks(shard, chunk):
                    yield f"a client writes to chunk {chunk} at {name}", _written(world, number, chunk)
            if not shard.crashed:
                yield f"{name} crashes", self._crashed(world, number)
        for move in world.late:
            yield f"the commit of move {move.number} arrives late", _committed(_arrived(world, move), move)

    def _blocks(self, shard: Shard, chunk: int) -> bool:
        return (
            self.rules.block and shard.giving is not None and shard.giving.blocked and shard.giving.move.chunk == chunk
        )

    def _begin(self, world: World, number: int) -> Iterator[tuple[str, World]]:
        shard = world.shards[number]
        receiving_now = shard.receiving is not None and shard.receiving.state is not receiving.State.ENDED
        if shard.coordinator is not None or receiving_now or not world.moves:
            return
        for chunk, now in enumerate(world.chunks):
            # All chunks that were never moved are alike: the first of them stands for all.
            alike = now.version == 1 and any(other.version == 1 for other in world.chunks[:chunk])
            if now.owner == number and shard.deletions[chunk] is None and not alike:
                move = Move(self.scope.moves - world.moves, chunk, number, now.version)
                (effect,) = Donor(_migration(move), 0.0).start()
                begun = shard._replace(giving=Giving(move, giving.State.STARTING, None, effect))
                after = _with(world, number, begun)._replace(moves=world.moves - 1)
                yield f"{SHARDS[number]} begins to move chunk {chunk}", after

    def _crashed(self, world: World, number: int) -> World:
        """And is back, with a new primary that goes on from what is on disk."""
        believes = tuple(chunk.owner == number for chunk in world.chunks)
        shard = world.shards[number]._replace(giving=None, receiving=None, crashed=True, believes=believes)
        if shard.coordinator is None:
            return _with(world, number, shard)
        move, decision = shard.coordinator
        effects = (donor := Donor(_migration(move), 0.0)).resume(decision)
        resumed = Giving(move, donor.state, decision, effects[-1])
        return self._carried_out(_with(world, number, shard._replace(giving=resumed)), number, effects[:-1])

    # The donor

    def _answered(self, world: World, number: int, state: Giving) -> Iterator[tuple[str, World]]:
        """Every way in which what the donor waits for may end."""
        name = f"{SHARDS[number]}: {type(state.waits).__name__}"
        after, event = self._done(world, number, state)
        yield name, self._received(after, number, event)
        if not world.losses:
            return
        lossy = world._replace(losses=world.losses - 1)
        if isinstance(state.waits, giving.CommitOnConfig):
            unknown = giving.ConfigAnswered(CommitOutcome.UNKNOWN)
            on_its_way = lossy._replace(late=lossy.late | {state.move})
            yield f"{name}, which is delayed", self._received(on_its_way, number, unknown)
            yield f"{name}, whose answer is lost", self._received(_committed(lossy, state.move), number, unknown)
        elif isinstance(state.waits, giving.ResolveRecipient):
            heard, _ = self._done(lossy, number, state)
            yield f"{name}, whose answer is lost", self._received(heard, number, giving.RecipientResolved(heard=False))
        elif state.state not in (giving.State.STARTING, *_DECIDED):
            sent, _ = self._done(lossy, number, state)
            yield f"{name}, whose answer is lost", self._received(sent, number, giving.Failed("no answer"))

    def _received(self, world: World, number: int, event: giving.Event) -> World:
        """The donor takes in an event; what follows at once is carried out, and the last effect is waited for."""
        shard = world.shards[number]
        state = shard.giving
        assert state is not None
        donor = Donor(_migration(state.move), 0.0)
        donor.state, donor.decision = state.state, state.decision
        effects = donor.receive(event, 0.0)
        if donor.state is giving.State.DONE:
            return _with(world, number, shard._replace(giving=None))
        went_on = state._replace(state=donor.state, decision=donor.decision, waits=effects[-1])
        return self._carried_out(_with(world, number, shard._replace(giving=went_on)), number, effects[:-1])

    def _carried_out(self, world: World, number: int, effects: list[giving.Effect]) -> World:
        for effect in effects:
            shard = world.shards[number]
            state = shard.giving
            assert state is not None
            match effect:
                case giving.BlockWrites() | giving.BlockReads():
                    state = state._replace(blocked=True)
                case giving.StartCapture():
                    state = state._replace(changed=False)
                case giving.Unblock():
                    state = state._replace(blocked=False)
                    shard = shard._replace(believes=tuple(chunk.owner == number for chunk in world.chunks))
                case _:
                    pass
            world = _with(world, number, shard._replace(giving=state))
        return world

    def _done(self, world: World, number: int, state: Giving) -> tuple[World, giving.Event]:
        """What the donor waits for happens."""
        shard, move = world.shards[number], state.move
        match state.waits:
            case giving.PersistStart():
                deletions = _set(shard.deletions, move.chunk, Deletion(move.number, pending=True))
                stored = shard._replace(coordinator=(move, None), deletions=deletions)
                return _with(world, number, stored), giving.Persisted()
            case giving.PersistDecision(decision):
                return _with(world, number, shard._replace(coordinator=(move, decision))), giving.Persisted()
            case giving.Forget(decision):
                left = Deletion(move.number, pending=False) if decision is Decision.COMMITTED else None
                forgotten = shard._replace(coordinator=None, deletions=_set(shard.deletions, move.chunk, left))
                return _with(world, number, forgotten), giving.Forgotten()
            case giving.PersistBlock():
                return world, giving.Persisted()
            case giving.CommitOnConfig():
                return _asked(_committed(world, move), move)
            case giving.AskConfig():
                return _asked(_fenced(world, move) if self.rules.fence else world, move)
            case _:
                return self._sent(world, number, state)

    def _sent(self, world: World, number: int, state: Giving) -> tuple[World, giving.Event]:
        """A message to the recipient, and its answer."""
        shard, move = world.shards[number], state.move
        migration, id_ = _migration(move), bytes(_migration(move).id)
        match state.waits:
            case giving.StartRecipient():
                other = world.shards[1 - number]
                busy = other.coordinator is not None or other.giving is not None
                start = told.Start(
                    token=1,
                    migration=migration,
                    definition=told.Definition(b""),
                    shard=SHARDS[1 - number],
                    conflict=conflict_with(migration) if busy else None,
                )
                after, refused = self._tell(world, move, start)
                standing = after.shards[1 - number].receiving
                progress = receiving.State.ENDED if standing is None else standing.state
                event: giving.Event = giving.RecipientPrepares(progress)
            case giving.SendClone() | giving.SendChanges():
                clone = isinstance(state.waits, giving.SendClone)
                documents = [b"%d" % (shard.held[move.chunk] or 0)]
                batch = told.TakeDocuments(token=1, id=id_, number=state.batches + 1, documents=documents, clone=clone)
                sent = state._replace(batches=state.batches + 1, changed=False)
                after, refused = self._tell(_with(world, number, shard._replace(giving=sent)), move, batch)
                event = giving.CloneSent(exhausted=True) if clone else giving.ChangesSent(0)
            case giving.CommitRecipient():
                after, refused = self._tell(world, move, told.Commit(token=1, id=id_, last=state.batches))
                event = giving.RecipientCommitted()
            case giving.ResolveRecipient(decision):
                found = world.shards[1 - number].deletions[move.chunk]
                mine = found is not None and found.move == move.number
                deletion = RangeDeletion.of(migration, pending=True, delayed=False) if mine else None
                resolve = told.Resolve(token=1, id=id_, namespace="t.c", decision=decision, deletion=deletion)
                after, refused = self._tell(world, move, resolve)
                event = giving.RecipientResolved(heard=not refused)
                refused = False
            case _:
                raise AssertionError(state.waits)
        return after, giving.Failed("refused") if refused else event

    # The recipient

    def _tell(self, world: World, move: Move, event: told.Event) -> tuple[World, bool]:
        """The recipient's core takes in a request and all that follows is done. Whether it was refused."""
        number = 1 - move.donor
        recipient = _recipient(world.shards[number].receiving)
        refused = False
        waiting = recipient.receive(event, 0.0)
        while waiting:
            effect = waiting.pop(0)
            if isinstance(effect, told.Reply):
                refused = refused or isinstance(effect.result, CommandError)
                continue
            shard, outcome = self._worked(world, number, move, effect)
            world = _with(world, number, shard)
            if outcome is not None:
                waiting += recipient.receive(outcome, 0.0)
        recipient.check()
        kept = _remembered(recipient, world.shards[number].receiving, move)
        return _with(world, number, world.shards[number]._replace(receiving=kept)), refused

    def _worked(self, world: World, number: int, move: Move, effect: told.Effect) -> tuple[Shard, told.Event | None]:
        shard, chunk = world.shards[number], move.chunk
        match effect:
            case told.ReadRouting():
                owned = world.chunks[chunk].owner == number
                return shard, told.RoutingRead(effect, EPOCH, SHARDS[0], owned)
            case told.AwaitDeletions() if shard.deletions[chunk] is not None:
                return shard, told.Failed(effect, CommandError(9, "an earlier deletion waits"))
            case told.PersistDeletion() if self.rules.durable:
                return shard._replace(
                    deletions=_set(shard.deletions, chunk, Deletion(move.number, pending=True))
                ), told.Done(effect)
            case told.SweepRange():
                return shard._replace(held=_set(shard.held, chunk, None)), told.Done(effect)
            case told.InsertDocuments(_, documents) | told.ReplaceDocuments(_, documents):
                return shard._replace(held=_set(shard.held, chunk, int(documents[0]))), told.Done(effect)
            case told.PersistResolution(token, change):
                left = Deletion(move.number, pending=False) if isinstance(change, RangeDeletion) else None
                deletions = shard.deletions if change is None else _set(shard.deletions, chunk, left)
                return shard._replace(deletions=deletions), told.MajorityReached(token)
            case told.ForgetRouting():
                believes = tuple(each.owner == number for each in world.chunks)
                return shard._replace(believes=believes), None
            case told.AwaitMajority(token):
                return shard, told.MajorityReached(token)
            case told.LogDecision(token):
                return shard, told.Logged(token)
            case told.AwaitDeletions() | told.MakeCollection() | told.BuildIndexes() | told.PersistDeletion():
                return shard, told.Done(effect)
            case _:
                return shard, None


_DECIDED = (
    giving.State.COMMITTING, giving.State.RECOVERING, giving.State.DECIDING, giving.State.RESOLVING,
    giving.State.FORGETTING,
)  # fmt: skip


@cache
def _migration(move: Move) -> Migration:
    return Migration(
        id=Binary.from_uuid(UUID(int=move.number + 1)),
        namespace="t.c",
        uuid=Binary.from_uuid(UUID(int=99)),
        epoch=EPOCH,
        key=KEY,
        range=KeyRange(at(move.chunk), at(move.chunk + 1)),
        lastmod=Lastmod(move.version, 0),
        donor=SHARDS[move.donor],
        recipient=SHARDS[1 - move.donor],
    )


def _recipient(remembered: Receiving | None) -> Recipient:
    """A core that is where another one was. Between two requests nothing of it is under way."""
    recipient = Recipient()
    if remembered is not None:
        move, state, stored = remembered
        recipient._incoming = receiving.Incoming(
            _migration(move), told.Definition(b""), 0.0, state=state, admitted=stored, stored=stored
        )
        recipient._incoming.reason = "ended" if state is receiving.State.ENDED else ""
    return recipient


def _remembered(recipient: Recipient, before: Receiving | None, move: Move) -> Receiving | None:
    incoming = recipient._incoming
    if incoming is None:
        return None
    of = move if incoming.migration is _migration(move) or before is None else before.move
    return Receiving(of, incoming.state, incoming.stored)


def _set(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])


def _with(world: World, number: int, shard: Shard) -> World:
    return world._replace(shards=_set(world.shards, number, shard))


def _written(world: World, number: int, chunk: int) -> World:
    shard = world.shards[number]
    value = world.chunks[chunk].acknowledged + 1
    if shard.giving is not None and shard.giving.move.chunk == chunk:
        shard = shard._replace(giving=shard.giving._replace(changed=True))
    chunks = _set(world.chunks, chunk, world.chunks[chunk]._replace(acknowledged=value))
    after = _with(world, number, shard._replace(held=_set(shard.held, chunk, value)))
    return after._replace(chunks=chunks, writes=world.writes - 1)


def _deleted(world: World, number: int, chunk: int) -> World:
    if world.chunks[chunk].owner == number:
        raise Violation(f"{SHARDS[number]} deletes chunk {chunk}, which it owns")
    shard = world.shards[number]
    return _with(
        world,
        number,
        shard._replace(held=_set(shard.held, chunk, None), deletions=_set(shard.deletions, chunk, None)),
    )


def _arrived(world: World, move: Move) -> World:
    return world._replace(late=world.late - {move})


def _committed(world: World, move: Move) -> World:
    """The compare-and-set of the config servers: only if the chunk is as it was."""
    chunk = world.chunks[move.chunk]
    if chunk.owner != move.donor or chunk.version != move.version:
        return world
    version = world.version + 1
    moved = chunk._replace(owner=1 - move.donor, version=version)
    return world._replace(chunks=_set(world.chunks, move.chunk, moved), version=version)


def _fenced(world: World, move: Move) -> World:
    """The chunk gets a new version if it has still that from before the move."""
    chunk = world.chunks[move.chunk]
    if chunk.version != move.version:
        return world
    version = world.version + 1
    return world._replace(chunks=_set(world.chunks, move.chunk, chunk._replace(version=version)), version=version)


def _asked(world: World, move: Move) -> tuple[World, giving.Event]:
    gone = world.chunks[move.chunk].owner != move.donor
    return world, giving.ConfigAnswered(CommitOutcome.DONE if gone else CommitOutcome.NOT_DONE)


def _check(world: World) -> None:
    for number, chunk in enumerate(world.chunks):
        held = world.shards[chunk.owner].held[number]
        if held != chunk.acknowledged:
            raise Violation(f"chunk {number} is owned by {SHARDS[chunk.owner]}, which holds {held}, not {chunk}")
    deciding = {shard.coordinator[0].chunk for shard in world.shards if shard.coordinator is not None} | {
        shard.giving.move.chunk for shard in world.shards if shard.giving is not None
    }
    for place, shard in enumerate(world.shards):
        for number, state in enumerate(shard.deletions):
            if state is not None and state.pending and number not in deciding:
                raise Violation(f"{SHARDS[place]} waits for ever whether to delete chunk {number}")
            if state is None and shard.held[number] is not None and world.chunks[number].owner != place:
                raise Violation(f"{SHARDS[place]} holds chunk {number} of another, and nobody will delete it")
