"""A replica set inside one event loop: whole nodes over in-memory engines and real loopback connections, whose links
to each other a test can cut.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import bson

from docstore.net.errors import NetworkError
from docstore.net.pool import Pool
from docstore.node.process.settings import NodeSettings
from docstore.node.process.start import Extension, NodeProcess
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replication.state import State
from tests.harness.serving import until

SETTINGS = {"electionTimeoutMillis": 1500, "heartbeatIntervalMillis": 100}
"""Longer than a busy machine lets a process wait."""


class Node:
    """One member; `pool` talks to it from outside, through no link that can be cut."""

    def __init__(self, process: NodeProcess, pool: Pool) -> None:
        self.process = process
        self._pool = pool

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.process.node.settings.port}"

    @property
    def replica_set(self) -> ReplicaSet:
        replication = self.process.node.replication
        assert isinstance(replication, ReplicaSet)
        return replication

    @property
    def state(self) -> State:
        return self.replica_set.membership.state

    async def run(self, command: Mapping[str, Any], db: str = "test") -> dict[str, Any]:
        """A command's reply. Errors: CommandError."""
        return bson.decode(await self._pool.command(self.address, db, command))

    async def insert(self, collection: str, *ids: int, w: Any = 1, **fields: Any) -> dict[str, Any]:
        documents = [{"_id": number, **fields} for number in ids]
        concern = {"w": w, "wtimeout": 5000}
        return await self.run({"insert": collection, "documents": documents, "writeConcern": concern})

    async def find(self, collection: str, **options: Any) -> list[dict[str, Any]]:
        preference = {"$readPreference": {"mode": "secondaryPreferred"}}
        reply = await self.run({"find": collection, "batchSize": 100_000, **options, **preference})
        return list(reply["cursor"]["firstBatch"])

    async def hash(self) -> str:
        return str((await self.run({"dbHash": 1}))["md5"])


class InMemorySet:
    """The nodes by number, and the links between them."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.cut: set[tuple[str, str]] = set()
        for node in nodes:
            self._guard(node)

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def config(self, count: int | None = None, **fields: Any) -> dict[str, Any]:
        members = [{"_id": n, "host": node.address} for n, node in enumerate(self.nodes[:count])]
        return {"_id": "rs", "members": members, "settings": SETTINGS, **fields}

    async def initiate(self, count: int | None = None, config: dict[str, Any] | None = None) -> None:
        """Member 0 becomes primary, the others its secondaries or arbiters."""
        config = config or self.config(count)
        await self[0].run({"replSetInitiate": config}, "admin")
        others = self.nodes[1 : len(config["members"])]
        await until(
            lambda: (
                self[0].state.writable
                and all(node.state.member_state.name in ("SECONDARY", "ARBITER") for node in others)
            )
        )

    def isolate(self, number: int) -> None:
        """Nothing passes between this member and the others."""
        here = self[number].address
        for node in self.nodes:
            self.cut |= {(here, node.address), (node.address, here)}

    def heal(self) -> None:
        self.cut.clear()

    async def until_converged(self, *numbers: int) -> None:
        """The same last entry on these members (all), and the same data."""
        nodes = [self[number] for number in numbers] or self.nodes
        stores = [node.process.node.store for node in nodes]
        await until(lambda: len({store.last_optime for store in stores}) == 1, 10)
        assert len({await node.hash() for node in nodes}) == 1

    def _guard(self, node: Node) -> None:
        pool, here = node.process.pool, node.address
        unguarded = pool.command

        async def command(address: str, *arguments: Any, **options: Any) -> bytes:
            if (here, address) in self.cut:
                raise NetworkError(address, "the link is cut", sent=False)
            reply = await unguarded(address, *arguments, **options)
            if (address, here) in self.cut:
                raise NetworkError(address, "the link is cut", sent=True)
            return reply

        unguarded_stream = pool.stream

        async def stream(address: str, *arguments: Any, **options: Any) -> AsyncGenerator[bytes, None]:
            async with contextlib.aclosing(unguarded_stream(address, *arguments, **options)) as replies:
                async for reply in replies:
                    if (here, address) in self.cut or (address, here) in self.cut:
                        raise NetworkError(address, "the link is cut", sent=True)
                    yield reply

        pool.command = command  # type: ignore[method-assign]
        pool.stream = stream  # type: ignore[method-assign]


@contextlib.asynccontextmanager
async def in_memory_set(directory: Path, count: int, **settings: Any) -> AsyncIterator[InMemorySet]:
    """Nodes that listen and know nothing of each other yet; all ended at the end."""
    async with contextlib.AsyncExitStack() as parts:
        pool = Pool(application="test")
        parts.push_async_callback(pool.close)
        nodes = []
        for number in range(count):
            dbpath = directory / str(number)
            dbpath.mkdir()
            chosen = NodeSettings(
                **{
                    "process": "mongod",
                    "host": "127.0.0.1",
                    "port": 0,
                    "dbpath": dbpath,
                    "engine": "inMemory",
                    "set_name": "rs",
                }
                | settings
            )
            process = NodeProcess(chosen, ["127.0.0.1"], Extension())
            await process.start()
            parts.push_async_callback(process.stop)
            nodes.append(Node(process, pool))
        for node in nodes:
            # All end together: a primary that is the last one would wait for a successor.
            parts.callback(setattr, node.process.node, "shutdown_seconds", 0.0)
        yield InMemorySet(nodes)
