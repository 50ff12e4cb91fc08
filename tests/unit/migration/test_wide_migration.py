"""Chunks of column families between shards in one process: nothing is lost, nothing comes back, nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bson.int64 import Int64

from docstore.errors import Code, CommandError
from docstore.key_layout import family_end, family_prefix
from docstore.net import NetworkError
from docstore.sharding import requests
from docstore.sharding.chunk import Chunk
from docstore.sharding.partitioners import MURMUR3, Partitioner
from docstore.sharding.routing import CollectionRouting, Routing, apply_routing, routing_request
from docstore.sharding.token_ring import ring_document
from docstore.storage import Family
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.rows import stored_cells
from docstore.widecolumn.node.tombstone_gc import TombstoneCollector
from mongod.migration.donor.driver import DonorDriver
from mongod.widecolumn import shard_column_family
from tests.unit.migration.local_cluster import Cluster

NAMESPACE = "ks.F"
ROWS = [f"row {number}" for number in range(40)]
SLICE = {"sliceRange": {}}
LAST_STEP = 15


class Wide:
    """The cluster with a column family `ks.F`, two chunks a shard."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def build(self) -> Wide:
        await self.cluster.build(shard=False)
        await self.ask("config", requests.enable_sharding("ks", "shard1"))
        await self.ask("shard1", {"createKeyspace": "ks"})
        await self.ask("shard1", {"createColumnFamily": "F", "gcGraceSeconds": 0, "spread": True}, "ks")
        return self

    async def ask(self, name: str, command: dict[str, Any], db: str = "admin") -> dict[str, Any]:
        return await self.cluster.ask(name, command, db)

    async def routing(self) -> tuple[Routing, CollectionRouting]:
        reply = await self.cluster.network.command("config:1", "admin", routing_request(NAMESPACE, None))
        routing = apply_routing(NAMESPACE, None, reply)
        assert routing.collection is not None
        return routing, routing.collection

    async def run(self, command: dict[str, Any]) -> dict[str, Any]:
        """A command about one row at its owner, again while that is stale or away."""
        deadline = time.monotonic() + 20
        while True:
            routing, collection = await self.routing()
            key = ring_document(Partitioner(MURMUR3), command["key"].encode())
            shard = collection.chunks.chunk_at(collection.key.key_of(key)).shard
            version = routing.shard_version(shard).to_document()
            try:
                return await self.ask(shard, {**command, "shardVersion": version}, "ks")
            except (CommandError, NetworkError) as error:
                again = isinstance(error, NetworkError) or error.code == Code.StaleConfig
                if not again or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.005)

    async def insert(self, key: str, column: str, value: str, stamp: int, **fields: Any) -> None:
        await self.run(
            {"wcInsert": "F", "key": key, "column": column, "value": value, "timestamp": Int64(stamp), **fields}
        )  # fmt: skip

    async def remove(self, key: str, stamp: int, **fields: Any) -> None:
        await self.run({"wcRemove": "F", "key": key, "timestamp": Int64(stamp), **fields})

    async def chunk(self, number: int) -> Chunk:
        return list((await self.routing())[1].chunks)[number]

    async def move(self, number: int, to: str) -> None:
        routing, _ = await self.routing()
        chunk = await self.chunk(number)
        await self.ask(chunk.shard, requests.move_range(NAMESPACE, chunk.range, routing.version(), to))

    async def all_rows(self) -> dict[str, dict[str, str]]:
        """Every row that the shards show, which each row is once."""
        found: dict[str, dict[str, str]] = {}
        routing, collection = await self.routing()
        for shard in collection.chunks.shards:
            version = routing.shard_version(shard).to_document()
            command = {"wcGetRangeSlices": "F", "predicate": SLICE, "count": 10_000, "shardVersion": version}
            for row in (await self.ask(shard, command, "ks"))["rows"]:
                assert row["key"] not in found
                found[row["key"]] = {each["name"].decode(): each["value"].decode() for each in row["columns"]}
        return found

    def stored(self, shard: str) -> dict[bytes, bytes]:
        """All records on a shard, statistics too, behind the ident."""
        node = self.cluster.members[shard].node
        collection = node.store.collection(NAMESPACE)
        if collection is None:
            return {}
        base = family_prefix(collection.ident)
        items = node.engine.items(Family.WIDE, base, family_end(collection.ident))
        return {key[len(base) :]: record for key, record in items}

    async def settled(self) -> None:
        await self.cluster.settled()

    def counts_are_right(self, shard: str) -> bool:
        node = self.cluster.members[shard].node
        collection = node.store.collection(NAMESPACE)
        if collection is None:
            return True
        cells = list(stored_cells(node.engine, collection))
        return (collection.count, collection.size) == (len(cells), sum(len(key) + len(record) for key, record in cells))


def run(test: Any) -> None:
    async def whole() -> None:
        cluster = Cluster()
        try:
            await test(await Wide(cluster).build())
        finally:
            await cluster.stop()

    asyncio.run(whole())


def in_chunk(chunk: Chunk) -> Iterator[str]:
    """The rows of a chunk."""
    for row in ROWS:
        token = Partitioner(MURMUR3).token(row.encode())
        low, high = (bound.document()["token"] for bound in (chunk.min, chunk.max))
        if (not isinstance(low, int) or low <= token) and (not isinstance(high, int) or token < high):
            yield row


def test_the_recipient_holds_what_the_donor_held() -> None:
    async def test(wide: Wide) -> None:
        for number, row in enumerate(ROWS):
            for column in ("a", "b", "c"):
                await wide.insert(row, column, "x" * number, 10)
        moved = list(in_chunk(await wide.chunk(0)))
        assert len(moved) > 3
        await wide.remove(moved[0], 20)
        await wide.remove(moved[1], 20, column="a")
        network = wide.cluster.network
        network.held["_recvChunkDocuments"] = asyncio.Event()
        moving = asyncio.ensure_future(wide.move(0, "shard2"))
        await network.comes("_recvChunkDocuments")
        await wide.insert(moved[0], "b", "back again", 21)
        await wide.insert(moved[2], "d", "newer", 30)
        await wide.insert(moved[2], "a", "older", 5)
        await wide.remove(moved[3], 40, column="c")
        donor = wide.cluster.members["shard1"].node
        # What is dead for good is collected on the donor: it does not come back on the recipient.
        wide_of(donor).now = lambda: int(time.time()) + 100  # type: ignore[method-assign]
        await TombstoneCollector(donor).run_pass()
        held = wide.stored("shard1")
        network.held.pop("_recvChunkDocuments").set()
        await moving
        await wide.settled()
        left = wide.stored("shard1")
        received = {key: record for key, record in wide.stored("shard2").items() if key in held or key not in left}
        gone = {key: record for key, record in held.items() if key not in left}
        assert gone
        assert {key: received.get(key) for key in gone} == gone
        tails = {key[:8] for key in gone}
        assert {key for key in wide.stored("shard2") if key[:8] in tails} == gone.keys()
        for shard in ("shard1", "shard2"):
            assert wide.counts_are_right(shard)
        found = await wide.all_rows()
        assert sorted(found) == sorted(ROWS)
        assert found[moved[0]] == {"b": "back again"}
        assert found[moved[2]]["d"] == "newer"
        assert "c" not in found[moved[3]]

    run(test)


@pytest.mark.parametrize("change", [{"wcTruncate": "F"}, {"alterColumnFamily": "F", "comment": "other"}])
def test_a_move_gives_way_to_a_change_of_the_column_family(change: dict[str, Any]) -> None:
    async def test(wide: Wide) -> None:
        for row in ROWS:
            await wide.insert(row, "a", "x", 10)
        network = wide.cluster.network
        network.held["_recvChunkDocuments"] = asyncio.Event()
        moving = asyncio.ensure_future(wide.move(0, "shard2"))
        await network.comes("_recvChunkDocuments")
        for shard in ("shard1", "shard2"):
            await wide.ask(shard, change, "ks")
        network.held.pop("_recvChunkDocuments").set()
        with pytest.raises(CommandError, match="changes while it is moved"):
            await moving
        await wide.settled()
        assert (await wide.chunk(0)).shard == "shard1"
        assert len(await wide.all_rows()) == (0 if "wcTruncate" in change else len(ROWS))

    run(test)


def test_rows_on_their_way_are_not_collected() -> None:
    async def test(wide: Wide) -> None:
        row = next(in_chunk(await wide.chunk(0)))
        for number in range(50):
            await wide.insert(row, f"c{number:02}", "y" * 20_000, 10)
        await wide.remove(row, 20)
        await wide.insert(row, "later", "z", 30)
        network = wide.cluster.network
        network.held["_recvChunkCommit"] = asyncio.Event()
        moving = asyncio.ensure_future(wide.move(0, "shard2"))
        await network.comes("_recvChunkCommit")
        recipient = wide.cluster.members["shard2"].node
        wide_of(recipient).now = lambda: int(time.time()) + 100  # type: ignore[method-assign]
        before = wide.stored("shard2")
        assert before
        await TombstoneCollector(recipient).run_pass()
        assert wide.stored("shard2") == before
        network.held.pop("_recvChunkCommit").set()
        await moving
        await wide.settled()
        await TombstoneCollector(recipient).run_pass()
        assert len(wide.stored("shard2")) < len(before)
        assert (await wide.all_rows())[row] == {"later": "z"}

    run(test)


def test_a_column_family_whose_making_failed_can_be_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(wide: Wide) -> None:
        wide.cluster.members["shard2"].kill()
        create = {"createColumnFamily": "G", "spread": True}
        with monkeypatch.context() as patched:
            # Nobody will answer.
            patched.setattr(shard_column_family, "HOLD_SECONDS", 0.1)
            with pytest.raises(CommandError, match="shard2"):
                await wide.ask("shard1", create, "ks")
        described = await wide.ask("shard1", {"describeKeyspace": 1}, "ks")
        assert [family["name"] for family in described["columnFamilies"]] == ["F"]
        await wide.cluster.restart("shard2")
        await wide.ask("shard1", create, "ks")
        with pytest.raises(CommandError, match="column family G already exists"):
            await wide.ask("shard1", create, "ks")
        for shard in ("shard1", "shard2"):
            collection = wide.cluster.members[shard].node.store.collection("ks.G")
            assert collection is not None
            listed = await wide.ask("config", {"find": "collections", "filter": {"_id": "ks.G"}}, "config")
            (record,) = listed["cursor"]["firstBatch"]
            assert record["uuid"].as_uuid() == collection.uuid

    run(test)


class Writer:
    """Writes higher and higher timestamps until told to stop, and remembers the last acknowledged of each row."""

    def __init__(self, wide: Wide) -> None:
        self._wide = wide
        self._stopping = False
        self.acknowledged = dict.fromkeys(ROWS, 0)
        self.tried = dict.fromkeys(ROWS, 0)
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        number = 0
        while not self._stopping:
            number += 1
            row = ROWS[number * 7 % len(ROWS)]
            self.tried[row] = number
            await self._wide.insert(row, "n", str(number), number)
            self.acknowledged[row] = number
            await asyncio.sleep(0.0005)

    async def stop(self) -> None:
        self._stopping = True
        await self._task


@pytest.mark.parametrize("victim", ["shard1", "shard2"])
@pytest.mark.parametrize("step", range(0, LAST_STEP, 2))
def test_a_kill_at_any_step_loses_nothing(monkeypatch: pytest.MonkeyPatch, step: int, victim: str) -> None:
    async def test(wide: Wide) -> None:
        for row in ROWS:
            await wide.insert(row, "n", "0", 0)
        carry_out, done = DonorDriver._carry_out, [0]

        async def counted(donation: DonorDriver, effect: Any) -> Any:
            done[0] += 1
            if done[0] == step + 1:
                wide.cluster.members[victim].kill()
                await asyncio.sleep(0)
            return await carry_out(donation, effect)

        monkeypatch.setattr(DonorDriver, "_carry_out", counted)
        writer = Writer(wide)

        async def revive() -> None:
            await wide.cluster.members[victim].gone.wait()
            await asyncio.sleep(0.01)
            await wide.cluster.restart(victim)

        reviving = asyncio.ensure_future(revive())
        with contextlib.suppress(CommandError, NetworkError):
            await wide.move(0, "shard2")
        if not wide.cluster.members[victim].gone.is_set() and done[0] <= step:
            # The move was over before that step.
            reviving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reviving
        await writer.stop()
        await wide.settled()
        found = await wide.all_rows()
        assert sorted(found) == sorted(ROWS)
        for row in ROWS:
            assert writer.acknowledged[row] <= int(found[row]["n"]) <= writer.tried[row]
        held = [*wide.stored("shard1"), *wide.stored("shard2")]
        assert len(held) == len(set(held))

    run(test)
