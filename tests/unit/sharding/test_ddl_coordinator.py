"""The coordinator of DDL against a small world: participants, the config servers, and a disk that survives crashes.

Every effect is carried out in one step. In each test the coordinator crashes once after every step there is, whether
its document was written or not, or an answer is lost; the next one goes on from the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.timestamp import Timestamp

from docstore.errors import Code, CommandError
from docstore.sharding.ddl import requests
from docstore.sharding.ddl.coordinator import (
    Answer,
    Answered,
    Ask,
    Commit,
    Coordinator,
    Done,
    Effect,
    Event,
    Find,
    Findings,
    Forget,
    HoldShards,
    NothingToDo,
    Persist,
    Refused,
    Release,
    Unreachable,
)
from docstore.sharding.ddl.incarnations import dropped, is_dropped
from docstore.sharding.ddl.operation import (
    Blocks,
    Hold,
    Kind,
    Operation,
    Phase,
    conflict,
    enter_phase,
    hold_to_take,
    let_go,
)
from docstore.sharding.ddl.plans import PLANS
from docstore.sharding.routing import Routing
from docstore.sharding.version import DatabaseVersion

SHARDS = ("a", "b", "c")
UUID = Binary(bytes(16), 4)


class World:
    """What survives: the coordinator's document, what each shard holds and has done, the catalog."""

    def __init__(self, kind: Kind, *, refuses: str = "") -> None:
        self.kind = kind
        self.shards = ("a",) if kind is Kind.SHARD_COLLECTION else SHARDS
        self.refuses = refuses
        self.document: bytes | None = None
        self.held: dict[str, set[bytes]] = {shard: set() for shard in SHARDS}
        self.done: dict[str, set[Phase]] = {shard: set() for shard in SHARDS}
        self.committed = False
        self.answers: list[Operation] = []
        self.core: Coordinator | None = None
        self.asked_unheld = 0

    def begin(self) -> list[Effect]:
        if self.document is not None:
            self.core = Coordinator(Operation.from_raw(self.document))
            return self.core.resume()
        self.core = Coordinator(Operation.create(bytes(16), self.kind, "db.c", {"uuid": UUID}))
        return self.core.start()

    def carry_out(self, effect: Effect) -> Event | None:
        assert self.core is not None
        operation = self.core.operation
        match effect:
            case Find():
                return Findings(self.shards, {"primary": "a", "uuid": UUID, "from": "a", "to": "b"})
            case Persist():
                self.document = bson.encode(operation.document())
            case HoldShards():
                for shard in operation.participants:
                    self.held[shard].add(bytes(operation.id))
            case Ask(shards=shards):
                return self.ask(operation, shards)
            case Commit():
                assert all(self.held[shard] for shard in self.shards), "the catalog changes while everyone is held"
                if self.refuses == "config" and effect.may_fail:
                    return Refused(CommandError(Code.IllegalOperation, "no"))
                self.committed = True
                return Answered({"": {}})
            case Release():
                for shard in operation.participants:
                    self.held[shard].discard(bytes(operation.id))
            case Forget():
                self.document = None
            case Answer():
                self.answers.append(operation)
                return None
        return Done()

    def ask(self, operation: Operation, shards: Any) -> Event:
        for shard in shards:
            assert bytes(operation.id) in self.held[shard], "a shard acts while it is held"
            if shard == self.refuses and operation.phase is Phase.PREPARING:
                return Refused(CommandError(Code.DuplicateKey, "no"))
            if operation.phase is Phase.UNDOING:
                self.done[shard].clear()
            else:
                self.done[shard].add(operation.phase)
        return Answered({shard: {"uuid": UUID, "indexes": ["x"]} for shard in shards})

    def run(self, crash_after: int, *, before_effect: bool) -> int:
        """Until the operation is forgotten; the number of effects."""
        steps = 0
        effects = self.begin()
        while effects:
            effect = effects.pop(0)
            steps += 1
            crashes = steps == crash_after
            event = None if crashes and before_effect else self.carry_out(effect)
            if crashes:
                if self.document is None:
                    return steps
                effects = self.begin()
                continue
            assert self.core is not None
            self.core.check()
            if event is not None:
                effects += self.core.receive(event)
        return steps


def every_crash(make: Callable[[], World], holds: Callable[[World], None]) -> None:
    steps = make().run(0, before_effect=False)
    assert steps > 5
    for crash in range(1, steps + 1):
        for before in (True, False):
            world = make()
            world.run(crash, before_effect=before)
            assert world.document is None
            assert not any(world.held.values()), "nobody is held in the end"
            holds(world)


ON_EACH = [kind for kind in Kind if kind is not Kind.MOVE_PRIMARY]


@pytest.mark.parametrize("kind", ON_EACH)
def test_an_operation_is_done_on_all_or_on_none_wherever_its_coordinator_crashes(kind: Kind) -> None:
    def holds(world: World) -> None:
        done = [world.done[shard] for shard in world.shards if kind is not Kind.COLL_MOD or shard != "a"]
        assert done[1:] == done[:-1]
        if Phase.COMMITTING in PLANS[kind].phases:
            assert world.committed == bool(world.done["a"])

    every_crash(lambda: World(kind), holds)


@pytest.mark.parametrize("shard", SHARDS)
def test_indexes_that_one_shard_refuses_are_on_none(shard: str) -> None:
    def holds(world: World) -> None:
        assert not any(world.done.values())
        assert all(answer.failure is not None for answer in world.answers)

    every_crash(lambda: World(Kind.CREATE_INDEXES, refuses=shard), holds)


def test_a_collection_that_the_config_servers_refuse_to_shard_is_let_go() -> None:
    def holds(world: World) -> None:
        assert not world.committed
        assert all(answer.failure is not None and answer.failure["code"] == 20 for answer in world.answers)

    every_crash(lambda: World(Kind.SHARD_COLLECTION, refuses="config"), holds)


@pytest.mark.parametrize("refuses", ["", "a"])
def test_a_database_is_moved_by_its_old_primary_shard_or_not_at_all_wherever_the_coordinator_crashes(
    refuses: str,
) -> None:
    def holds(world: World) -> None:
        moved = Phase.PREPARING in world.done["a"]
        assert not (refuses and moved)
        assert not world.done["b"]
        assert all((answer.failure is None) == moved for answer in world.answers)

    every_crash(lambda: World(Kind.MOVE_PRIMARY, refuses=refuses), holds)


def test_changes_of_definitions_wait_where_a_database_goes_and_not_where_it_comes() -> None:
    operation = replace(
        Operation.create(bytes(16), Kind.MOVE_PRIMARY, "db", {"to": "b"}), facts={"from": "a", "to": "b"}
    )
    assert requests.hold(operation, "a")["blocks"] == Blocks.CHANGES.value
    assert requests.hold(operation, "b")["blocks"] == Blocks.NOTHING.value


def test_what_is_so_already_is_answered_without_holding_anyone() -> None:
    core = Coordinator(Operation.create(bytes(16), Kind.DROP_COLLECTION, "db.c", {}))
    assert core.start() == [Find(may_fail=True)]
    assert core.receive(NothingToDo({"dropped": False})) == [Answer()]
    assert core.operation.result == {"dropped": False}


def test_shards_that_came_to_it_meanwhile_are_held_too() -> None:
    core = Coordinator(Operation.create(bytes(16), Kind.CREATE_INDEXES, "db.c", {}))
    core.start()
    core.receive(Findings(("a",), {}))
    core.receive(Done())
    core.receive(Done())
    assert core.receive(Findings(("a", "b"), {})) == [Persist()]
    assert core.receive(Done()) == [HoldShards(may_fail=True)]
    core.receive(Done())
    core.receive(Findings(("a",), {}))
    assert core.operation.phase is Phase.PREPARING
    assert core.operation.participants == ("a", "b")


def test_whoever_asked_does_not_wait_for_a_shard_that_cannot_be_let_go() -> None:
    world = World(Kind.DROP_COLLECTION)
    effects = world.begin()
    while effects != [Release()]:
        event = world.carry_out(effects.pop())
        assert event is not None
        assert world.core is not None
        effects = world.core.receive(event)
    assert world.core is not None
    assert world.core.receive(Unreachable()) == [Answer(), Release()]
    assert world.core.receive(Unreachable()) == [Release()]
    assert world.core.receive(Done()) == [Forget()]
    assert world.core.receive(Done()) == []


def test_documents_come_back_as_they_were() -> None:
    operation = Operation.create(bytes(16), Kind.DROP_INDEXES, "db.c", {"request": {"dropIndexes": "c", "index": "*"}})
    assert Operation.from_raw(bson.encode(operation.document())) == operation
    assert operation.same_as(Kind.DROP_INDEXES, "db.c", {"request": {"dropIndexes": "c", "index": "*"}})
    for indexes in (None, ("_id_", "a_1")):
        hold = Hold(operation=UUID, namespace="db.c", blocks=Blocks.EVERYTHING, indexes=indexes, seconds=5)
        assert Hold.from_raw(bson.encode(enter_phase(hold, Phase.UNDOING).document())) == enter_phase(
            hold, Phase.UNDOING
        )
        assert Hold.from_raw(bson.encode(hold.document())) == hold


def test_a_hold_is_taken_once_and_never_again_after_its_release() -> None:
    wanted = Hold(operation=UUID, namespace="db.c", blocks=Blocks.NOTHING, seconds=7)
    assert hold_to_take(None, None, wanted) == wanted
    assert hold_to_take(wanted, wanted, wanted) == wanted
    other = Hold(operation=Binary(b"1" * 16, 4), namespace="db", blocks=Blocks.EVERYTHING)
    with pytest.raises(CommandError) as caught:
        hold_to_take(None, other, wanted)
    assert caught.value.code == Code.ConflictingOperationInProgress
    released = let_go(None, wanted)
    with pytest.raises(CommandError) as caught:
        hold_to_take(released, None, wanted)
    assert caught.value.code == Code.OperationFailed


def test_a_participant_goes_back_to_no_phase() -> None:
    hold = Hold(operation=UUID, namespace="db.c", blocks=Blocks.NOTHING)
    prepared = enter_phase(hold, Phase.PREPARING)
    assert enter_phase(prepared, Phase.PREPARING) == prepared
    for later in (Phase.UNDOING, Phase.APPLYING):
        gone_on = enter_phase(prepared, later)
        assert enter_phase(gone_on, later) == gone_on
        with pytest.raises(CommandError) as caught:
            enter_phase(gone_on, Phase.PREPARING)
        assert caught.value.code == Code.OperationFailed


def test_a_namespace_conflicts_with_itself_and_its_database() -> None:
    assert conflict("db", "db.c")
    assert conflict("db.c", "db")
    assert conflict("db.c", "db.c")
    assert not conflict("db.c", "db.d")
    assert not conflict("db.c", "dba.c")
    assert not conflict("db", "dba")


def test_a_dropped_database_stays_dropped_for_every_older_timestamp() -> None:
    note = dropped("db", [Timestamp(5, 1), Timestamp(4, 0)], {"_id": "db", "droppedUntil": Timestamp(3, 0)})
    assert note == {"_id": "db", "droppedUntil": Timestamp(5, 1)}
    for stamp, gone in ((Timestamp(5, 1), True), (Timestamp(4, 9), True), (Timestamp(5, 2), False)):
        routing = Routing("db.c", "a", None, DatabaseVersion(UUID, stamp, 1))
        assert is_dropped(routing, None, note) == gone
    assert not is_dropped(Routing("db.c", None, None), None, note)
