from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.node.process.settings import ClusterRole
from docstore.node.shard_filter import MustWait
from docstore.sharding.routing import Routing
from docstore.sharding.version import UNSHARDED, ShardVersion, unsharded_in
from docstore.storage import open_engine
from mongod.migration.config_servers import ConfigServers
from mongod.migration.shard_filter import FilteringMetadata
from tests.unit.migration.local_cluster import NAMESPACE, Cluster, Member


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    made = await Cluster().build()
    try:
        await made.write({"insert": "test", "documents": [{"_id": n, "id": str(n)} for n in range(10)]}, "0")
        await made.split("5")
        yield made
    finally:
        await made.stop()


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


def version(made: Cluster, shard: str) -> ShardVersion:
    assert made.routing is not None
    return made.routing.shard_version(shard)


def encoded(found: ShardVersion) -> bytes:
    return bson.encode(found.to_document())


def test_an_operation_with_a_known_version_is_let_in_without_waiting() -> None:
    async def test() -> None:
        async with cluster() as made:
            shard_filter = made.members["shard1"].shard.shard_filter
            try:
                shard_filter.check_version(NAMESPACE, encoded(version(made, "shard1")), write=False)
            except MustWait as first:
                await first.wait()
            assert shard_filter.check_version(NAMESPACE, encoded(version(made, "shard1")), write=True) is None
            await made.move("5", "shard2")
            await shard_filter.refresh(NAMESPACE)
            owned = shard_filter.check_version(NAMESPACE, encoded(version(made, "shard1")), write=False)
            assert owned is not None
            assert owned.matches(bson.encode({"id": "4"}))
            assert not owned.matches(bson.encode({"id": "5"}))

    run(test)


def test_the_log_names_documents_by_the_shard_key_while_the_routing_is_known() -> None:
    async def test() -> None:
        async with cluster() as made:
            store = made.members["shard1"].node.store
            last = store.last_optime.timestamp
            await made.write({"update": "test", "updates": [{"q": {"id": "3"}, "u": {"$set": {"a": 1}}}]}, "3")
            await made.write({"delete": "test", "deletes": [{"q": {"id": "4"}, "limit": 1}]}, "4")
            assert store.oplog is not None
            logged = [bson.decode(entry) for entry in store.oplog.scan(store.engine, last)]
            keys = [each.get("o2", each["o"]) for each in logged if each["ns"] == NAMESPACE]
            assert [list(key.items()) for key in keys] == [[("id", "3"), ("_id", 3)], [("id", "4"), ("_id", 4)]]
            made.members["shard1"].shard.shard_filter.forget(NAMESPACE)
            assert not store.document_keys

    run(test)


def test_one_request_serves_all_who_wait_for_the_routing() -> None:
    async def test() -> None:
        async with cluster() as made:
            shard_filter = made.members["shard1"].shard.shard_filter
            shard_filter.forget(NAMESPACE)
            before = made.network.seen.count(("config:1", "_configsvrGetRouting"))
            shard1 = encoded(version(made, "shard1"))
            waiting = []
            for _ in range(20):
                with pytest.raises(MustWait) as wait:
                    shard_filter.check_version(NAMESPACE, shard1, write=True)
                waiting.append(wait.value.wait())
            await asyncio.gather(*waiting)
            assert made.network.seen.count(("config:1", "_configsvrGetRouting")) == before + 1

    run(test)


def test_a_routing_older_than_what_was_given_away_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A config server that lags behind would make the donor an owner again."""

    async def test() -> None:
        async with cluster() as made:
            old = await made.refresh()
            await made.move("5", "shard2")
            asked: list[str] = []
            routing = ConfigServers.routing

            async def lagging(servers: ConfigServers, namespace: str, known: Routing | None) -> Routing:
                asked.append(servers.identity.name)
                if servers.identity.name == "shard1" and asked.count("shard1") <= 3:
                    return old
                return await routing(servers, namespace, known)

            monkeypatch.setattr(ConfigServers, "routing", lagging)
            for restarted in (False, True):
                if restarted:
                    made.members["shard1"].kill()
                    await made.restart("shard1")
                    asked.clear()
                shard_filter = made.members["shard1"].shard.shard_filter
                shard_filter.forget(NAMESPACE)
                known = await shard_filter.refresh(NAMESPACE)
                assert known.version == version(made, "shard1")
                assert asked.count("shard1") == 4

    run(test)


def test_a_forgotten_routing_is_read_again_even_by_who_was_reading_it() -> None:
    async def test() -> None:
        async with cluster() as made:
            shard_filter = made.members["shard1"].shard.shard_filter
            shard_filter.forget(NAMESPACE)
            held = made.network.held["_configsvrGetRouting"] = asyncio.Event()
            before = made.network.seen.count(("config:1", "_configsvrGetRouting"))
            reading = asyncio.ensure_future(shard_filter.refresh(NAMESPACE))
            before += 1
            await made.network.comes("_configsvrGetRouting", to="config", times=before)
            shard_filter.forget(NAMESPACE)
            held.set()
            await reading
            assert made.network.seen.count(("config:1", "_configsvrGetRouting")) == before + 1

    run(test)


def test_a_read_that_has_ended_serves_nobody_who_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the step in which it ends it may be forgotten; who was served by it would ask again and again, in one step."""

    async def test() -> None:
        async with cluster() as made:
            shard_filter = made.members["shard1"].shard.shard_filter
            read = shard_filter._read
            served = []

            def forget_and_ask() -> None:
                shard_filter.forget(NAMESPACE)
                asking = shard_filter.refresh(NAMESPACE)
                try:
                    asking.send(None)
                except StopIteration as answer:
                    served.append(answer.value)
                asking.close()

            async def ending(namespace: str) -> FilteringMetadata:
                found = await read(namespace)
                asyncio.get_running_loop().call_soon(forget_and_ask)
                return found

            shard_filter.forget(NAMESPACE)
            monkeypatch.setattr(shard_filter, "_read", ending)
            await shard_filter.refresh(NAMESPACE)
            assert not served

    run(test)


def test_operations_without_a_version_see_everything() -> None:
    async def test() -> None:
        async with cluster() as made:
            await made.move("5", "shard2")
            shard_filter = made.members["shard1"].shard.shard_filter
            assert shard_filter.check_version(NAMESPACE, None, write=False) is None
            assert shard_filter.check_version(NAMESPACE, None, write=True) is None

    run(test)


def test_a_collection_that_becomes_sharded_makes_unsharded_routers_stale() -> None:
    async def test() -> None:
        made = await Cluster().build(shard=False)
        try:
            insert: dict[str, Any] = {"insert": "test", "documents": [{"id": "1"}]}
            unsharded = unsharded_in((await made.routing_of(NAMESPACE)).database)
            await made.ask("shard1", made.versioned(insert, unsharded), "test")
            index = {"createIndexes": "test", "indexes": [{"key": {"id": 1}, "name": "id_1"}]}
            await made.ask("shard1", index, "test")
            await made.ask("shard1", {"_shardsvrShardCollection": NAMESPACE, "key": {"id": 1}})
            with pytest.raises(CommandError) as caught:
                await made.ask("shard1", made.versioned(insert, unsharded), "test")
            assert caught.value.code == Code.StaleConfig
        finally:
            await made.stop()

    run(test)


def test_a_node_that_is_no_shard_yet_refuses_versions() -> None:
    async def test() -> None:
        async with cluster() as made:
            alone = await Member(made.network, "alone", ClusterRole.SHARD, open_engine("inMemory", "")).start()
            made.members["alone"] = alone
            with pytest.raises(CommandError) as caught:
                await made.ask("alone", made.versioned({"find": "test"}, UNSHARDED), "test")
            assert caught.value.code == Code.NotYetInitialized
            assert (await made.ask("alone", {"insert": "test", "documents": [{}]}, "test"))["n"] == 1

    run(test)


def test_changes_of_the_local_catalog_leave_the_routing_as_it_is() -> None:
    """With the config servers down everything goes on by the routing that was known."""

    async def test() -> None:
        async with cluster() as made:
            unsharded = unsharded_in((await made.routing_of("test.plain")).database)
            read = made.versioned({"find": "test"}, version(made, "shard1"))
            other = made.versioned({"find": "plain"}, unsharded)
            for command in (read, other):
                await made.ask("shard1", command, "test")
            made.members["config"].kill()
            for command in (
                {"createIndexes": "plain", "indexes": [{"key": {"a": 1}, "name": "a"}]},
                {"collMod": "plain", "validator": {"a": 1}},
                {"create": "more"},
                {"drop": "more"},
                {"dropIndexes": "test", "index": "a"},
            ):
                with contextlib.suppress(CommandError):
                    await made.ask("shard1", command, "test")
            assert len((await made.ask("shard1", read, "test"))["cursor"]["firstBatch"]) == 10
            assert (await made.ask("shard1", other, "test"))["cursor"]["firstBatch"] == []

    run(test)
