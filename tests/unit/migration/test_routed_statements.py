"""Statements without the shard key through routers, beside moves: each document is found, and changed once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import bson
import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.collection.transaction.claims import Claims
from docstore.errors import Code
from docstore.node.shard_filter import MustWait
from docstore.sharding.chunk import Chunk
from docstore.sharding.routing import Routing
from mongod.migration import statements
from mongos.routing.cache import RoutingCache
from mongos.routing.requests import ShardReply
from mongos.routing.targeting import delete_target, update_target
from mongos.routing.writes import Batch, BatchWrite, Kind
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, Network

DOCUMENTS = 400
SCOPE: Any = SimpleNamespace(namespace=NAMESPACE, concerns=NAMESPACE.__eq__)
"""What a move of a chunk of the collection waits for."""
KINDS = {"update": Kind("updates", update_target, len), "delete": Kind("deletes", delete_target, lambda _: 0)}


@dataclass
class NetworkShard:
    """A set of one member as a router reaches it. `before` is awaited before each request."""

    name: str
    network: Network
    before: Any = None

    async def command(
        self, db: str, body: bytes | Mapping[str, Any], *, sequences: dict[str, list[bytes]] | None = None, **_: Any
    ) -> ShardReply:
        if self.before is not None:
            await self.before(self.name)
        address = f"{self.name}:1"
        return ShardReply(self.name, address, await self.network.command(address, db, body, sequences=sequences))


@dataclass
class LocalRouter:
    """Writes as a router carries them out, with a routing of its own."""

    made: Cluster
    cache: RoutingCache = field(init=False)
    before: Any = None

    def __post_init__(self) -> None:
        self.cache = RoutingCache(NetworkShard("config", self.made.network))  # type: ignore[arg-type]

    async def get(self, name: str) -> NetworkShard:
        return NetworkShard(name, self.made.network, self.before)

    of_routing = get

    def add(self, routing: Routing, chunk: Chunk, size: int) -> bool:
        """Nothing is split."""
        return False

    async def write(self, command: str, *statements: dict[str, Any], ordered: bool = False) -> dict[str, Any]:
        context: Any = SimpleNamespace(
            raw=bson.encode({command: "test", "ordered": ordered}), db="test", namespace=NAMESPACE, session=None,
            deadline=None, operation=SimpleNamespace(check=lambda: None),
        )  # fmt: skip
        batch = BatchWrite(
            context, Batch(KINDS[command], [bson.encode(row) for row in statements], ordered), shards=self,
            cache=self.cache, accounting=self, ensure_database=self.get, pause=no_pause,
        )  # type: ignore[arg-type]  # fmt: skip
        return await batch.run()


async def no_pause() -> None:
    """Nobody else wants to run."""


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """`_id`s from 0, ids "0000" and on; those from "0200" are a chunk of their own, on shard1 like the others."""
    made = await Cluster().build()
    try:
        rows = [{"_id": n, "id": f"{n:04}", "x": 0} for n in range(DOCUMENTS)]
        await made.write({"insert": "test", "documents": rows}, "0")
        await made.split("0100")
        await made.split("0200")
        await made.move("0100", "shard2")
        yield made
    finally:
        await made.stop()


async def to_and_fro(made: Cluster, stopped: asyncio.Event) -> None:
    """Move the upper chunk some times, then tell others to stop."""
    try:
        for number in range(6):
            await made.move("0200", ("shard2", "shard1")[number % 2])
    finally:
        stopped.set()


def test_a_statement_by_id_finds_its_document_wherever_that_moves() -> None:
    async def test() -> None:
        async with cluster() as made:
            stopped = asyncio.Event()
            moving = asyncio.ensure_future(to_and_fro(made, stopped))
            routers = [LocalRouter(made), LocalRouter(made)]

            async def updates(router: LocalRouter) -> int:
                done = 0
                while not stopped.is_set():
                    for n in range(195, 260, 13):
                        reply = await router.write("update", {"q": {"_id": n}, "u": {"$inc": {"x": 1}}})
                        assert reply == {"n": 1, "nModified": 1}, (n, reply)
                    statements = [{"q": {"_id": n}, "u": {"$inc": {"y": 1}}} for n in range(198, 240)]
                    reply = await router.write("update", *statements)
                    assert reply == {"n": 42, "nModified": 42}
                    done += 1
                return done

            writing = [asyncio.ensure_future(updates(router)) for router in routers]
            await moving
            rounds = sum([await each for each in writing])
            rows = {row["_id"]: row for found in (await made.visible()).values() for row in found}
            assert {rows[n].get("x") for n in range(195, 260, 13)} == {rounds}
            assert {rows[n].get("y") for n in range(198, 240)} == {rounds}

    asyncio.run(test())


def test_a_replacement_by_id_is_found_where_its_document_is_and_not_where_the_new_one_would_be() -> None:
    async def test() -> None:
        async with cluster() as made:
            router = LocalRouter(made)
            asked: list[str] = []

            async def before(shard: str) -> None:
                asked.append(shard)

            router.before = before
            reply = await router.write("update", {"q": {"_id": 150}, "u": {"id": "0150", "x": 1}})
            assert (reply["n"], reply["nModified"], asked) == (1, 1, ["shard2"])
            reply = await router.write("update", {"q": {"_id": 150}, "u": {"id": "0300", "x": 2}})
            assert [row["code"] for row in reply["writeErrors"]] == [31025]
            assert await router.write("update", {"q": {"_id": -1}, "u": {"id": "0300"}}) == {"n": 0, "nModified": 0}
            rows = [
                {"q": {"_id": 150}, "u": {"id": "0150", "x": 3}},
                {"q": {"_id": 7}, "u": {"id": "0007", "x": 3}},
                {"q": {"_id": -1}, "u": {"id": "0300"}},
                {"q": {"_id": 150}, "u": {"$inc": {"x": 1}}},
                {"q": {"_id": 151}, "u": {"id": "0009", "x": 3}},
                {"q": {"_id": 7}, "u": {"$inc": {"x": 1}}},
            ]
            for ordered in (True, False):
                reply = await router.write("update", *rows, ordered=ordered)
                assert (reply["n"], reply["nModified"]) == ((3, 3) if ordered else (4, 4)), reply
                assert [(row["index"], row["code"]) for row in reply["writeErrors"]] == [(4, 31025)]
            reply = await router.write("update", {"q": {"_id": 7}, "u": {"id": "0300"}, "upsert": True})
            assert [row["code"] for row in reply["writeErrors"]] == [Code.ShardKeyNotFound]

    asyncio.run(test())


def test_an_update_of_many_documents_changes_each_once_beside_moves() -> None:
    async def test() -> None:
        async with cluster() as made:
            for member in (made.members["shard1"], made.members["shard2"]):
                member.node.clock = hurried(member.node.clock)  # type: ignore[misc]
            stopped = asyncio.Event()
            moving = asyncio.ensure_future(to_and_fro(made, stopped))
            routers = [LocalRouter(made), LocalRouter(made)]

            async def updates(router: LocalRouter) -> int:
                done = 0
                while not stopped.is_set():
                    reply = await router.write("update", {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True})
                    assert reply == {"n": DOCUMENTS, "nModified": DOCUMENTS}, reply
                    done += 1
                return done

            writing = [asyncio.ensure_future(updates(router)) for router in routers]
            await moving
            rounds = sum([await each for each in writing])
            rows = [row for found in (await made.visible()).values() for row in found]
            assert {row["x"] for row in rows} == {rounds}
            assert len(rows) == DOCUMENTS

    asyncio.run(test())


def hurried(clock: Any) -> Any:
    """A clock by which every slice is over at once."""
    ticks = iter(range(1, 1 << 60))
    return lambda: clock() + next(ticks) * 0.01


@pytest.mark.parametrize("visited", ["shard1", "shard2"])
@pytest.mark.parametrize("command", ["update", "delete", "by id"])
def test_a_chunk_that_moves_between_two_shards_visits_is_seen_to_once(visited: str, command: str) -> None:
    """The one shard has answered, the other has not been asked."""

    async def test() -> None:
        async with cluster() as made:
            router = LocalRouter(made)
            answered = asyncio.Event()
            moved = False

            async def before(shard: str) -> None:
                nonlocal moved
                if shard != visited and not moved:
                    await answered.wait()
                    moved = True
                    await made.move("0200", "shard2")
                elif shard == visited:
                    asyncio.get_running_loop().call_later(0.1, answered.set)

            router.before = before
            statement: dict[str, Any] = {"q": {}, "limit": 0}
            if command == "update":
                statement = {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}
            if command == "by id":
                statement = {"q": {"_id": 300}, "u": {"$inc": {"x": 1}}}
                assert (await router.write("update", statement))["n"] == 1
                assert [row["x"] for row in (await made.visible())["0300"]] == [1]
                return
            assert (await router.write(command, statement))["n"] == DOCUMENTS
            rows = [row for found in (await made.visible()).values() for row in found]
            assert [row["x"] for row in rows] == ([1] * DOCUMENTS if command == "update" else [])

    asyncio.run(test())


def test_a_move_waits_for_statements_over_many_documents_and_is_given_up_where_they_take_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test() -> None:
        async with cluster() as made:
            shard = made.members["shard1"].shard
            await shard.shard_filter.refresh(NAMESPACE)
            hold = shard.shard_filter.hold(NAMESPACE, None)
            held_back = asyncio.Event()
            hold_back = shard.shard_filter.statements.hold_back

            def telling(scope: statements.Scope) -> None:
                hold_back(scope)
                held_back.set()

            monkeypatch.setattr(shard.shard_filter.statements, "hold_back", telling)
            moving = asyncio.ensure_future(made.move("0200", "shard2"))
            await held_back.wait()
            later = asyncio.ensure_future(
                LocalRouter(made).write("update", {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True})
            )
            assert (
                await made.write(
                    {"update": "test", "updates": [{"q": {"id": "0300"}, "u": {"$inc": {"x": 1}}}]}, "0300"
                )
            )["n"] == 1
            assert not moving.done()
            hold.close()
            await moving
            assert (await later)["n"] == DOCUMENTS

            monkeypatch.setattr(statements, "STATEMENT_SECONDS", 0.3)
            shard = made.members["shard2"].shard
            await shard.shard_filter.refresh(NAMESPACE)
            hold = shard.shard_filter.hold(NAMESPACE, None)
            refused = await asyncio.gather(made.move("0200", "shard1"), return_exceptions=True)
            assert refused[0].code == Code.OperationFailed  # type: ignore[union-attr]
            hold.close()
            await made.move("0200", "shard1")

    asyncio.run(test())


def test_a_transaction_that_waits_for_a_move_does_not_use_the_collection_yet() -> None:
    """Or the move would wait for it in turn."""

    async def test() -> None:
        async with cluster() as made:
            node, shard = made.members["shard1"].node, made.members["shard1"].shard
            running = shard.shard_filter.statements
            running.hold_back(SCOPE)
            change = {"update": "test", "updates": [{"q": {"_id": 300}, "u": {"$inc": {"x": 1}}}]}
            fields = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1), "autocommit": False}
            waiting = asyncio.ensure_future(made.write({**change, **fields, "startTransaction": True}, "0300"))
            for _ in range(100):
                await asyncio.sleep(0)
            assert not waiting.done()
            assert node.store.claims.holder(NAMESPACE) is None
            running.let_begin(SCOPE)
            assert (await waiting)["n"] == 1
            assert node.store.claims.holder(NAMESPACE) is not None
            running.hold_back(SCOPE)
            assert (await made.write({**change, **fields}, "0300"))["n"] == 1, "now the move waits for it"
            running.let_begin(SCOPE)
            await made.ask("shard1", {"abortTransaction": 1, **fields})

    asyncio.run(test())


def test_statements_over_many_documents_wait_for_a_move_that_does_not_catch_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a while: where other writes are the reason, waiting does not help."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        monkeypatch.setattr(loop, "time", lambda: now)
        running = statements.RunningStatements(Claims())
        turn = statements.MovesTurn(running, SCOPE)
        known: Any = SimpleNamespace(routing=SimpleNamespace(collection=None), owned=None)

        def begin() -> statements.Hold:
            running.check_begin(NAMESPACE)
            return running.begin(NAMESPACE, known, "a", None, lambda: known)

        assert not await turn.comes(is_ready=False)
        begin().close()
        now += 0.6
        assert not await turn.comes(is_ready=False)
        with pytest.raises(MustWait):
            begin()
        now += statements.STATEMENT_SECONDS
        assert not await turn.comes(is_ready=False)
        begin().close()
        assert await turn.comes(is_ready=True)
        with pytest.raises(MustWait):
            begin()
        turn.end()
        begin().close()
        following = statements.MovesTurn(running, SCOPE)
        assert await following.comes(is_ready=True)
        turn.end()
        with pytest.raises(MustWait):
            begin()
        following.end()
        begin().close()

    asyncio.run(test())
