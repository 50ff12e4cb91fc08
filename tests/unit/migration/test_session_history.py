"""The history of retryable writes goes with a chunk: what a majority has, what is missing, and no more at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.collection.oplog.apply import apply_entry
from docstore.collection.oplog.sessions import DEAD_END, INCOMPLETE_HISTORY, SessionWrite
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.storage import Family, open_engine
from mongod.migration import session_history
from mongod.migration.session_history import STATEMENTS, SessionHistory, Statement, database_concern, remember
from tests.harness.undoing import roll_back
from tests.unit.migration.local_cluster import Cluster, Member, cut_log, turns
from tests.unit.migration.test_migration import cluster, refused, run

LSID = bytes(range(48))


def write_under(session: int, number: int, command: dict[str, Any]) -> dict[str, Any]:
    """The command as a retryable write."""
    return {**command, "lsid": {"id": Binary(session.to_bytes(16, "big"), 4)}, "txnNumber": Int64(number)}


def increment(session: int, value: str, number: int = 1, **fields: Any) -> dict[str, Any]:
    """A retryable write that adds one to `n` of a document, which is made where there is none."""
    update = {"q": {"id": value}, "u": {"$inc": {"n": 1}}, **fields}
    return write_under(session, number, {"update": "test", "updates": [update]})


async def number_of(made: Cluster, value: str) -> Any:
    (row,) = (await made.visible())[value]
    return row.get("n")


def logged(member: Member, op: str) -> list[dict[str, Any]]:
    """The statements of retryable writes in the member's log, of one kind of entry."""
    entries = map(bson.decode, member.engine.values(Family.OPLOG, b"", b"\xff" * 9))
    return [entry for entry in entries if "stmtId" in entry and entry["op"] == op]


def test_history_is_sent_when_a_majority_of_the_donor_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.write(increment(1, "0200"), "0200")
            replication, majority = made.members["shard1"].node.replication, asyncio.Event()
            wait_write = replication.wait_write
            waiting = []

            async def lagging(*arguments: Any) -> Any:
                if ("shard2:1", "_recvChunkStart") in made.network.seen:
                    waiting.append(arguments[0])
                    await majority.wait()
                return await wait_write(*arguments)

            monkeypatch.setattr(replication, "wait_write", lagging)
            moving = asyncio.ensure_future(made.move("0100", "shard2"))
            await made.network.comes("_recvChunkStart")
            await turns(2000)
            assert waiting
            assert ("shard2:1", "_recvChunkStatements") not in made.network.seen
            majority.set()
            await moving
            assert ("shard2:1", "_recvChunkStatements") in made.network.seen
            assert (await made.write(increment(1, "0200"), "0200"))["retriedStmtIds"] == [0]

    run(test)


def test_a_donor_that_was_elected_anew_leaves_the_move_to_what_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.write(increment(1, "0200"), "0200")
            donor = made.members["shard1"].node
            wait_write = donor.replication.wait_write

            async def elected(*arguments: Any) -> Any:
                if ("shard2:1", "_recvChunkStart") in made.network.seen:
                    assert donor.store.oplog is not None
                    donor.store.oplog.term += 1
                    monkeypatch.undo()
                return await wait_write(*arguments)

            monkeypatch.setattr(donor.replication, "wait_write", elected)
            assert (await refused(made.move("0100", "shard2"))).code == Code.InterruptedDueToReplStateChange
            assert ("shard2:1", "_recvChunkStatements") not in made.network.seen
            await made.settled()
            await made.refresh()
            assert made.chunk("0200").shard == "shard1"

    run(test)


def test_what_the_donor_would_refuse_the_recipient_refuses_whoever_becomes_of_it() -> None:
    """However often the chunk moves on, and on any member that follows."""

    async def test() -> None:
        async with cluster() as made:
            await made.write(increment(1, "0200"), "0200")
            await made.write({"insert": "test", "documents": [{"_id": "last", "id": "0000x"}]}, "0000x")
            cut_log(made.members["shard1"])
            assert (await refused(made.write(increment(1, "0200"), "0200"))).code == INCOMPLETE_HISTORY
            for shard in ("shard2", "shard1", "shard2"):
                await made.move("0100", shard)
                assert (await refused(made.write(increment(1, "0200"), "0200"))).code == INCOMPLETE_HISTORY
                assert await number_of(made, "0200") == 1
            made.members["shard2"].kill()
            await made.restart("shard2")
            assert (await refused(made.write(increment(1, "0200"), "0200"))).code == INCOMPLETE_HISTORY
            cut_log(made.members["shard2"])
            assert (await refused(made.write(increment(1, "0200"), "0200"))).code == INCOMPLETE_HISTORY
            await made.write(increment(1, "0200", number=2), "0200")
            assert await number_of(made, "0200") == 2

    run(test)


def test_a_log_that_is_cut_while_a_chunk_moves_leaves_nothing_untold(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with cluster() as made:
            donor = made.members["shard1"]
            monkeypatch.setattr(session_history, "MAX_PAGE_READS", 3)
            for session in range(10):
                await made.write(increment(session, "0200"), "0200")
            pause, cuts = donor.node.scheduler.pause, []

            async def cutting() -> None:
                await pause()
                if ("shard2:1", "_recvChunkDocuments") in made.network.seen and len(cuts) < 3:
                    cuts.append(len(cuts))
                    write = increment(100 + len(cuts), "0201")
                    await made.ask("shard1", write, "test")
                    await made.ask("shard1", {"insert": "other", "documents": [{}]}, "test")
                    cut_log(donor)

            monkeypatch.setattr(donor.node.scheduler, "pause", cutting)
            await made.move("0100", "shard2")
            assert len(cuts) == 3
            for session in (*range(10), 101, 102, 103):
                value = "0200" if session < 10 else "0201"
                with suppress(CommandError):
                    assert "retriedStmtIds" in await made.write(increment(session, value), value)
            assert await number_of(made, "0200") == 10
            assert await number_of(made, "0201") == 3

    run(test)


@pytest.mark.parametrize("elsewhere", ["0050", "0210"])
def test_a_number_before_the_newest_is_over_on_the_recipient_too(elsewhere: str) -> None:
    """A router that was stuck delivers a write whose outcome its client has long heard of by another router."""

    async def test() -> None:
        async with cluster() as made:
            await made.write(increment(1, "0200"), "0200")
            await made.write(increment(1, elsewhere, number=2), elsewhere)
            await made.move("0100", "shard2")
            late = await refused(made.write(increment(1, "0200"), "0200"))
            assert late.code in (INCOMPLETE_HISTORY, Code.TransactionTooOld)
            assert await number_of(made, "0200") == 1
            assert (await made.write(increment(1, "0201", number=3), "0201"))["n"] == 1

    run(test)


def test_a_session_whose_newest_write_is_a_transaction_executes_nothing_late() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.write(increment(1, "0200"), "0200")
            begun = {"startTransaction": True, "autocommit": False}
            await made.write(
                write_under(1, 2, {"insert": "test", "documents": [{"_id": "x", "id": "0050"}], **begun}), "0"
            )
            commit = write_under(1, 2, {"commitTransaction": 1, "autocommit": False})
            await made.ask("shard1", commit)
            await made.move("0100", "shard2")
            late = await refused(made.write(increment(1, "0200"), "0200"))
            assert late.code in (INCOMPLETE_HISTORY, Code.TransactionTooOld)
            assert (await made.ask("shard1", commit))["ok"] == 1
            await made.move("0000", "shard2")
            assert (await made.ask("shard1", commit))["ok"] == 1

    run(test)


def test_statements_on_other_ranges_and_collections_stay() -> None:
    async def test() -> None:
        async with cluster() as made:
            moved = [f"02{number:02}" for number in range(5)]
            for session, value in enumerate([*moved, *(f"00{number:02}" for number in range(20))]):
                await made.write(increment(session, value, number=0), value)
            for session in range(50, 60):
                other = {"insert": "other", "documents": [{"_id": session}]}
                await made.ask("shard1", write_under(session, 0, other), "test")
            await made.move("0100", "shard2")
            assert len(logged(made.members["shard2"], "u")) == len(moved)
            assert not logged(made.members["shard2"], "n")
            for session, value in enumerate(moved):
                assert "retriedStmtIds" in await made.write(increment(session, value, number=0), value)

    run(test)


@pytest.mark.parametrize("moved", ["0050", "0200"])
@pytest.mark.parametrize("update", [{"$set": {"id": "0200x"}}, {"id": "0200x", "a": "b" * 20}])
def test_a_document_that_left_the_range_by_the_statement_is_of_both_ranges(moved: str, update: dict[str, Any]) -> None:
    async def test() -> None:
        async with cluster() as made:
            change = write_under(1, 1, {"update": "test", "updates": [{"q": {"id": "0050"}, "u": update}]})
            assert (await made.write(change, "0050"))["nModified"] == 1
            await made.move(moved, "shard2")
            assert made.routing is not None
            version = made.routing.shard_version("shard2")
            again = await made.ask("shard2", made.versioned(change, version), "test")
            assert again["retriedStmtIds"] == [0]

    run(test)


def test_an_entry_that_was_cut_off_is_refused_though_its_number_is_remembered() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.write(increment(1, "0200"), "0200")
            await made.write({"insert": "test", "documents": [{"_id": "last", "id": "0000x"}]}, "0000x")
            cut_log(made.members["shard1"], forget=False)
            assert (await refused(made.write(increment(1, "0200"), "0200"))).code == INCOMPLETE_HISTORY
            assert await number_of(made, "0200") == 1

    run(test)


def read_all(history: SessionHistory, store: Store) -> set[str]:
    """What is to be sent next."""
    found: list[Statement] = []
    while (page := history.next_page(store.last_optime)) is not None:
        found += page
    return set(map(repr, found))


@pytest.mark.parametrize("reads", [3, 1000])
def test_the_log_tells_the_same_as_the_sessions(monkeypatch: pytest.MonkeyPatch, reads: int) -> None:
    async def test() -> None:
        monkeypatch.setattr(session_history, "MAX_PAGE_READS", reads)
        async with cluster(documents=0) as made:
            store = made.members["shard1"].node.store
            everything = database_concern(
                cast(Any, SimpleNamespace(concerns=lambda namespace: namespace.startswith("test.")))
            )
            history = SessionHistory(store, everything)
            assert read_all(history, store) == set()
            for session, value in enumerate("abc"):
                await made.write(increment(session, value, number=0, upsert=True), value)
                await made.write(increment(session, value, number=2), value)
            log = read_all(history, store)
            assert read_all(SessionHistory(store, everything), store) <= log
            assert len(log) == 6
            assert read_all(history, store) == set()

    run(test)


# Many sessions


class TurnCounter:
    """The most reads of rows and entries in one turn of the loop."""

    def __init__(self, member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self.total = self._turn = 0
        engine = member.engine
        power: Any = member._power

        def items(family: Family, *arguments: Any) -> Any:
            for item in engine.items(family, *arguments):
                self._count(family is Family.META)
                yield item

        def get(family: Family, key: bytes) -> bytes | None:
            self._count(family is Family.OPLOG)
            return engine.get(family, key)

        monkeypatch.setattr(power, "items", items, raising=False)
        monkeypatch.setattr(power, "keys", lambda *asked: (key for key, _ in items(*asked)), raising=False)
        monkeypatch.setattr(power, "get", get, raising=False)

    def _count(self, counts: bool) -> None:
        self._turn += counts
        self.total += counts
        self.most = max(self.most, self._turn)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self._turn = 0


@asynccontextmanager
async def counting(member: Member, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TurnCounter]:
    counter = TurnCounter(member, monkeypatch)
    running = asyncio.ensure_future(counter.run())
    try:
        yield counter
    finally:
        running.cancel()


@pytest.mark.parametrize("value", ["0050", "0200"])
def test_many_sessions_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Whether or not their statements go along."""

    async def test() -> None:
        async with cluster() as made:
            store = made.members["shard1"].node.store
            collection = store.collection("test.test")
            assert collection is not None
            sessions = 1500
            for session in range(sessions):
                with store.unit(session=session_of(session)) as unit:
                    raw = bson.encode({"_id": f"{value}-{session}", "id": value})
                    unit.insert(collection, raw, stmt_id=0)
                    unit.commit()
            async with counting(made.members["shard1"], monkeypatch) as counter:
                await made.move("0100", "shard2")
            assert counter.total >= 2 * sessions
            assert counter.most <= 2 * session_history.MAX_PAGE_READS
            assert len(logged(made.members["shard2"], "i")) == (sessions if value == "0200" else 0)

    run(test)


# The recipient's log


def session_of(number: int) -> SessionWrite:
    return SessionWrite(number.to_bytes(16, "big") + bytes(32), 0)


def new_store() -> Store:
    store = Store(open_engine("inMemory", ""), clock=lambda: 1e9)
    store.attach_oplog(1 << 30)
    return store


def is_executed(store: Store, number: int, stmt_id: int) -> bool | int:
    """Whether the statement is known to have been executed; the code of the refusal to say so."""
    try:
        return store.sessions.statement(LSID, number, stmt_id) is not None
    except CommandError as error:
        return error.code


DEAD = Statement(LSID, 7, (DEAD_END,), "n")


@pytest.mark.parametrize("again", [lambda store: None, lambda store: store.sessions.forget()])
def test_behind_a_dead_end_only_what_is_known_is_answered(again: Callable[[Store], None]) -> None:
    store = new_store()
    remember(store, [Statement(LSID, 7, (3,), "u"), DEAD])
    again(store)
    assert [is_executed(store, 7, stmt_id) for stmt_id in (3, 4)] == [True, INCOMPLETE_HISTORY]
    last = store.last_optime
    remember(store, [Statement(LSID, 7, (3,), "u"), DEAD])
    remember(store, [Statement(LSID, 6, (1,), "u")])
    assert store.last_optime == last
    remember(store, [Statement(LSID, 7, (4, 5), "i")])
    again(store)
    assert [is_executed(store, 7, stmt_id) for stmt_id in (3, 4, 5, 6)] == [True, True, True, INCOMPLETE_HISTORY]
    remember(store, [Statement(LSID, 8, (0,), "d")])
    assert [is_executed(store, 8, stmt_id) for stmt_id in (0, 1)] == [True, False]


def test_a_dead_end_is_rolled_back_and_applied_like_any_entry() -> None:
    store, follower = new_store(), new_store()
    remember(store, [Statement(LSID, 7, (3,), "u")])
    common = store.last_optime
    remember(store, [DEAD])
    assert store.oplog is not None
    for entry in store.oplog.scan(store.engine, 0):
        apply_entry(follower, entry)
    for member in (store, follower):
        assert is_executed(member, 7, 4) == INCOMPLETE_HISTORY
        roll_back(member, common)
        assert [is_executed(member, 7, stmt_id) for stmt_id in (3, 4)] == [True, False]


def test_statements_come_over_the_wire_as_they_are() -> None:
    image = ("preImage", bson.encode({"_id": 1}))
    for statement in (
        DEAD,
        Statement(LSID, 7, (1, 2, 9), "u"),
        Statement(LSID, 7, (1,), "d", None, image),
        Statement(LSID, 7, (1,), "i", bson.encode({"_id": 1})),
    ):
        assert Statement.from_raw(bson.encode(statement.fields())) == statement


def test_a_transaction_is_not_overwritten_by_what_comes() -> None:
    """Its commit may be asked for again."""
    store = new_store()
    with store.unit(session=SessionWrite(LSID, 7)) as unit:
        assert unit._journal is not None
        unit._journal.log_transaction([bson.encode({})], [], [], {})
        unit.commit()
    assert store.sessions.state(LSID).committed
    remember(store, [DEAD])
    assert store.sessions.state(LSID).committed
    assert store.collection(STATEMENTS) is None
