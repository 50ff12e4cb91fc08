from __future__ import annotations

import asyncio
from typing import Any

import bson
import pytest

from configsvr.server import ConfigServer
from docstore.errors import Code, CommandError
from tests.unit.migration.local_cluster import Cluster


def test_a_shards_new_members_are_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what a node of another set says, nor one that is no primary, nor an older look."""

    async def test() -> None:
        made = await Cluster().build()
        try:
            server = made.members["config"].node.parts[ConfigServer]
            told: dict[str, Any] = {}

            async def command(host: str, *_: Any, **__: Any) -> bytes:
                if not host.startswith("shard2/"):
                    raise CommandError(Code.HostUnreachable, "away")
                return bson.encode(told)

            async def hosts() -> dict[str, str]:
                await server.shard_hosts.look()
                return {shard.name: shard.host for shard in server.cluster.shards()}

            before = {"shard1": "shard1/shard1:1", "shard2": "shard2/shard2:1"}
            assert await hosts() == before
            monkeypatch.setattr(server.peers, "command", command)
            new = {"setName": "shard2", "isWritablePrimary": True, "hosts": ["shard2:1", "new:1"]}
            for other in ({"setName": "other"}, {"isWritablePrimary": False}):
                told = {**new, **other}
                assert await hosts() == before
            told = new
            assert await hosts() == {**before, "shard2": "shard2/shard2:1,new:1"}
            assert not server.cluster.set_host("shard2", "shard2/shard2:1", "shard2/late:1")
        finally:
            await made.stop()

    asyncio.run(test())
