"""The main coroutine of `mongod` and `configsvr`: parse options into settings, then run a node from start to stop.

The two executables differ only in the extension that they pass.
"""

from __future__ import annotations

import errno
import socket
from typing import Any

from docstore.console.start import console_of
from docstore.net.access.exposure import check_exposure, warn_of_readable_files
from docstore.net.process import CANNOT_OPEN_DATA, DATA_LOST, Process, StartError, cannot_listen
from docstore.net.services import apply_options, security_of
from docstore.node.process.repair import repair
from docstore.node.process.settings import ClusterRole, NodeSettings
from docstore.node.process.start import Extension, NodeProcess
from docstore.options import Options
from docstore.storage import DatabaseLocked, StorageError

_NO_PORT = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
_EVERYWHERE = frozenset(("0.0.0.0", "::", "*"))


async def serve(process: Process, options: Options, role: ClusterRole, extension: Extension) -> None:
    """Run a node until the process is asked to stop. Errors: StartError."""
    settings = settings_of(process.name, options, role)
    if settings.engine != "inMemory" and not settings.dbpath.is_dir():
        raise StartError(
            f"the data directory {settings.dbpath} is not there: make it, or name another one with --dbpath",
            CANNOT_OPEN_DATA,
        )
    if options.storage.repair:
        _repair(process, settings, extension)
        return
    check_exposure(options)
    warn_of_readable_files(settings.dbpath)
    network = options.network
    running = NodeProcess(
        settings,
        network.addresses,
        extension,
        max_connections=network.max_connections,
        configure=lambda dispatcher: apply_options(dispatcher, options),
        security=security_of(process, options),
        unix_sockets=network.unix_sockets,
    )
    try:
        await running.start()
    except DatabaseLocked as error:
        raise StartError(str(error), CANNOT_OPEN_DATA) from None
    except StorageError as error:
        raise StartError(f"cannot open the data in {settings.dbpath}: {error}", CANNOT_OPEN_DATA) from None
    except OSError as error:
        if not isinstance(error, socket.gaierror) and error.errno not in _NO_PORT:
            raise
        raise cannot_listen(options.network.addresses, settings.port, error) from None
    try:
        running.node.shutdown = lambda: process.stop("shutdown command")
        listener = running.listener
        async with console_of(process.name, options, listener), extension.ports(options, listener):
            process.ready(options.network.addresses[0], running.node.settings.port)
            await process.stopped()
    finally:
        await running.stop()


def _repair(process: Process, settings: NodeSettings, extension: Extension) -> None:
    """Repair the data directory. Errors: StartError, also if data were lost."""
    if settings.engine == "inMemory":
        raise StartError("there is nothing on disk to repair where data is kept in memory")
    try:
        outcome = repair(settings.dbpath, extension.mode)
    except (StorageError, OSError) as error:
        raise StartError(f"the repair of {settings.dbpath} cannot go on: {error}", CANNOT_OPEN_DATA) from None
    for line in outcome.notes:
        process.say(line)
    if outcome.losses:
        raise StartError(
            "\n".join((f"the repair of {settings.dbpath} could not save everything:", *outcome.losses)), DATA_LOST
        )


def settings_of(name: str, options: Options, role: ClusterRole) -> NodeSettings:
    """Return the node's settings from the command line."""
    address = options.network.addresses[0]
    settings: dict[str, Any] = {}
    if options.replication.oplog_bytes is not None:
        settings["oplog_bytes"] = options.replication.oplog_bytes
    return NodeSettings(
        process=name,
        host=socket.gethostname() if address in _EVERYWHERE else address,
        port=options.port,
        dbpath=options.dbpath.absolute(),
        engine=options.storage.engine,
        cache_bytes=options.storage.cache_bytes,
        set_name=options.replication.set_name,
        role=role,
        argv=options.argv,
        parsed=options.parsed,
        **settings,
    )
