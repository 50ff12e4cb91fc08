"""A real server, a node of ours and a router, all with users, that are asked the same."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import bson
import pymongo

from docstore.security.scram import SHA_1
from scripts import reference
from scripts.cluster import initiate
from scripts.deployment import Deployment, Member, places_of, replica_set, stopped_at_end, unused_port
from tests.differential.narrow.users import users_made
from tests.harness.raw_client import RawClient, Unanswered
from tests.harness.reference import accepts
from tests.harness.waiting import wait_until

PASSWORD = "p"
_REPLY_SECONDS = 20.0
_PARAMETERS = ["--setParameter", "transactionLifetimeLimitSeconds=5"]


class Server:
    """A server that is asked: its name, its port, and a connection for each user."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.clients: dict[str, RawClient] = {}
        self.cursors: list[int] = []

    def client(self, user: str) -> RawClient:
        if user not in self.clients:
            self.clients[user] = RawClient(self.port, user, PASSWORD, _REPLY_SECONDS)
        return self.clients[user]

    def forget(self) -> None:
        for client in self.clients.values():
            client.close()
        self.clients.clear()

    def run_all(self, commands: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """Run commands as root, all at once."""
        self.begin_all(commands)
        return self.replies(len(commands))

    def begin_all(self, commands: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        self.client("root").begin([(bson.encode({**command, "$db": db}), {}) for db, command in commands])

    def replies(self, count: int) -> list[dict[str, Any]]:
        try:
            return [bson.decode(reply) for reply in self.client("root").finish(count)]
        except Unanswered as error:
            raise Unanswered(error.position, RuntimeError(f"{self.name}: {error}")) from error


@contextmanager
def servers(directory: Path, *, replicated: bool = True) -> Iterator[tuple[Server, list[Server], Callable[[], None]]]:
    """(the real server, ours, what starts the real one anew): sets of one member, and a router to two shards.

    Not `replicated`: the real server and the node stand alone.
    """
    directory.mkdir(parents=True, exist_ok=True)
    key = directory / "key"
    key.touch(mode=0o600)
    key.write_text(secrets.token_urlsafe(64).replace("-", "+").replace("_", "/"))
    safe = ["--keyFile", str(key)]
    with ExitStack() as stack:
        alone = [*_PARAMETERS, *(["--replSet", "rs"] if replicated else [])]
        real = _Reference(directory / "reference", [*safe, *alone])
        stack.callback(real.stop)
        real.start()
        deployment = stack.enter_context(stopped_at_end(Deployment(directory / "ours")))
        ours = [*safe, "--emulate", "6.0"]
        node = Member("node", "mongod", [*ours, *alone])
        config, shards = (
            Member("config", "configsvr", list(ours)),
            [member for name in ("one", "two") for member in replica_set(name, 1, [*ours, *_PARAMETERS])],
        )
        deployment.start(node, config, *shards)
        if replicated:
            initiate("rs", [node])
            _initiate(real.port)
        for shard, name in zip(shards, ("one", "two"), strict=True):
            initiate(name, [shard])
        router = Member("router", "mongos", ["--configdb", config.address, *ours])
        deployment.start(router)
        for port in (real.port, node.port, router.port):
            with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", port, directConnection=True) as client:
                client.admin.command("createUser", "root", pwd=PASSWORD, roles=["root"], mechanisms=[SHA_1])
        made = [
            Server(name, port) for name, port in (("real", real.port), ("node", node.port), ("router", router.port))
        ]
        for shard, name in zip(shards, ("one", "two"), strict=True):
            reply = made[2].client("root").run("admin", {"addShard": f"{name}/{shard.address}", "name": name})
            assert reply["ok"], reply
        for server in made:
            for reply in server.run_all([("admin", command) for command in users_made()]):
                assert reply["ok"], (server.name, reply)

        def revive() -> None:
            made[0].forget()
            real.start()

        yield made[0], made[1:], revive


def _initiate(port: int) -> None:
    """Make a set of one of a real server."""
    with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", port, directConnection=True) as client:
        client.admin.command("replSetInitiate", {"_id": "rs", "members": [{"_id": 0, "host": f"127.0.0.1:{port}"}]})
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 30)


class _Reference:
    """A real server that may be started again."""

    def __init__(self, directory: Path, options: list[str]) -> None:
        directory.mkdir(parents=True)
        self.port = unused_port()
        self._directory = directory
        self._replicated = "--replSet" in options
        self._command = [*reference.command(), *places_of(directory, self.port), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        again = self._process is not None
        self.stop()
        with (self._directory / "output").open("ab") as output:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        wait_until(lambda: accepts(self.port), 60)
        if again and self._replicated:
            with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", self.port, directConnection=True) as client:
                wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 60)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
