"""Requests to one shard: which member they go to, and what they say of that."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest

from docstore.commands.concerns import ReadMode, ReadPreference
from docstore.net import Pool, ReplicaSetClient
from mongos.routing.gossip import Gossip
from mongos.routing.shards import Shard, Shards


class Members:
    """The client of a set, and the pool: what is asked of which member."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.timeouts: list[float] = []

    async def select(self, read_preference: ReadPreference, timeout: float) -> str:
        return "secondary:1" if read_preference.secondary_ok else "primary:1"

    async def command(self, address: str, _db: str, body: Any, *, sequences: Any, timeout: float) -> bytes:
        self.asked.append((address, bson.decode(body) if isinstance(body, bytes) else body))
        self.timeouts.append(timeout)
        return bson.encode({"ok": 1})


def shard_of(members: Members) -> Shard:
    return Shard("s", "s/h:1", cast(ReplicaSetClient, members), cast(Pool, members), Gossip(), lambda: 100.0)


@pytest.mark.parametrize("mode", list(ReadMode))
@pytest.mark.parametrize("body", [{"find": "c"}, bson.encode({"find": "c"})])
def test_a_member_is_told_the_preference_by_which_it_was_chosen(mode: ReadMode, body: Any) -> None:
    members = Members()
    tags = ((("dc", "east"),), ()) if mode is not ReadMode.PRIMARY else ()
    preference = ReadPreference(mode, tags, 120 if tags else None)
    asyncio.run(shard_of(members).command("test", body, read_preference=preference))
    ((address, asked),) = members.asked
    if mode is ReadMode.PRIMARY:
        assert (address, asked) == ("primary:1", {"find": "c"})
    else:
        expected = {"mode": mode.value, "tags": [{"dc": "east"}, {}], "maxStalenessSeconds": 120}
        assert (address, asked["$readPreference"]) == ("secondary:1", expected)


def test_a_late_answer_is_still_taken_where_it_may_hold_a_cursor() -> None:
    members = Members()
    asyncio.run(shard_of(members).command("test", {"find": "c"}, deadline=103.0, late=2.0))
    asyncio.run(shard_of(members).command("test", {"find": "c"}, deadline=103.0))
    assert members.timeouts == [5.0, 3.0]


class ConfigServers(Members):
    """A config server with shards, which answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.names = ["a"]
        self.let = asyncio.Event()

    async def command(self, address: str, _db: str, body: Any, *, sequences: Any, timeout: float) -> bytes:
        await super().command(address, _db, body, sequences=sequences, timeout=timeout)
        await self.let.wait()
        rows = [{"_id": name, "host": f"{name}/h:1"} for name in self.names]
        return bson.encode({"cursor": {"firstBatch": rows, "id": 0, "ns": "config.shards"}, "ok": 1})


def test_the_shards_of_a_time_are_asked_for_once_for_all_who_wait() -> None:
    async def work() -> None:
        servers, gossip = ConfigServers(), Gossip()
        shards = Shards(
            shard_of(servers), lambda name, _host: cast(Shard, SimpleNamespace(name=name, host=f"{name}/h:1")), gossip
        )
        gossip.observe(50 << 32)
        waiting = [asyncio.ensure_future(shards.as_of(time << 32)) for time in (7, 50, 8)]
        await asyncio.sleep(0)
        servers.let.set()
        for found in await asyncio.gather(*waiting):
            assert [shard.name for shard in found] == ["a"]
        servers.names.append("b")
        assert [shard.name for shard in await shards.as_of(50 << 32)] == ["a"]
        assert [shard.name for shard in await shards.as_of(51 << 32)] == ["a", "b"]
        concerns = [asked["readConcern"]["afterClusterTime"].time for _, asked in servers.asked]
        assert concerns == [50, 51]

    asyncio.run(work())
