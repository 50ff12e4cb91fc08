"""A config server and shards in one process: real nodes, catalog and migrations; no sockets, no elections.

Every set has one member over an in-memory engine. `kill` ends a member as kill -9 does: its tasks stop where they are,
whoever waits for it gets a NetworkError, and nothing but the engine survives. `restart` makes a new member over that
engine, in a new term.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import bson
from bson.binary import Binary
from bson.int64 import Int64
from bson.objectid import ObjectId

from configsvr.composition import extension as config_extension
from docstore.bson import document_to_python
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.store import Store
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Services
from docstore.commands.cursors import CursorRegistry
from docstore.commands.declaration import CommandTable
from docstore.commands.dispatch import Dispatcher, Pending, StreamedReply
from docstore.commands.operations.registry import OperationRegistry
from docstore.commands.parameters import ParameterTable
from docstore.commands.sessions.registry import ClientSessions
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.net import NetworkError
from docstore.net.pool import Pool, raise_for_error
from docstore.node.commands import COMMANDS
from docstore.node.commands.unsupported import UNSUPPORTED
from docstore.node.node import DataNode
from docstore.node.process.settings import ClusterRole, NodeSettings
from docstore.node.process.start import Extension, Service
from docstore.node.shard_filter import Blocked, ShardFilter
from docstore.node.transactions.registry import TransactionRegistry, transactions_of
from docstore.replicaset.standalone import Standalone
from docstore.sharding import requests
from docstore.sharding.chunk import Chunk
from docstore.sharding.routing import Routing, apply_routing, routing_request
from docstore.sharding.version import ShardVersion
from docstore.storage import Batch, Engine, open_engine
from docstore.widecolumn.node.keyspaces import attach as attach_wide_columns
from docstore.widecolumn.node.storage_mode import WideColumnMode
from docstore.wire.message import Message
from mongod.ddl import COMMANDS as DDL_COMMANDS
from mongod.ddl import attach as attach_ddl
from mongod.document.commands import merge_temporary
from mongod.migration import COMMANDS as MIGRATION_COMMANDS
from mongod.migration import Shard, Tunables, attach
from mongod.migration.range_cloner import RangeCloner
from mongod.widecolumn.commands import COMMANDS as WIDE_COMMANDS
from mongod.widecolumn.range_cloner import RowRangeCloner

NAMESPACE = "test.test"
PATIENCE_SECONDS = 30.0


async def turns(count: int = 200) -> None:
    """Return when whatever waits for nothing has come to its end, or to where it waits."""
    for _ in range(count):
        await asyncio.sleep(0)


class Powered:
    """An engine that takes no more writes once the power is off."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.on = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def write(self, batch: Batch) -> None:
        if not self.on:
            raise asyncio.CancelledError
        self._engine.write(batch)


class OneMember(Standalone):
    """A replica set whose one member is always its primary."""

    def __init__(self, store: Store, engine: Engine, set_name: str, address: str) -> None:
        super().__init__(store, engine_flush=engine.flush, snapshot=engine.snapshot)
        self.set_name = set_name
        self._address = address
        self._version = {"processId": ObjectId(), "counter": Int64(1)}
        oplog = store.attach_oplog(1 << 30)
        oplog.term = max(oplog.last.term, 0) + 1

    def hello(self) -> dict[str, Any]:
        return {
            "isWritablePrimary": True,
            "secondary": False,
            "setName": self.set_name,
            "setVersion": 1,
            "hosts": [self._address],
            "primary": self._address,
            "me": self._address,
        }

    def topology_version(self) -> dict[str, Any]:
        return self._version

    async def wait_oplog(self, after: int, timeout: float) -> None:
        await asyncio.sleep(timeout)


class Secondary(OneMember):
    """A member that takes no writes; what it has comes by `Member.follow`."""

    def hello(self) -> dict[str, Any]:
        return {**super().hello(), "isWritablePrimary": False, "secondary": True}

    def check_write(self) -> None:
        raise CommandError(Code.NotWritablePrimary, "not primary")


class Network:
    """Stands for the pool of every process: dispatches to members by address."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.seen: list[tuple[str, str]] = []
        """(address, command) of each request but hello."""
        self.answered: list[tuple[str, str]] = []
        """Of those that were, whether or not the answer is lost on its way."""
        self.kept_waiting: list[tuple[str, str]] = []
        """(member, namespace) of each operation that waits for somebody who has the collection to himself."""
        self.lose_reply: Callable[[str, str], bool] = lambda address, command: False
        self.held: dict[str, asyncio.Event] = {}
        """By command: a request of that name is delivered when the event is set, even if its sender is gone by then."""
        self.dying: list[asyncio.Future[None]] = []
        self._under_way: set[asyncio.Future[bytes]] = set()
        self._happening = asyncio.Event()

    def happened(self) -> None:
        """Said of whatever a test may wait for."""
        self._happening.set()
        self._happening = asyncio.Event()

    async def until(self, condition: Callable[[], object]) -> None:
        """Return when the condition holds. It is looked at when something has happened: a request was sent or answered,
        a member has written, has an operation wait, or is gone. Errors: TimeoutError.
        """
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await self._happening.wait()

    async def comes(self, command: str, *, to: str = "", times: int = 1) -> None:
        """Return when so many requests of that name have been sent, to that member where one is named."""
        await self.until(
            lambda: times <= sum(name == command and address.startswith(to) for address, name in self.seen)
        )

    async def waits(self, name: str, namespace: str, times: int = 1) -> None:
        """Return when so many operations on a namespace have come to a member that has them wait."""
        await self.until(lambda: self.kept_waiting.count((name, namespace)) >= times)

    async def command(
        self,
        address: str,
        db: str,
        command: Mapping[str, Any] | bytes,
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        timeout: float = 30.0,
        check: bool = True,
    ) -> bytes:
        body = command if isinstance(command, bytes) else bson.encode(command)
        name = next(iter(document_to_python(body)))
        member = self.members.get(address)
        if member is None:
            raise NetworkError(address, "nobody listens", sent=False)
        if name != "hello":
            self.seen.append((address, name))
            self.happened()
        request = asyncio.ensure_future(self._deliver(address, name, db, body, dict(sequences or {})))
        self._under_way.add(request)
        request.add_done_callback(self._under_way.discard)
        gone = asyncio.ensure_future(member.gone.wait())
        try:
            await asyncio.wait((request, gone), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if request.done():
                self.answered.append((address, name))
            self.happened()
            if gone.done() or not request.done() or self.lose_reply(address, name):
                raise NetworkError(address, "the connection broke", sent=True)
            reply = request.result()
        finally:
            if name not in self.held:
                request.cancel()
            gone.cancel()
        if check:
            raise_for_error(reply)
        return reply

    def give_up_silent(self, address: str, since: float) -> None:
        """There are no connections: what a member does not answer has failed when it went."""

    def give_up_earlier(self, address: str, process_id: object) -> None:
        """The same."""

    async def _deliver(self, address: str, name: str, db: str, body: bytes, sequences: dict[str, list[bytes]]) -> bytes:
        if name in self.held:
            await self.held[name].wait()
        return await self.members[address].handle(db, body, sequences)


class Member:
    """One process, until it is killed."""

    def __init__(
        self, network: Network, name: str, role: ClusterRole, engine: Engine, kind: type[OneMember] = OneMember
    ) -> None:
        self.network = network
        self.name = name
        self.address = f"{name}:1"
        self.role = role
        self.engine = engine
        self.gone = asyncio.Event()
        self._power = Powered(engine)
        engine = cast(Engine, self._power)
        self.tunables = Tunables(orphan_delay=0.0, delete_pause=0.0)
        extension = self._extension()
        store = Store(engine, clock=time.time, mode=extension.mode)
        replication = kind(store, engine, name, self.address)
        self.node = DataNode(
            settings=NodeSettings(process="mongod", host=name, port=1, dbpath=Path("/"), set_name=name, role=role),
            engine=engine,
            store=store,
            replication=replication,
            parameters=ParameterTable(extension.parameters),
            clock=time.monotonic,
            wall_clock=time.time,
            started=time.monotonic(),
        )
        TransactionRegistry(self.node)
        ids = itertools.count(1)
        services = Services(
            table=CommandTable([*COMMANDS, *extension.commands], unsupported=UNSUPPORTED),
            host=replication,
            sessions=ClientSessions(time.monotonic, lambda: bytes(16)),
            cursors=CursorRegistry(time.monotonic, lambda: next(ids)),
            operations=OperationRegistry(time.monotonic),
            clock=time.monotonic,
            wall_clock=time.time,
            parts=self.node.parts,
            transactions=transactions_of(self.node),
            parameters=self.node.parameters,
        )
        self._dispatcher = Dispatcher(services)
        self._services = list(extension.services(self.node, network))  # type: ignore[arg-type]
        store.subscribe(lambda _commit: network.happened())
        if self.node.shard_filter is not None:
            self._tell_of_waiting(self.node.shard_filter)

    def _extension(self) -> Extension:
        if self.role is ClusterRole.CONFIG:
            return config_extension()
        if self.role is ClusterRole.NONE:
            return Extension()
        return Extension(
            commands=(merge_temporary.COMMAND, *WIDE_COMMANDS, *MIGRATION_COMMANDS, *DDL_COMMANDS),
            services=self._shard_services,
            parameters=self.tunables.parameters(),
            mode=WideColumnMode(),
        )

    def _shard_services(self, node: DataNode, pool: Pool) -> list[Service]:
        attach_wide_columns(node)
        node.parts[RangeCloner] = RowRangeCloner(node)
        shard = attach(node, pool, self.tunables)
        return [shard, attach_ddl(node, shard)]

    @property
    def shard(self) -> Shard:
        service, _ = self._services
        assert isinstance(service, Shard)
        return service

    async def start(self) -> Member:
        for service in self._services:
            await service.start()
        self.network.members[self.address] = self
        return self

    def _tell_of_waiting(self, shard_filter: ShardFilter) -> None:
        check, check_change = shard_filter.check_version, shard_filter.check_change

        def waits(namespace: str) -> None:
            self.network.kept_waiting.append((self.name, namespace))
            self.network.happened()

        def telling(namespace: str, shard_version: bytes | None, *, write: bool) -> Predicate | None:
            try:
                return check(namespace, shard_version, write=write)
            except Blocked:
                waits(namespace)
                raise

        def telling_of_changes(namespace: str) -> None:
            try:
                check_change(namespace)
            except Blocked:
                waits(namespace)
                raise

        shard_filter.check_version = telling  # type: ignore[method-assign]
        shard_filter.check_change = telling_of_changes  # type: ignore[method-assign]

    async def stop(self) -> None:
        self.network.members.pop(self.address, None)
        self.gone.set()
        for service in self._services:
            await service.stop()

    def follow(self, source: Member) -> None:
        """Apply whatever another member has logged and this one has not."""
        store, theirs = self.node.store, source.node.store.oplog
        assert theirs is not None
        for entry in list(theirs.scan(source.engine, store.last_optime.timestamp)):
            apply_entry(store, entry)

    def kill(self) -> None:
        """As kill -9: nothing that is still under way here has an effect."""
        self._power.on = False
        self.network.members.pop(self.address, None)
        self.gone.set()
        self.network.happened()
        self.network.dying.append(asyncio.ensure_future(self._bury()))

    async def _bury(self) -> None:
        for service in self._services:
            await service.stop()

    async def handle(self, db: str, body: bytes, sequences: dict[str, list[bytes]]) -> bytes:
        raw = bson.encode({"$db": db})[4:-1]
        request = (len(body) + len(raw)).to_bytes(4, "little") + body[4:-1] + raw + b"\0"
        peer = ClientConnection(1, "test:1")
        peer.greets_as_process = True
        answered = self._dispatcher.handle(Message(1, 0, request, sequences), peer)
        if isinstance(answered, Pending):
            answered = await answered.finish()
        reply = answered.body if isinstance(answered, StreamedReply) else answered
        assert isinstance(reply, bytes)
        return reply


class Cluster:
    """Config server "config" and shards "shard1", "shard2"; `test.test` sharded by {id: 1} once `build` has returned.

    It is its own router: `write` and `visible` route by the catalog, send versions and refresh when they are stale.
    """

    def __init__(self) -> None:
        self.network = Network()
        self.members: dict[str, Member] = {}
        self.routing: Routing | None = None

    async def build(self, *, shard: bool = True) -> Cluster:
        for name, role in (
            ("config", ClusterRole.CONFIG),
            ("shard1", ClusterRole.SHARD),
            ("shard2", ClusterRole.SHARD),
        ):
            self.members[name] = await Member(self.network, name, role, open_engine("inMemory", "")).start()
        for name in ("shard1", "shard2"):
            await self.ask("config", requests.add_shard(f"{name}/{name}:1", name))
        await self.ask("config", requests.enable_sharding("test", "shard1"))
        if shard:
            await self.ask("shard1", requests.shard_collection(NAMESPACE, {"id": 1}, False))
            await self.refresh()
        return self

    async def stop(self) -> None:
        for member in self.members.values():
            if not member.gone.is_set():
                await member.stop()
        await asyncio.gather(*self.network.dying, return_exceptions=True)

    async def restart(self, name: str) -> Member:
        """A new process over the data of a killed one."""
        old = self.members[name]
        self.members[name] = await Member(self.network, name, old.role, old.engine).start()
        return self.members[name]

    async def ask(self, name: str, command: Mapping[str, Any], db: str = "admin") -> dict[str, Any]:
        """The reply of a member; CommandError or NetworkError."""
        return document_to_python(await self.network.command(f"{name}:1", db, command))

    async def refresh(self) -> Routing:
        self.routing = await self.routing_of(NAMESPACE)
        return self.routing

    async def routing_of(self, namespace: str) -> Routing:
        """As the config servers have it."""
        reply = await self.network.command("config:1", "admin", routing_request(namespace, None))
        return apply_routing(namespace, None, reply)

    def chunk(self, value: str) -> Chunk:
        """The chunk of an id, as routed now."""
        assert self.routing is not None
        assert self.routing.collection is not None
        chunks = self.routing.collection.chunks
        return chunks.chunk_at(chunks.key.key_of(bson.encode({"id": value})))

    async def split(self, value: str) -> None:
        await self.refresh()
        chunk, key = self.chunk(value), self.key
        command = requests.split_chunk(
            NAMESPACE, key.document(), chunk.range, [key.bound(bson.encode({"id": value}))], epoch=self.epoch,
            shard=chunk.shard,
        )  # fmt: skip
        await self.ask(chunk.shard, command)
        await self.refresh()

    @property
    def key(self) -> Any:
        assert self.routing is not None
        assert self.routing.collection is not None
        return self.routing.collection.key

    @property
    def epoch(self) -> ObjectId:
        assert self.routing is not None
        assert self.routing.collection is not None
        return self.routing.collection.epoch

    @property
    def uuid(self) -> Binary:
        assert self.routing is not None
        assert self.routing.collection is not None
        return self.routing.collection.uuid

    async def move(self, value: str, to: str) -> None:
        """Move the chunk that holds an id."""
        routing = await self.refresh()
        chunk = self.chunk(value)
        await self.ask(chunk.shard, requests.move_range(NAMESPACE, chunk.range, routing.version(), to))
        await self.refresh()

    def versioned(self, command: dict[str, Any], version: ShardVersion) -> dict[str, Any]:
        return {**command, "shardVersion": version.to_document()}

    async def write(self, command: dict[str, Any], value: str, *, patience: float = 20.0) -> dict[str, Any]:
        """Send a write of one document to where its id belongs, again while that is stale or away."""
        deadline = time.monotonic() + patience
        while True:
            assert self.routing is not None
            shard = self.chunk(value).shard
            try:
                reply = await self.ask(shard, self.versioned(command, self.routing.shard_version(shard)), "test")
            except (CommandError, NetworkError) as error:
                sent = isinstance(error, NetworkError) and error.sent
                if (
                    time.monotonic() > deadline
                    or sent
                    or (isinstance(error, CommandError) and error.code != Code.StaleConfig)
                ):
                    raise
                await asyncio.sleep(0.005)
                await self.refresh()
                continue
            if reply.get("writeErrors"):
                raise CommandError(reply["writeErrors"][0]["code"], reply["writeErrors"][0]["errmsg"])
            return reply

    async def insert(self, value: str, **fields: Any) -> None:
        await self.write({"insert": "test", "documents": [{"_id": value, "id": value, **fields}]}, value)

    async def visible(self, *, patience: float = 20.0) -> dict[str, list[dict[str, Any]]]:
        """Every document that a broadcast read finds, by id: each id should be there once."""
        found: dict[str, list[dict[str, Any]]] = {}
        for reply in await self._ask_all({"find": "test", "batchSize": 100_000}, patience):
            for row in reply["cursor"]["firstBatch"]:
                found.setdefault(row["id"], []).append(row)
        return found

    async def counted(self, *, patience: float = 20.0) -> int:
        """How many documents there are on all shards, as an estimate of a driver asks for it."""
        return sum(reply["n"] for reply in await self._ask_all({"count": "test"}, patience))

    async def _ask_all(self, command: dict[str, Any], patience: float) -> list[dict[str, Any]]:
        """What all shards that have a chunk answer by one routing."""
        deadline = time.monotonic() + patience
        while True:
            routing = await self.refresh()
            assert routing.collection is not None
            shards = sorted(routing.collection.chunks.shards)
            try:
                return [
                    await self.ask(shard, self.versioned(command, routing.shard_version(shard)), "test")
                    for shard in shards
                ]
            except (CommandError, NetworkError):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.01)

    async def stored(self, shard: str) -> list[str]:
        """The ids of all documents on a shard, orphans included."""
        reply = await self.ask(shard, {"find": "test", "batchSize": 100_000}, "test")
        return sorted(row["id"] for row in reply["cursor"]["firstBatch"])

    async def settled(self) -> None:
        """Return when no shard has a migration or range deletion left to do."""
        try:
            await self.network.until(lambda: not self._unfinished())
        except TimeoutError:
            raise AssertionError(str(self._unfinished())) from None

    def _unfinished(self) -> list[Any]:
        return [
            (name, [str(each) for each in shard.records.coordinators()], shard.records.deletions())
            for name, member in self.members.items()
            if member.role is ClusterRole.SHARD
            for shard in [member.shard]
            if shard.records.coordinators() or shard.records.deletions()
        ]


def cut_log(member: Member, *, forget: bool = True) -> None:
    """The member's log has nothing but its newest entry; `forget`: nor has its memory."""
    store = member.node.store
    assert store.oplog is not None
    store.oplog.commit_limit, store.oplog.max_bytes = store.last_optime.timestamp, 0
    while store.oplog.truncate_old():
        pass
    store.oplog.max_bytes = 1 << 30
    if forget:
        store.sessions.forget()
