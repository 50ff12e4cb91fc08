"""Network exposure of servers without access control.

Without access control a server listens beyond its own machine and private networks only if an option explicitly allows
it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address, ip_address
from operator import itemgetter
from pathlib import Path

from docstore.log import component
from docstore.net.process import StartError
from docstore.options import Options

LOG = component("CONTROL")
UNRESTRICTED = (
    "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted"
)
_EXIT_CODE = 2


class Reach(IntEnum):
    """The networks from which an address can be reached."""

    MACHINE = 0
    PRIVATE = 1
    ANYWHERE = 2


def reach_of(address: str) -> Reach:
    """Return the widest reach of an address or host name; none for an unknown name."""
    return max(map(_reach, _resolved(address)), default=Reach.MACHINE)


def _resolved(address: str) -> Iterable[IPv4Address | IPv6Address]:
    try:
        address_infos = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return (ip_address(str(address_info[4][0]).partition("%")[0]) for address_info in address_infos)


def _reach(address: IPv4Address | IPv6Address) -> Reach:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return _reach(address.ipv4_mapped)
    if address.is_loopback:
        return Reach.MACHINE
    return Reach.ANYWHERE if address.is_unspecified or address.is_global else Reach.PRIVATE


READABLE = "The data files can be read by other users of this machine: take that away with chmod -R go= DBPATH"


def warn_of_readable_files(dbpath: Path) -> None:
    """Warn of readable files from before processes restricted theirs, or of another program."""
    if any(path.is_file() and path.stat().st_mode & 0o077 for path in dbpath.glob("[0-9]*")):
        LOG.startup_warning(READABLE, dbpath=str(dbpath))


def check_exposure(options: Options) -> None:
    """Refuse to listen publicly without access control unless allowed, and log the exposure. Errors: StartError."""
    if options.security.auth:
        return
    addresses = options.network.addresses
    reach, widest = max(((reach_of(address), address) for address in addresses), key=itemgetter(0))
    if reach is Reach.ANYWHERE and not options.network.allow_unauthenticated:
        raise StartError(
            f"whoever reaches {widest} could read and change everything: nothing is checked here. Turn access control"
            " on (--auth or --keyFile), listen on a private address (--bind_ip), or say with --allowUnauthenticated"
            " that this is meant",
            _EXIT_CODE,
        )
    if reach is not Reach.MACHINE:
        LOG.startup_warning(UNRESTRICTED, addresses=addresses)
