"""What a router knows of users: what they may do for a while, what they are known by never longer than one login."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from docstore.commands.access.logins import log_in
from docstore.commands.client_connection import ClientConnection
from docstore.errors import Code
from docstore.security.names import UserName
from docstore.security.privileges import CLUSTER, Privileges
from docstore.security.users import NoUsers, User
from mongos.routing.requests import ShardReply
from mongos.routing.shards import Shard
from mongos.users import RoutedUsers
from tests.unit.migration.local_cluster import Cluster
from tests.unit.mongos.local import LocalCluster, LocalShard
from tests.unit.mongos.test_relayed_cursor import filled
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


def test_while_nobody_tells_of_changes_what_is_known_ends_with_the_interval() -> None:
    async def story() -> None:
        config, _ = await with_ann()
        now = 0.0
        users = RoutedUsers(cast(Shard, config), lambda: now)
        assert users.parameter().get() == 30
        for time, questions in ((0.0, 1), (29.0, 1), (31.0, 2), (59.0, 2), (61.0, 3)):
            now = time
            assert await users.find(ANN) is not None
            assert len(asked(config)) == questions

    loop(story())


def test_before_the_first_user_a_client_of_this_machine_may_add_shards() -> None:
    async def story() -> None:
        cluster = LocalCluster()
        cluster.services.access.enabled = True
        for address, is_stranger in (("127.0.0.1:9", False), ("10.0.0.1:9", True)):
            cluster.peer = ClientConnection(1, address)
            for command in ({"addShard": ""}, {"listShards": 1}):
                reply = await cluster.reply(command, "admin")
                assert (reply.get("code") == Code.Unauthorized) == (is_stranger or "listShards" in command), reply

    loop(story())


def test_ones_own_operations_and_sessions_are_those_of_the_router() -> None:
    async def story() -> None:
        cluster = await filled()
        cast(Any, cluster.router.facts).address = "router:1"
        access = cluster.services.access
        access.directory, access.enabled, access.passes_on = NoUsers(), True, True
        privileges = Privileges({CLUSTER: ("inprog", "listSessions")})
        ann = User(name=ANN, credentials={}, roles=(), privileges=privileges)
        log_in(cluster.peer, ann, access.directory.generation)
        for stage in ({"$currentOp": {}}, {"$listLocalSessions": {}}):
            request = {"aggregate": 1, "pipeline": [stage], "cursor": {}}
            before = len(cluster.a.asked) + len(cluster.b.asked)
            assert (await cluster.reply(request, "admin"))["ok"]
            assert len(cluster.a.asked) + len(cluster.b.asked) == before
        # The shards are asked for those of the user, whom they do not know by the router's connection.
        listed = {"aggregate": "system.sessions", "cursor": {}}
        for own in ({}, {"allUsers": False}, {"users": []}):
            assert (await cluster.reply({**listed, "pipeline": [{"$listSessions": own}]}, "config"))["ok"]
            for shard in (cluster.a, cluster.b):
                first = shard.asked[-1]["pipeline"][0]
                assert first == {"$listSessions": {"users": [{"user": ANN.user, "db": ANN.db}]}}
        everybody = {"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": True}}], "cursor": {}}
        assert (await cluster.reply(everybody, "admin"))["ok"]
        assert len(cluster.a.asked) + len(cluster.b.asked) > before

    loop(story())
