"""Members that their configuration names by a forwarder's address: NAT, a proxy, a container's published port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from docstore.net.pool import Pool
from docstore.node.process.settings import NodeSettings
from docstore.node.process.start import Extension, NodeProcess
from docstore.replication.states import MemberState
from tests.harness.serving import LOOPBACK, run, until
from tests.unit.replicaset.in_memory_set import SETTINGS, Node


class Forwarder:
    """What comes in at `address` goes on to the node, or nowhere when that is None. `carried` counts connections."""

    def __init__(self) -> None:
        self.node: Node | None = None
        self.address = ""
        self.carried = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.carried += 1
        with contextlib.closing(writer), contextlib.suppress(OSError):
            if self.node is None:
                return
            port = self.node.process.node.settings.port
            back, out = await asyncio.open_connection(LOOPBACK, port)
            with contextlib.closing(out):
                ways = [asyncio.create_task(_carry(reader, out)), asyncio.create_task(_carry(back, writer))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


@contextlib.asynccontextmanager
async def forwarding() -> AsyncIterator[Forwarder]:
    forwarder = Forwarder()
    server = await asyncio.start_server(forwarder.serve, LOOPBACK, 0)
    forwarder.address = f"{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield forwarder


@contextlib.asynccontextmanager
async def member(dbpath: Path) -> AsyncIterator[Node]:
    """A node over this directory, at a port that nobody was told of."""
    dbpath.mkdir(exist_ok=True)
    pool = Pool(application="test")
    settings = NodeSettings(process="mongod", host=LOOPBACK, port=0, dbpath=dbpath, set_name="rs")
    process = NodeProcess(settings, [LOOPBACK], Extension())
    await process.start()
    try:
        process.node.shutdown_seconds = 0.0
        yield Node(process, pool)
    finally:
        await process.stop()
        await pool.close()


async def initiate(node: Node, forwarder: Forwarder) -> None:
    forwarder.node = node
    members = [{"_id": 0, "host": forwarder.address}]
    await node.run({"replSetInitiate": {"_id": "rs", "members": members, "settings": SETTINGS}}, "admin")
    await until(lambda: node.state.writable)
    await node.insert("c", 1, w="majority")


def test_a_member_behind_a_forwarder_finds_itself_again_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with forwarding() as forwarder:
            async with member(tmp_path / "a") as node:
                await initiate(node, forwarder)
                forwarder.node = None
            async with member(tmp_path / "a") as node:
                # The forwarder is up later than we are.
                await until(lambda: forwarder.carried > 2)
                assert node.state.member_state is MemberState.REMOVED
                forwarder.node = node
                await until(lambda: node.state.writable)
                assert [row["_id"] for row in await node.find("c")] == [1]

    run(scenario())


def test_a_member_never_takes_another_process_for_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with forwarding() as forwarder, member(tmp_path / "b") as other:
            async with member(tmp_path / "a") as node:
                await initiate(node, forwarder)
                forwarder.node = other
            carried = forwarder.carried
            async with member(tmp_path / "a") as node:
                await until(lambda: forwarder.carried > carried)
                await node.run({"ping": 1}, "admin")
                await other.run({"ping": 1}, "admin")
                await until(lambda: any(peer.up for peer in node.state.peers.values()))
                assert node.state.member_state is MemberState.REMOVED
                forwarder.node = node

    run(scenario())
