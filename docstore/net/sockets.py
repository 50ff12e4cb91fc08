"""Bound sockets before they have a transport, and the socket options of every connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from tornado.netutil import bind_sockets

BACKLOG = 1024
_KEEP_ALIVE_SECONDS = 120


def bind(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """Return bound sockets for every address; port 0 takes a free one, the same for all.

    Errors: OSError if an address or port is unavailable; nothing stays bound then.
    """
    sockets: list[socket.socket] = []
    try:
        for address in addresses:
            sockets += bind_sockets(port, address, backlog=BACKLOG)
            port = sockets[0].getsockname()[1]
    except OSError:
        for bound_socket in sockets:
            bound_socket.close()
        raise
    return sockets


def keep_alive(transport: asyncio.Transport) -> None:
    """Enable TCP keepalive, so that connections of dead peers are closed."""
    connection = transport.get_extra_info("socket")
    if connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL"):
        # Not every system lets a socket set its own intervals.
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), _KEEP_ALIVE_SECONDS)
