"""What a router knows of users: what they may do for a while, what they are known by never longer than one login."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from docstore.security.names import UserName
from mongos.routing.requests import ShardReply
from mongos.routing.shards import Shard
from mongos.users import RoutedUsers
from tests.unit.migration.local_cluster import Cluster
from tests.unit.mongos.local import LocalShard
from tests.unit.node.local import loop

ANN, NOBODY = UserName("ann", "d"), UserName("nobody", "d")


async def with_ann() -> tuple[LocalShard, RoutedUsers]:
    config = LocalShard("config")
    await config.node.run({"createUser": "ann", "pwd": "p", "roles": ["dbOwner"]}, "d")
    return config, RoutedUsers(cast(Shard, config), lambda: 0.0)


def asked(config: LocalShard) -> list[dict[str, Any]]:
    return [each for each in config.asked if "usersInfo" in each]


class ConfigServers:
    """Those of a cluster in one process, and what they were asked."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.replies: list[bytes] = []

    async def command(self, db: str, command: dict[str, Any], *, repeatable: bool) -> ShardReply:
        assert repeatable
        self.replies.append(await self._cluster.network.command("config:1", db, command))
        return ShardReply("config", "config:1", self.replies[-1])


def test_credentials_are_asked_for_at_each_login_whoever_it_is() -> None:
    """A user who has logged in before is not told from one that there is not by a question that is left out, nor by
    the length of an answer."""

    async def story() -> None:
        made = await Cluster().build(shard=False)
        await made.ask("config", {"createUser": "annann", "pwd": "p", "roles": ["dbOwner"]}, "d")
        config = ConfigServers(made)
        users = RoutedUsers(cast(Shard, config), lambda: 0.0)
        for _ in range(2):
            found, _ = await users.known_by(UserName("annann", "d"), b"")
            assert found is not None
            assert set(found) == {"SCRAM-SHA-1", "SCRAM-SHA-256"}
            nobody = await users.known_by(NOBODY, b"")
            assert nobody.credentials is None
            assert nobody.profile == {mechanism: each.iterations for mechanism, each in found.items()}
        assert len(config.replies) == 4
        assert len({len(each) for each in config.replies}) == 1
        await made.stop()

    asyncio.run(story())


def test_what_a_user_may_do_is_asked_for_once() -> None:
    async def story() -> None:
        config, users = await with_ann()
        assert await users.find(ANN) is await users.find(ANN)
        assert len(asked(config)) == 1
        users.invalidate()
        assert await users.find(ANN) is not None
        assert len(asked(config)) == 2

    loop(story())
