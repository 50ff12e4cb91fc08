"""A cluster of a config server, two shards and two routers, as a context."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymongo

from scripts.deployment import Deployment, Member, replica_set, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until


@dataclass(frozen=True)
class Cluster:
    deployment: Deployment
    clients: list[pymongo.MongoClient[dict[str, Any]]]

    @property
    def client(self) -> pymongo.MongoClient[dict[str, Any]]:
        return self.clients[0]

    def shard(self, collection: str, key: dict[str, int]) -> pymongo.collection.Collection[dict[str, Any]]:
        """A fresh sharded collection."""
        self.client.admin.command("shardCollection", f"test.{collection}", key=key)
        return self.client.test[collection]

    def split_and_move(self, collection: str, at: dict[str, Any]) -> None:
        """Everything from `at` on goes to the second shard."""
        self.client.admin.command("split", f"test.{collection}", middle=at)
        self.client.admin.command("moveChunk", f"test.{collection}", find=at, to="two")

    def chunks(self, collection: str) -> list[dict[str, Any]]:
        namespace = self.client.config.collections.find_one({"_id": f"test.{collection}"})
        assert namespace is not None
        return list(self.client.config.chunks.find({"uuid": namespace["uuid"]}).sort("min", 1))


@contextmanager
def routed_cluster(
    directory: Path, *, members: int = 1, arguments: Sequence[str] = (), key_file: Path | None = None
) -> Iterator[Cluster]:
    """Database `test` is sharded, its primary shard is `one`. Of a shard's members the first is its primary.
    `arguments`: more of those that shards are started with.

    With a `key_file` there is auth: the user `root` with the password `r`, who may do everything, is logged in.
    """
    keys = [] if key_file is None else ["--keyFile", str(key_file)]
    with stopped_at_end(ForkedDeployment(directory)) as deployment:
        sets = {name: replica_set(name, members, [*arguments, *keys]) for name in ("one", "two")}
        config = Member("config-0", "configsvr", keys)
        deployment.start(config, *(member for listed in sets.values() for member in listed))
        for name, listed in sets.items():
            with closing(pymongo.MongoClient(listed[0].address, directConnection=True)) as client:
                rows = [
                    {"_id": number, "host": member.address, "priority": 1 if number == 0 else 0}
                    for number, member in enumerate(listed)
                ]
                client.admin.command("replSetInitiate", {"_id": name, "members": rows})
                wait_until(lambda client=client: client.admin.command("hello")["isWritablePrimary"], 30)
        routers = [Member(f"router-{number}", "mongos", ["--configdb", config.address, *keys]) for number in range(2)]
        deployment.start(*routers)
        credentials = {} if key_file is None else {"username": "root", "password": "r"}
        if credentials:
            with closing(pymongo.MongoClient(routers[0].address)) as client:
                client.admin.command("createUser", "root", pwd="r", roles=["root"])
        clients = [pymongo.MongoClient(router.address, **credentials) for router in routers]
        for name, listed in sets.items():
            hosts = ",".join(member.address for member in listed)
            clients[0].admin.command("addShard", f"{name}/{hosts}", name=name)
        clients[0].admin.command("enableSharding", "test", primaryShard="one")
        yield Cluster(deployment, clients)
        for client in clients:
            client.close()


class Writer(threading.Thread):
    """Does one thing again and again until told to stop; `failure` is what ended it."""

    def __init__(self, act: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self._act = act
        self._stopping = threading.Event()
        self.failure: BaseException | None = None
        self.rounds = 0

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._act(self.rounds)
                self.rounds += 1
        except BaseException as failure:
            self.failure = failure

    def finish(self) -> None:
        self._stopping.set()
        self.join(60)
        if self.failure is not None:
            raise self.failure
