"""Start of the console, if it is configured. Without `--httpPort` none of it is loaded.

Invariant: the console is reachable only from its own machine, unless other addresses are configured. These require
access control and encryption, because passwords and documents cross the network, or an explicit option to admit
anyone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from docstore.log import component
from docstore.net.access.exposure import Reach, reach_of
from docstore.net.listener import Listener
from docstore.net.process import CANNOT_LISTEN, StartError
from docstore.net.sockets import bind
from docstore.options import Options
from docstore.options.values import TlsMode

LOG = component("CONTROL")
_EXIT_CODE = 2


@asynccontextmanager
async def console_of(name: str, options: Options, listener: Listener) -> AsyncIterator[None]:
    """The console of a process while its listener serves, if it is configured. Errors: StartError."""
    console = options.console
    if console.port is None:
        yield
        return
    check_reach(options)
    from docstore.console.server import ConsoleServer

    try:
        sockets = bind(console.addresses, console.port)
    except OSError as error:
        where = f"{','.join(console.addresses)} port {console.port}"
        raise StartError(f"the console cannot listen on {where}: {error.strerror}", CANNOT_LISTEN) from None
    server = ConsoleServer(listener, process=name, names=(*console.addresses, *console.hosts))
    port = server.start(sockets)
    scheme = "http" if listener.certificates is None else "https"
    LOG.info("Console", url=f"{scheme}://{_in_url(console.addresses[0])}:{port}/", port=port)
    try:
        yield
    finally:
        await server.stop()


def check_reach(options: Options) -> None:
    """Raise StartError for a console that is reachable by more clients than is allowed."""
    console = options.console
    outside = [address for address in console.addresses if reach_of(address) is not Reach.MACHINE]
    if not outside:
        return
    if not options.security.auth:
        if options.network.allow_unauthenticated:
            return
        raise StartError(
            f"whoever reaches {outside[0]} could read and change everything in the console: turn access control on"
            " (--auth or --keyFile), leave --httpBindIp out, or say with --allowUnauthenticated that this is meant",
            _EXIT_CODE,
        )
    if options.tls.mode is TlsMode.DISABLED:
        raise StartError(
            f"passwords would go to {outside[0]} in the clear: encrypt connections (--tlsMode), or leave --httpBindIp"
            " out",
            _EXIT_CODE,
        )


def _in_url(address: str) -> str:
    return f"[{address}]" if ":" in address else address
