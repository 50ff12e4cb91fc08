"""Identification of this process among the members of a configuration.

A host is this process if it equals one of its addresses; or else if it has the same port and resolves to an address of
this process; or else, once the listener runs, if it answers hello with this process's id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set
from socket import SOCK_STREAM, gaierror
from typing import TYPE_CHECKING

from bson.objectid import ObjectId

from docstore.bson import document_to_python
from docstore.errors import CommandError
from docstore.net.errors import NetworkError

if TYPE_CHECKING:
    from docstore.net.pool import Pool

HELLO_SECONDS = 2.0


async def own_hosts(hosts: Iterable[str], own: Set[str], pool: Pool, process_id: ObjectId) -> set[str]:
    """Return the `hosts` ("name:port") that are this process; `own` are its known addresses."""
    hosts = list(hosts)
    matches = await local_hosts(hosts, own)
    if matches:
        return matches
    answers = await asyncio.gather(*[_process_at(host, pool) for host in hosts])
    return {host for host, answer in zip(hosts, answers, strict=True) if answer == process_id}


async def local_hosts(hosts: Sequence[str], own: Set[str]) -> set[str]:
    """Return the hosts that are this process according to addresses and name resolution, without connecting to any."""
    matches = set(hosts) & own
    if matches:
        return matches
    ports = {address.rpartition(":")[2] for address in own}
    candidates = [host for host in hosts if host.rpartition(":")[2] in ports]
    if not candidates:
        return set()
    ours = set().union(*[await _resolve(address) for address in own])
    return {host for host in candidates if await _resolve(host) & ours}


async def _resolve(address: str) -> set[str]:
    name, _, port = address.rpartition(":")
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(name, int(port), type=SOCK_STREAM)
    except (gaierror, UnicodeError):
        return set()
    return {str(entry[4][0]) for entry in entries}


async def _process_at(host: str, pool: Pool) -> ObjectId | None:
    try:
        reply = document_to_python(await pool.command(host, "admin", {"hello": 1}, timeout=HELLO_SECONDS))
    except (NetworkError, CommandError):
        return None
    version = reply.get("topologyVersion")
    return version.get("processId") if isinstance(version, dict) else None
