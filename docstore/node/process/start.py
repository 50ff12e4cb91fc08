"""Start and stop of a node's parts, in a fixed order.

* Start: engine (which locks the directory), store, replication, the executable's services, listener. A node accepts
  connections only when all parts are ready.
* Stop: a primary hands over, then listener (operations end with InterruptedAtShutdown), services, replication (which
  flushes), engine.
* After a failed start, the started parts are stopped in the same order.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from docstore.collection.storage_mode import StorageMode
from docstore.collection.store import Store
from docstore.commands.context import Context
from docstore.commands.declaration import Command, CommandTable
from docstore.commands.dispatch import Dispatcher
from docstore.commands.operations.registry import Operation, OperationRegistry
from docstore.commands.parameters import ParameterTable, ServerParameter
from docstore.deferred_free import DEFERRED_FREE
from docstore.errors import Code, CommandError
from docstore.js.confinement import warn_where_scripts_are_free
from docstore.js.scripts import carry_out
from docstore.log import component
from docstore.net.listener import MAX_CONNECTIONS, Listener
from docstore.net.pool import Pool
from docstore.net.scheduling.scheduler import Scheduler, socket_readiness
from docstore.net.services import NO_SECURITY, ProcessSecurity, RequestExecution, services_of
from docstore.net.sockets import bind
from docstore.node.backups import OpenBackups
from docstore.node.commands import COMMANDS
from docstore.node.commands.unsupported import UNSUPPORTED
from docstore.node.node import DataNode, Replication
from docstore.node.pipeline.stored_functions import stored_functions
from docstore.node.process.settings import ClusterRole, NodeSettings
from docstore.node.transactions.registry import TransactionRegistry, transactions_of
from docstore.node.upkeep.catalog_audit import CatalogAudit
from docstore.node.upkeep.costs import unknown_names
from docstore.node.upkeep.periodic import Housekeeping
from docstore.node.upkeep.snapshot_window import snapshot_window
from docstore.node.upkeep.ttl import TtlMonitor
from docstore.node.upkeep.ttl_settings import TtlSettings
from docstore.options import Options, UnixSocketOptions
from docstore.replicaset.commands import COMMANDS as REPLICASET_COMMANDS
from docstore.replicaset.membership import MemberIdentity
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replicaset.standalone import Standalone
from docstore.storage import DataCorrupted, DiskFull, Engine, StorageError, open_engine

LOG = component("CONTROL")
_DRAIN_SECONDS = 0.01


class Service(Protocol):
    """A service that an executable runs with the node: migrations, a catalog, workers."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """The parts that an executable adds to a data node.

    `services` creates the services when the node and the pool exist; it may install an ownership, parameters or parts
    on the node. They are started in order after replication, before the listener accepts, and stopped in reverse.
    `mode`: the storage mode, for data other than documents. `ports`: what listens beside the main port while that
    serves.
    """

    commands: Sequence[Command] = ()
    services: Callable[[DataNode, Pool], Iterable[Service]] = lambda _node, _pool: ()
    parameters: Sequence[ServerParameter] = field(default=())
    mode: StorageMode | None = None
    ports: Callable[[Options, Listener], AbstractAsyncContextManager[object]] = lambda _options, _listener: (
        nullcontext()
    )


class NodeProcess:
    """One node from start to stop. `node`, `listener` are set once `start` has returned."""

    node: DataNode
    listener: Listener
    pool: Pool

    def __init__(
        self,
        settings: NodeSettings,
        addresses: Sequence[str],
        extension: Extension,
        *,
        max_connections: int = MAX_CONNECTIONS,
        configure: Callable[[Dispatcher], None] = lambda _dispatcher: None,
        security: ProcessSecurity = NO_SECURITY,
        unix_sockets: UnixSocketOptions | None = None,
    ) -> None:
        """Configure a node; `start` starts it.

        * `addresses`, `unix_sockets`: where to listen; the port is that of the settings.
        * `configure` receives the dispatcher before the first request.
        """
        self._security = security
        self._configure = configure
        self._settings = settings
        self._addresses = addresses
        self._unix_sockets = unix_sockets
        self._extension = extension
        self._max_connections = max_connections
        self._parts = AsyncExitStack()
        self._stopping = False

    async def start(self) -> None:
        """Start all parts. Errors: DatabaseLocked, StorageError, OSError if the port is not available."""
        async with AsyncExitStack() as parts:
            await self._start(parts)
            self._parts = parts.pop_all()

    async def stop(self) -> None:
        """Stop all parts in order; idempotent.

        A member of a set first steps down if it is primary, informs its clients, and lets running operations end,
        within `shutdown_seconds`.
        """
        LOG.info("Shutting down")
        if self._security.audit is not None:
            self._security.audit.note(None, "shutdown", {})
        if not self._stopping:
            self._stopping = True
            await self._take_leave()
        await self._parts.aclose()

    async def _take_leave(self) -> None:
        node = self.node
        until = node.clock() + node.shutdown_seconds
        await node.replication.hand_over(node.shutdown_seconds, leaving=True)
        if node.replication.set_name is None:
            return
        while node.clock() < until and any(_is_at_work(operation) for operation in self._operations):
            await asyncio.sleep(_DRAIN_SECONDS)

    async def _start(self, parts: AsyncExitStack) -> None:
        started = time.monotonic()
        sockets = bind(self._addresses, self._settings.port)
        for bound_socket in sockets:
            parts.callback(bound_socket.close)
        # The actual port, if it was 0.
        settings = self._settings = replace(self._settings, port=sockets[0].getsockname()[1])
        engine = open_engine(settings.engine, str(settings.dbpath), cache_bytes=settings.cache_bytes)
        parts.callback(engine.close)
        parts.callback(DEFERRED_FREE.clear)
        store = Store(engine, clock=time.time, mode=self._extension.mode)
        security = self._security
        self.pool = Pool(application=settings.process, keys=security.keys, certificates=security.certificates)
        parts.push_async_callback(self.pool.close)
        operations = self._operations = OperationRegistry(time.monotonic)
        replication = self._replication(engine, store, operations)
        expiry = TtlSettings()
        self.node = DataNode(
            settings=settings,
            engine=engine,
            store=store,
            replication=replication,
            parameters=ParameterTable(
                [*expiry.parameters(), snapshot_window(store.undo_history), *self._extension.parameters]
            ),
            expiry=expiry,
            clock=time.monotonic,
            wall_clock=time.time,
            started=started,
            pool=self.pool,
            scheduler=Scheduler(time.monotonic, socket_readiness(asyncio.get_running_loop())),
        )
        backups = self.node.parts[OpenBackups] = OpenBackups(self.node)
        parts.push_async_callback(backups.stop)
        await backups.start()
        transactions = TransactionRegistry(self.node)
        parts.callback(transactions.sessions.end_all, shutting_down())
        parts.push_async_callback(replication.stop)
        await replication.start()
        housekeeping = Housekeeping(self.node)
        parts.push_async_callback(housekeeping.stop)
        await housekeeping.start()
        monitor = TtlMonitor(self.node)
        parts.push_async_callback(monitor.stop)
        await monitor.start()
        for service in self._extension.services(self.node, self.pool):
            parts.push_async_callback(service.stop)
            await service.start()
        self.listener = self._make_listener(replication, operations)
        self.node.network = self.listener.statistics
        self.node.links = self.pool.statistics
        parts.push_async_callback(self.listener.stop)
        self._configure(self.listener.dispatcher)
        if self.node.evaluators is not None and self.listener.dispatcher.services.switches.scripting:
            warn_where_scripts_are_free()
        await self.listener.start(sockets)

    def _replication(self, engine: Engine, store: Store, operations: OperationRegistry) -> Replication:
        settings = self._settings
        if settings.set_name is None:
            return Standalone(store, engine_flush=engine.flush, snapshot=engine.snapshot)
        return ReplicaSet(
            engine=engine,
            store=store,
            pool=self.pool,
            identity=MemberIdentity(
                set_name=settings.set_name,
                host=settings.address,
                own_addresses=own_addresses(settings, self._addresses) | {settings.address},
                dbpath=settings.dbpath,
                config_server=settings.role is ClusterRole.CONFIG,
            ),
            oplog_bytes=settings.oplog_bytes,
            on_step_down=lambda: self._stepped_down(operations),
            on_primary=lambda: transactions_of(self.node).take_over(),
            proofs=self._security.proofs,
        )

    def _stepped_down(self, operations: OperationRegistry) -> None:
        error = CommandError(
            Code.InterruptedDueToReplStateChange, "operation was interrupted because the node is no longer primary"
        )
        transactions_of(self.node).sessions.end_all(error)
        interrupt_writes(operations, error)

    async def _carry_out(self, context: Context, begin: Callable[[], Any]) -> Any:
        workers = self.node.evaluators if context.services.switches.scripting else None
        return await carry_out(begin, workers, stored_functions(self.node, context.db), context.owner)

    def _make_listener(self, replication: Replication, operations: OperationRegistry) -> Listener:
        self.node.parts[Scheduler] = self.node.scheduler
        table = CommandTable([*COMMANDS, *REPLICASET_COMMANDS, *self._extension.commands], unsupported=UNSUPPORTED)
        services = services_of(
            table,
            replication,
            self.node.parameters,
            RequestExecution(carry_out=self._carry_out, transactions=transactions_of(self.node), operations=operations),
            parts=self.node.parts,
            users=self.node.users,
            security=self._security,
        )
        services.metrics.is_dropped = unknown_names(self.node.store)
        if self._security.audit is not None:
            CatalogAudit(self.node.store, self._security.audit)
        if services.fail_points is not None:
            services.fail_points.watch_writes = partial(setattr, self.node.store.sessions, "before_write")
            if isinstance(replication, ReplicaSet):
                services.fail_points.hold_log = replication.membership.syncing.hold
        dispatcher = Dispatcher(services, translate=translate_storage_error)
        return Listener(
            dispatcher,
            addresses=self._addresses,
            port=self._settings.port,
            max_connections=self._max_connections,
            certificates=self._security.certificates,
            unix_sockets=self._unix_sockets,
        )


def _is_at_work(operation: Operation) -> bool:
    """Return True if an operation is doing more than waiting for news."""
    command = operation.context.command
    return not command.own_deadline and command.following is None and command.name != "shutdown"


def own_addresses(settings: NodeSettings, addresses: Sequence[str]) -> frozenset[str]:
    """Return every "name:port" by which a configuration may refer to this node."""
    names = {settings.host, *addresses}
    if names & {"127.0.0.1", "::1", "localhost", "0.0.0.0", "::"}:
        names |= {"localhost", "127.0.0.1"}
    return frozenset(f"{name}:{settings.port}" for name in names - {"0.0.0.0", "::"})


def translate_storage_error(error: Exception) -> CommandError | None:
    """Return the client's error for a full or damaged disk; None for engine failures that must stop the process.

    After another failed write its outcome is unknown: the state in memory is unreliable, and the next start reads the
    disk. Errors that are not the engine's are None too.
    """
    if isinstance(error, DiskFull):
        return CommandError(Code.OutOfDiskSpace, str(error))
    if isinstance(error, DataCorrupted):
        LOG.error("Damaged data was read; see mongod --repair", error=str(error))
        return CommandError(Code.DataCorruptionDetected, str(error))
    if isinstance(error, StorageError):
        raise AssertionError(f"the storage engine failed: {error}") from error
    return None


def shutting_down() -> CommandError:
    return CommandError(Code.InterruptedAtShutdown, "interrupted at shutdown")


def interrupt_writes(operations: OperationRegistry, error: CommandError) -> None:
    """Interrupt the operations that need a primary, after a step-down."""
    operations.kill_where(lambda operation: operation.context.command.takes_write_concern, error)
