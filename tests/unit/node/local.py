"""A data node in memory, without sockets: commands in, replies out."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import bson
from bson.binary import Binary
from bson.codec_options import CodecOptions
from bson.int64 import Int64

from docstore.collection.storage_mode import StorageMode
from docstore.collection.store import Store
from docstore.commands.access.control import AccessControl
from docstore.commands.access.transport_security import TransportSecurity
from docstore.commands.audit.log import AuditLog
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Services
from docstore.commands.cursors import CursorRegistry
from docstore.commands.declaration import Command, CommandTable
from docstore.commands.dispatch import Dispatcher, Pending, StreamedReply
from docstore.commands.host import Switches
from docstore.commands.limits import DEFAULT_FACE, Face
from docstore.commands.operations.registry import OperationRegistry
from docstore.commands.parameters import ParameterTable
from docstore.commands.sessions.registry import ClientSessions
from docstore.errors import Code, CommandError
from docstore.js.script_thread import Turns, wait_on_thread
from docstore.node.backups import OpenBackups
from docstore.node.commands import COMMANDS
from docstore.node.commands.unsupported import UNSUPPORTED
from docstore.node.node import DataNode
from docstore.node.process.settings import NodeSettings
from docstore.node.process.start import translate_storage_error
from docstore.node.transactions.registry import TransactionRegistry, transactions_of
from docstore.node.upkeep.catalog_audit import CatalogAudit
from docstore.optime import OpTime
from docstore.replicaset.local_state import LocalState
from docstore.replicaset.oplog_limits import OplogLimits
from docstore.replicaset.standalone import Standalone
from docstore.storage import Engine, open_engine
from docstore.wire.message import Message


class LonePrimary(Standalone):
    """A member of a set that is its own majority; `primary` can be taken away."""

    set_name = "rs"

    def __init__(self, store: Store, engine: Any) -> None:
        super().__init__(store, engine_flush=engine.flush, snapshot=engine.snapshot)
        self.primary = True
        self.oplog_limits = OplogLimits(store.attach_oplog(1 << 20), LocalState(store), time.time)
        self._store = store
        self.held_back: OpTime | None = None
        self.watchers: list[Callable[[], None]] = []
        self.awaiting: list[Callable[[], bool]] = []
        store.watchers.append(lambda _optime: self.progressed())

    @property
    def committed(self) -> OpTime:
        """What the majority has: everything, unless it is held back."""
        return self._store.last_optime if self.held_back is None else self.held_back

    def progressed(self) -> None:
        """The commit point has moved."""
        for watcher in self.watchers:
            watcher()

    @property
    def defaults_to_majority(self) -> bool:
        return True

    def check_write(self) -> None:
        if not self.primary:
            raise CommandError(Code.NotWritablePrimary, "not primary")

    async def wait_write(self, optime: OpTime | None, write_concern: Any, deadline: float | None) -> Any:
        if write_concern.w not in (0, 1, "majority"):
            return {"code": 64, "codeName": "WriteConcernFailed", "errmsg": "waiting for replication timed out"}
        return None

    async def wait_oplog(self, after: int, timeout: float) -> None:
        await asyncio.sleep(timeout)


class LocalNode:
    """Use inside a running loop. `replicated` makes it the primary of a set of one; `pauses` lets what holds the loop
    run where it pauses. `timeless`: a look at the clock takes a microsecond, and nothing else any time.
    """

    def __init__(
        self,
        *,
        replicated: bool = False,
        extra: tuple[Command, ...] = (),
        engine: Engine | None = None,
        mode: StorageMode | None = None,
        pauses: bool = False,
        audit: AuditLog | None = None,
        face: Face = DEFAULT_FACE,
        security: TransportSecurity | None = None,
        timeless: bool = False,
    ) -> None:
        engine = engine or open_engine("inMemory", "")
        store = Store(engine, clock=time.time, mode=mode)
        self.replication: Standalone = (
            LonePrimary(store, engine)
            if replicated
            else Standalone(store, engine_flush=engine.flush, snapshot=engine.snapshot)
        )
        self.node = DataNode(
            settings=NodeSettings(process="mongod", host="127.0.0.1", port=1, dbpath=Path("/"), engine="inMemory"),
            engine=engine,
            store=store,
            replication=self.replication,
            parameters=ParameterTable(),
            clock=time.monotonic,
            wall_clock=time.time,
            started=time.monotonic(),
        )
        if timeless:
            self._tick(1e-6)
        self.node.parts[OpenBackups] = OpenBackups(self.node)
        TransactionRegistry(self.node)
        ids = itertools.count(1)
        self.services = Services(
            table=CommandTable([*COMMANDS, *extra], unsupported=UNSUPPORTED),
            host=self.replication,
            sessions=ClientSessions(time.monotonic, lambda: bytes(16)),
            cursors=CursorRegistry(time.monotonic, lambda: next(ids)),
            switches=Switches(face=face),
            operations=OperationRegistry(time.monotonic),
            clock=time.monotonic,
            wall_clock=time.time,
            parts=self.node.parts,
            transactions=transactions_of(self.node),
            parameters=self.node.parameters,
            access=AccessControl(self.node.users),
            audit=audit,
            transport_security=security,
            observers=[] if audit is None else [audit.observe],
            carry_out=(lambda _context, begin: Turns(begin, None)) if pauses else None,
            supervised_pause=partial(wait_on_thread, self.node.pause),
        )
        if audit is not None:
            CatalogAudit(store, audit)
        self.services.table.hide_newer(face)
        self.dispatcher = Dispatcher(self.services, translate=translate_storage_error)
        self.peer = ClientConnection(1, "127.0.0.1:9")
        # It may send what processes send each other; a client comes by `another_client`.
        self.peer.greets_as_process = True

    def hurry(self) -> None:
        """From now on every look at the clock costs a millisecond, so that slices are short."""
        self._tick(1e-3)

    def _tick(self, seconds: float) -> None:
        ticks = itertools.count(1000)
        self.node.clock = self.node.scheduler.clock = lambda: next(ticks) * seconds

    async def reply(
        self,
        command: Mapping[str, Any],
        db: str = "test",
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        options: CodecOptions[dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """The whole reply, decoded, errors included."""
        body = bson.encode({**command, "$db": db})
        answered = self.dispatcher.handle(Message(1, 0, body, dict(sequences or {})), self.peer)
        if isinstance(answered, Pending):
            answered = await answered.finish()
        raw = answered.body if isinstance(answered, StreamedReply) else answered
        assert isinstance(raw, bytes)
        return bson.decode(raw, options) if options is not None else bson.decode(raw)

    async def run(self, command: Mapping[str, Any], db: str = "test") -> dict[str, Any]:
        """The reply of a command that must succeed."""
        found = await self.reply(command, db)
        assert found["ok"] == 1, found
        return found

    async def documents(self, collection: str, condition: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """What a find returns in its first batch."""
        found = await self.run({"find": collection, "filter": dict(condition or {}), "batchSize": 10_000})
        documents: list[dict[str, Any]] = found["cursor"]["firstBatch"]
        return documents

    async def insert(self, collection: str, *documents: Mapping[str, Any]) -> None:
        await self.run({"insert": collection, "documents": list(documents)})


def session(number: int = 1, txn: int = 1) -> dict[str, Any]:
    """The fields of a retryable write."""
    return {"lsid": {"id": Binary(bytes([number]) * 16, 4)}, "txnNumber": Int64(txn)}


def loop(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a test's coroutine."""
    return asyncio.run(work)
