"""A config server and two shards of one member each as real processes, and a small router of the tests' own.

The router does what `mongos` does for single documents: it routes by the config server's chunks, sends shard versions,
refreshes when they are stale, and says when an outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bson
import pymongo
from bson.raw_bson import RawBSONDocument
from pymongo.errors import ConnectionFailure, OperationFailure, ServerSelectionTimeoutError

from docstore.errors import STATE_CHANGE_CODES, Code
from docstore.sharding import requests
from docstore.sharding.chunk import Chunk
from docstore.sharding.routing import Routing, apply_routing, routing_request
from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import tried_until_done, wait_until

NAMESPACE = "test.test"
_AGAIN = frozenset((*STATE_CHANGE_CODES, Code.StaleConfig, Code.HostUnreachable, Code.FailedToSatisfyReadPreference))
RAW: Any = bson.codec_options.CodecOptions(document_class=RawBSONDocument)


class Unknown(Exception):
    """A write may or may not have happened."""


class NotNow(Exception):
    """Nothing was done, and it may be asked for again."""


class TwoShards:
    """Processes "config", "shard1", "shard2" (and "shard1-b", ... with more members), initiated; `test.test` sharded by
    {id: 1}."""

    def __init__(self, directory: Path, *, members: int = 1) -> None:
        self.deployment = ForkedDeployment(directory)
        self.config = Member("config", "configsvr", [])
        arguments = ["--shardsvr", "--setParameter", "orphanCleanupDelaySecs=0"]
        self.shards = {
            name: [
                Member(name if number == 0 else f"{name}-{number}", "mongod", [*arguments, "--replSet", f"set_{name}"])
                for number in range(members)
            ]
            for name in ("shard1", "shard2")
        }

    def build(self) -> None:
        everyone = [self.config, *self.shards["shard1"], *self.shards["shard2"]]
        self.deployment.start(*everyone)
        self._initiate(self._set_name("config"), [self.config], configsvr=True)
        for name, members in self.shards.items():
            self._initiate(self._set_name(name), members)
        with self.client("config") as client:
            for name, members in self.shards.items():
                hosts = ",".join(member.address for member in members)
                client.admin.command(requests.add_shard(f"{self._set_name(name)}/{hosts}", name))
            client.admin.command(requests.enable_sharding("test", "shard1"))
        with self.client("shard1") as client:
            client.admin.command(requests.shard_collection(NAMESPACE, {"id": 1}, False))

    def _initiate(self, set_name: str, members: list[Member], **fields: Any) -> None:
        listed = [{"_id": number, "host": member.address} for number, member in enumerate(members)]
        settings = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}
        with pymongo.MongoClient(members[0].address, directConnection=True) as client:
            configuration = {"_id": set_name, "members": listed, "settings": settings, **fields}
            client.admin.command("replSetInitiate", configuration)
            wait_until(lambda: client.admin.command("hello").get("isWritablePrimary"), 20)

    def member(self, name: str) -> pymongo.MongoClient[dict[str, Any]]:
        """A client of one process."""
        address = self.deployment.members[name].address
        return pymongo.MongoClient(address, directConnection=True, serverSelectionTimeoutMS=2000)

    def client(self, name: str) -> pymongo.MongoClient[dict[str, Any]]:
        """A client of a shard or of the config servers that follows the primary."""
        members = self.shards.get(name, [self.config])
        hosts = [self.deployment.members[member.name].address for member in members]
        return pymongo.MongoClient(hosts, replicaSet=self._set_name(name), serverSelectionTimeoutMS=2000)

    def _set_name(self, name: str) -> str:
        return "configReplSet" if name == "config" else f"set_{name}"

    def split(self, value: int) -> None:
        with Router(self) as router:
            router.refresh()
            chunk, key = router.chunk(value), router.key
            point = key.bound(bson.encode({"id": value}))
            command = requests.split_chunk(
                NAMESPACE, key.document(), chunk.range, [point], epoch=router.epoch, shard=chunk.shard
            )
            with self.client(chunk.shard) as client:
                client.admin.command(command)

    def move(self, value: int, to: str) -> None:
        """Move the chunk of an id. OperationFailure, ConnectionFailure."""
        with Router(self) as router:
            routing = router.refresh()
            chunk = router.chunk(value)
            if chunk.shard != to:
                with self.client(chunk.shard) as client:
                    client.admin.command(requests.move_range(NAMESPACE, chunk.range, routing.version(), to))

    def unfinished(self) -> list[str]:
        """What migrations and range deletions are left, by shard."""
        left = []
        for name in self.shards:
            with self.client(name) as client:
                for collection in ("migrationCoordinators", "rangeDeletions"):
                    left += [f"{name}: {collection} {row}" for row in client.config[collection].find()]
        return left

    def settle(self, timeout: float = 60.0) -> None:
        """Return once nothing is left to do."""
        wait_until(lambda: not self.unfinished(), timeout)


class Router:
    """One thread's view of the cluster."""

    def __init__(self, cluster: TwoShards) -> None:
        self._clients = {name: cluster.client(name) for name in ("config", "shard1", "shard2")}
        self._routing: Routing | None = None

    def __enter__(self) -> Router:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients.values():
            client.close()

    def refresh(self, timeout: float = 60.0) -> Routing:
        def ask() -> Any:
            return self._clients["config"].admin.command(routing_request(NAMESPACE, None), codec_options=RAW)

        reply = tried_until_done(ask, (ConnectionFailure, OperationFailure), timeout)
        self._routing = apply_routing(NAMESPACE, None, reply.raw)
        return self._routing

    @property
    def routing(self) -> Routing:
        return self._routing or self.refresh()

    @property
    def key(self) -> Any:
        assert self.routing.collection is not None
        return self.routing.collection.key

    @property
    def epoch(self) -> Any:
        assert self.routing.collection is not None
        return self.routing.collection.epoch

    def chunk(self, value: int) -> Chunk:
        assert self.routing.collection is not None
        return self.routing.collection.chunks.chunk_at(self.key.bound(bson.encode({"id": value})).key)

    def write(self, command: dict[str, Any], value: int, timeout: float = 60.0) -> dict[str, Any]:
        """Run a write of one document where its id belongs. Errors: Unknown when it may have happened; NotNow."""
        return tried_until_done(lambda: self._write(command, value), (NotNow,), timeout)

    def _write(self, command: dict[str, Any], value: int) -> dict[str, Any]:
        shard = self.chunk(value).shard
        version = self.routing.shard_version(shard).to_document()
        try:
            reply = self._clients[shard].test.command({**command, "shardVersion": version})
        except ConnectionFailure as error:
            if not isinstance(error, ServerSelectionTimeoutError):
                raise Unknown from error
            self.refresh()
            raise NotNow from error
        except OperationFailure as error:
            if error.code == Code.InterruptedDueToReplStateChange:
                raise Unknown from error
            if error.code not in _AGAIN:
                raise
            self.refresh()
            raise NotNow from error
        errors = reply.get("writeErrors", [])
        if any(row["code"] == Code.InterruptedDueToReplStateChange for row in errors):
            raise Unknown
        if any(row["code"] in _AGAIN for row in errors):
            self.refresh()
            raise NotNow(str(errors))
        assert not errors, errors
        return dict(reply)

    def find_all(self, timeout: float = 60.0) -> list[dict[str, Any]]:
        """Every document that a broadcast read finds."""
        return tried_until_done(self._find_all, (ConnectionFailure, OperationFailure), timeout)

    def _find_all(self) -> list[dict[str, Any]]:
        routing = self.refresh()
        assert routing.collection is not None
        found: list[dict[str, Any]] = []
        for shard in sorted(routing.collection.chunks.shards):
            version = routing.shard_version(shard).to_document()
            command = {"find": "test", "batchSize": 100_000, "shardVersion": version}
            found += self._clients[shard].test.command(command)["cursor"]["firstBatch"]
        return found


@contextmanager
def two_shards(directory: Path, *, members: int = 1) -> Iterator[TwoShards]:
    """The running cluster; nothing is left of it afterwards."""
    cluster = TwoShards(directory, members=members)
    with stopped_at_end(cluster.deployment):
        cluster.build()
        yield cluster
