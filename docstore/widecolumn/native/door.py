"""The port of the native protocol beside the main one of a process.

Its connections are those of the process's listener: they count against the same limit, are encrypted by the same
certificates, and end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from socket import AF_INET, gaierror, getaddrinfo, gethostname

from docstore.commands.access.logins import current
from docstore.errors import CommandError
from docstore.log import component
from docstore.net.access.password_login import PasswordLogins
from docstore.net.listener import Listener
from docstore.net.process import CANNOT_LISTEN, StartError
from docstore.net.sockets import bind
from docstore.options import Options
from docstore.security.privileges import Privileges
from docstore.widecolumn.commands.permissions import is_visible
from docstore.widecolumn.native.change_watcher import ChangeWatcher, Event, ReadCluster
from docstore.widecolumn.native.command import dispatcher_of
from docstore.widecolumn.native.connection import NativeConnection
from docstore.widecolumn.native.statements import StatementService
from docstore.widecolumn.protocol.opcodes import EVENT_STREAM, Opcode

LOG = component("NETWORK")
Translate = Callable[[Exception], CommandError | None]
_ANY_ADDRESS = ("0.0.0.0", "::")


class NativeDoor:
    """Satisfies `Door` for one port."""

    def __init__(self, listener: Listener, service: StatementService, read: ReadCluster, translate: Translate) -> None:
        self.dispatcher = dispatcher_of(listener.dispatcher, service, translate)
        self.service = service
        self.logins = PasswordLogins(self.dispatcher.services.access)
        self.watcher = ChangeWatcher(read, self._tell, lambda: bool(self._registered))
        self._registered: set[NativeConnection] = set()
        service.schema_changed = self.watcher.poke

    async def register(self, connection: NativeConnection) -> None:
        self._registered.add(connection)
        await self.watcher.begin()

    def closed(self, connection: NativeConnection) -> None:
        self._registered.discard(connection)

    async def _tell(self, events: list[Event]) -> None:
        """Send events to the clients that asked for their types, of the schema only what their users may see."""
        access = self.dispatcher.services.access
        for connection in list(self._registered):
            privileges = None
            if access.enabled:
                user = await current(connection.peer, access)
                if user is None:
                    continue
                privileges = user.privileges
            for event in events:
                if event.type in connection.peer.state.events and _may_hear(privileges, event):
                    connection.answer(EVENT_STREAM, Opcode.EVENT, event.body)


def _may_hear(privileges: Privileges | None, event: Event) -> bool:
    """True if a user with these privileges may hear of an event; None: there is no access control."""
    change = event.change
    return privileges is None or change is None or is_visible(privileges, change.keyspace, change.table)


@asynccontextmanager
async def native_port(
    options: Options,
    listener: Listener,
    service: StatementService,
    read: ReadCluster,
    opened: Callable[[str, int], None],
    translate: Translate = lambda _error: None,
) -> AsyncIterator[int | None]:
    """The port while the listener serves, None if none is configured; `opened` hears its address. `read`: for events;
    `translate`: as in `Dispatcher`. Errors: StartError.
    """
    if options.cql_port is None:
        yield None
        return
    addresses = options.network.addresses
    try:
        sockets = bind(addresses, options.cql_port)
    except OSError as error:
        where = f"{','.join(addresses)} port {options.cql_port}"
        raise StartError(f"the native protocol cannot listen on {where}: {error.strerror}", CANNOT_LISTEN) from None
    address, port = sockets[0].getsockname()[:2]
    opened(reachable_address(address), port)
    door = NativeDoor(listener, service, read, translate)
    loop = asyncio.get_running_loop()
    await listener.listen(sockets, lambda: NativeConnection(listener, loop, door))
    LOG.info("Listening for the native protocol of CQL", addresses=addresses, port=port)
    try:
        yield port
    finally:
        await door.watcher.stop()


def reachable_address(bound: str) -> str:
    """Return the IP address by which other machines reach a socket bound to `bound`."""
    if bound not in _ANY_ADDRESS:
        return bound.partition("%")[0]
    try:
        return str(getaddrinfo(gethostname(), None, AF_INET)[0][4][0])
    except (gaierror, IndexError):
        return "127.0.0.1"
