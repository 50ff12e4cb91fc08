"""Listening sockets, their accepted connections, and an orderly shutdown."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from socket import socket
from typing import Any, Protocol, cast

from docstore import log
from docstore.commands.client_connection import ClientConnection
from docstore.commands.dispatch import Dispatcher
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.access.file_limits import connection_limit
from docstore.net.connection import Connection
from docstore.net.guarded_connection import GuardedConnection
from docstore.net.rate_limiter import Admission, RateLimiter
from docstore.net.scheduling.scheduler import Scheduler
from docstore.net.sockets import BACKLOG, bind
from docstore.net.tls.certificates import TlsCertificates
from docstore.net.tls.door import Door
from docstore.net.turn import Traffic, Turn
from docstore.net.unix_sockets import BoundUnixSocket
from docstore.options import UnixSocketOptions

LOG = component("NETWORK")
MAX_CONNECTIONS = 65_536
_INFLATED_AT_ONCE = 2
"""Concurrent decompressions of large messages: each takes twice its size in memory."""
_SESSION_EXPIRY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class NetworkStatistics:
    """Network counters for serverStatus."""

    current: int
    total_created: int
    refused: int
    active: int
    bytes_in: int
    bytes_out: int
    requests: int
    max_connections: int
    rate_limiter: RateLimiter


class AcceptedConnection(Protocol):
    """An accepted connection as its listener sees it, whatever protocol it speaks."""

    @property
    def peer(self) -> ClientConnection: ...

    def admit(self) -> None:
        """Start handling requests: the rate limiter has admitted the connection."""

    def close(self) -> None:
        """Close after sending what was written."""

    def abort(self) -> None:
        """Close at once."""


class Listener:
    """Accepts connections for one dispatcher, and regularly expires cursors and sessions.

    `turn`: the shared input and output of its connections, set by `start`.
    """

    turn: Turn

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        addresses: Sequence[str],
        port: int,
        max_connections: int = MAX_CONNECTIONS,
        certificates: TlsCertificates | None = None,
        unix_sockets: UnixSocketOptions | None = None,
    ) -> None:
        """`addresses`: IP addresses or names to listen on. `port`: 0 takes a free one, the same for all addresses.

        `certificates`: enable TLS. `unix_sockets`: Unix domain sockets to listen on too.
        """
        self.dispatcher = dispatcher
        self.certificates = certificates
        self.port = port
        self.traffic = Traffic()
        self.inflating = asyncio.Semaphore(_INFLATED_AT_ONCE)
        self._addresses = tuple(addresses)
        self._unix_sockets = unix_sockets
        self._files: list[BoundUnixSocket] = []
        self._max_connections = connection_limit(max_connections)
        self._connections: set[AcceptedConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._last_id = 0
        self._refused = 0
        self._rate_limiter = RateLimiter(dispatcher.services.clock, self._later)
        dispatcher.services.parameters.add(self._rate_limiter.parameters())
        self._cursor_timer: asyncio.TimerHandle | None = None
        self._session_timer: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    async def start(self, sockets: list[socket] | None = None) -> int:
        """Accept connections; return the port. `sockets`: those of an earlier `bind`.

        Errors: OSError if an address or port is unavailable, StartError if a socket file is.
        """
        loop = asyncio.get_running_loop()
        self.turn = Turn(loop, self.dispatcher.services.clock)
        scheduler = self.dispatcher.services.parts.get(Scheduler)
        if scheduler is not None:
            scheduler.watch(self.turn)
        sockets = bind(self._addresses, self.port) if sockets is None else sockets
        self.port = sockets[0].getsockname()[1]
        self._files = self._bind_files()
        for listening_socket in sockets:
            self._servers.append(
                await loop.create_server(self._protocols(loop), sock=listening_socket, backlog=BACKLOG)
            )
        for file in self._files:
            self._servers.append(
                await loop.create_unix_server(self._protocols(loop), sock=file.socket, backlog=BACKLOG)
            )
        self._expire_cursors()
        self._expire_sessions()
        names = (*self._addresses, *(str(file.path) for file in self._files))
        LOG.info("Listening", addresses=names, port=self.port)
        return self.port

    def _bind_files(self) -> list[BoundUnixSocket]:
        socket_options = self._unix_sockets
        if socket_options is None:
            return []
        with contextlib.ExitStack() as bound:
            files = [
                bound.enter_context(BoundUnixSocket(path, socket_options.permissions))
                for path in socket_options.of(self.port)
            ]
            bound.pop_all()
        return files

    def _protocols(self, loop: asyncio.AbstractEventLoop) -> Callable[[], asyncio.Protocol]:
        """Return the protocol factory of accepted sockets."""
        kind = GuardedConnection if self.dispatcher.services.access.enabled else Connection
        certificates = self.certificates
        if certificates is None:
            return lambda: cast(asyncio.Protocol, kind(self, loop))
        return lambda: Door(certificates, kind(self, loop), loop, self.turn)

    async def stop(self, grace: float = 5.0) -> None:
        """Stop accepting, end waiting requests with InterruptedAtShutdown, send replies, close all connections.

        Takes at most about `grace` seconds; then the remaining connections are aborted.
        """
        for timer in (self._cursor_timer, self._session_timer):
            if timer is not None:
                timer.cancel()
        for server in self._servers:
            server.close()
        for file in self._files:
            file.close()
        self._rate_limiter.close()
        services = self.dispatcher.services
        shutdown = CommandError(Code.InterruptedAtShutdown, "interrupted at shutdown")
        services.operations.kill_where(lambda _operation: True, shutdown)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            self._emptied = asyncio.get_running_loop().create_future()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied, min(grace, 1.0))
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()
        services.cursors.close_all()

    def statistics(self) -> NetworkStatistics:
        return NetworkStatistics(
            current=len(self._connections),
            total_created=self._last_id,
            refused=self._refused,
            active=len(self._tasks),
            bytes_in=self.traffic.bytes_in,
            bytes_out=self.traffic.bytes_out,
            requests=self.traffic.requests,
            max_connections=self._max_connections,
            rate_limiter=self._rate_limiter,
        )

    async def listen(self, sockets: list[socket], make: Callable[[], AcceptedConnection]) -> None:
        """Accept connections of another protocol too: within the same limits, with the same certificates, until the
        listener stops.
        """
        loop = asyncio.get_running_loop()
        certificates = self.certificates

        def protocol() -> asyncio.Protocol:
            connection = make()
            if certificates is None:
                return cast(asyncio.Protocol, connection)
            return Door(certificates, cast(Connection, connection), loop, self.turn)

        for listening_socket in sockets:
            self._servers.append(await loop.create_server(protocol, sock=listening_socket, backlog=BACKLOG))

    @property
    def connections(self) -> frozenset[AcceptedConnection]:
        return frozenset(self._connections)

    # Called by connections.

    def next_connection_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def opened(self, connection: AcceptedConnection) -> Admission:
        """Admit, queue or refuse one more connection."""
        if len(self._connections) >= self._max_connections:
            self._refused += 1
            LOG.warning("Connection refused because too many are open", max=self._max_connections)
            return Admission.REFUSED
        admission = self._rate_limiter.ask(connection, connection.peer.remote, connection.admit)
        if admission is Admission.REFUSED:
            LOG.warning("Connection refused because too many wait to be let in", **connection.peer.describe())
            return admission
        self._connections.add(connection)
        self.dispatcher.services.peers.add(connection.peer)
        if not log.is_quiet():
            LOG.info(
                "Connection accepted", ctx="listener", **connection.peer.describe(),
                connectionCount=len(self._connections),
            )  # fmt: skip
        return admission

    def closed(self, connection: AcceptedConnection) -> None:
        self._connections.discard(connection)
        self._rate_limiter.leave(connection)
        services = self.dispatcher.services
        services.peers.discard(connection.peer)
        if services.audit is not None:
            services.audit.disconnected(connection.peer)
        if not log.is_quiet():
            LOG.info(
                "Connection ended", ctx=f"conn{connection.peer.id}", **connection.peer.describe(),
                connectionCount=len(self._connections),
            )  # fmt: skip
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start work of a connection as a task; its exceptions go to the loop's exception handler."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _later(self, seconds: float, action: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, action)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            task.get_loop().call_exception_handler(
                {"message": "a request's task failed", "exception": task.exception(), "task": task}
            )

    def _expire_cursors(self) -> None:
        cursors = self.dispatcher.services.cursors
        cursors.expire()
        self._cursor_timer = asyncio.get_running_loop().call_later(cursors.monitor_seconds, self._expire_cursors)

    def _expire_sessions(self) -> None:
        services = self.dispatcher.services
        expired = services.sessions.expire()
        services.cursors.kill_sessions(expired)
        if expired and services.transactions is not None:
            services.transactions.end_sessions(expired)
        self._session_timer = asyncio.get_running_loop().call_later(_SESSION_EXPIRY_SECONDS, self._expire_sessions)
