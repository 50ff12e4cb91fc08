"""The driver of a DDL operation: which shards it goes on without."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.net.peers import Peers
from docstore.sharding.ddl.operation import Kind, Operation
from mongod.ddl import driver
from mongod.ddl.driver import Driver
from mongod.migration.shard import Shard


class ConfigServers:
    """They do not show the shard until they have been asked so often; `removed`: what the newest state says."""

    def __init__(self, *, removed: bool) -> None:
        self.asked = 0
        self._removed = removed

    async def shard_host(self, shard: str) -> str:
        self.asked += 1
        if self._removed or self.asked < 3:
            raise CommandError(Code.ShardNotFound, f"Shard {shard} not found")
        return f"{shard}/{shard}:1"

    async def is_removed(self, _shard: str) -> bool:
        return self._removed


@pytest.mark.parametrize("removed", [True, False])
def test_a_shard_that_is_not_shown_is_gone_only_where_that_is_certain(
    removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "_RETRY_SECONDS", 0.001)
    asked: list[Mapping[str, Any]] = []

    async def command(_host: str, _db: str, body: Mapping[str, Any], *, timeout: float) -> bytes:
        asked.append(body)
        return bson.encode({"done": timeout > 0})

    async def test() -> None:
        config = ConfigServers(removed=removed)
        records = SimpleNamespace(may_write=lambda: True)
        shard = cast(Shard, SimpleNamespace(records=records, config_servers=lambda: config))
        operation = Operation.create(bytes(16), Kind.DROP_COLLECTION, "test.c", {})
        driving = Driver(shard, cast(Peers, SimpleNamespace(command=command)), operation)
        reply = await driving._ask_until("two", {"drop": "c"}, 1.0, may_fail=False)
        assert (reply, len(asked)) == (({}, 0) if removed else ({"done": True}, 1))

    asyncio.run(test())
