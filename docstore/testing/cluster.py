"""A sharded cluster: shards, config servers, routers."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from docstore.testing.deployment import Deployment, at_least_one
from docstore.testing.member import Member
from docstore.testing.replica_set import ELECTION_SECONDS, MemberSet


class Cluster(Deployment):
    """`shards` replica sets of `members` data nodes each, `config` config servers and `routers` routers."""

    programs = ("mongod", "configsvr", "mongos")

    def __init__(
        self,
        shards: int = 2,
        members: int = 1,
        routers: int = 1,
        *,
        config: int = 1,
        election_seconds: float = ELECTION_SECONDS,
        engine: str = "rocksdb",
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Shards are "shard0", "shard1", ..., members "shard0-0", config servers "config-0", routers "router-0"."""
        at_least_one(shards=shards, members=members, routers=routers, config=config)
        super().__init__(engine=engine, parameters=parameters)
        nodes = [self._add(f"config-{number}", "configsvr", "--replSet", "config") for number in range(config)]
        self.config = MemberSet(self, "config", nodes, election_seconds)
        self.shards: dict[str, MemberSet] = {}
        """The set of each shard, by its name."""
        for shard in range(shards):
            name = f"shard{shard}"
            nodes = [self._add(f"{name}-{n}", "mongod", "--shardsvr", "--replSet", name) for n in range(members)]
            self.shards[name] = MemberSet(self, name, nodes, election_seconds)
        self._routers = routers
        self.routers: tuple[Member, ...] = ()

    @property
    def uri(self) -> str:
        return f"mongodb://{','.join(router.address for router in self.routers)}/"

    def settle(self) -> None:
        for member_set in (self.config, *self.shards.values()):
            member_set.wait()

    def primary(self, shard: str) -> Member:
        """The member of a shard that takes writes; waits for one. Errors: KeyError, StartFailed."""
        return self.shards[shard].wait_primary()

    def step_down(self, shard: str, seconds: int = 60) -> None:
        """Make a shard's primary step down; it stays ineligible for that long."""
        self.shards[shard].step_down(seconds)

    def shard_collection(self, namespace: str, key: Mapping[str, Any], *, unique: bool = False) -> None:
        """Make "database.collection" sharded by this key."""
        database = namespace.partition(".")[0]
        admin = self.client().admin
        admin.command("enableSharding", database)
        admin.command("shardCollection", namespace, key=dict(key), unique=unique)

    def split(self, namespace: str, middle: Mapping[str, Any]) -> None:
        """Cut the chunk that holds this key in two, before it."""
        self.client().admin.command("split", namespace, middle=dict(middle))

    def move_chunk(self, namespace: str, find: Mapping[str, Any], to: str) -> None:
        """Move the chunk that holds this key to another shard; return when the donor has deleted its copy."""
        self.client().admin.command("moveChunk", namespace, find=dict(find), to=to, _waitForDelete=True)

    def _start(self) -> None:
        sets = [self.config, *self.shards.values()]
        nodes = [member for member_set in sets for member in member_set.members]
        self._launch(*nodes)
        with ThreadPoolExecutor(len(sets)) as pool:
            list(pool.map(self._initiate, sets))
        self.routers = tuple(
            self._add(f"router-{number}", "mongos", "--configdb", self.config.address)
            for number in range(self._routers)
        )
        self._launch(*self.routers)
        with ThreadPoolExecutor(len(self.shards)) as pool:
            list(pool.map(self._add_shard, self.shards.values()))

    def _initiate(self, member_set: MemberSet) -> None:
        member_set.initiate(**({"configsvr": True} if member_set is self.config else {}))
        member_set.wait()

    def _add_shard(self, member_set: MemberSet) -> None:
        self.client(self.routers[0]).admin.command("addShard", member_set.address, name=member_set.name)
