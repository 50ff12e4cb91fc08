"""Limits on open files: clients get at most the descriptors that data files, the log and other processes leave.

A process out of descriptors cannot open its own files, so clients must not be able to use them up.
"""

from __future__ import annotations

import resource

from docstore.log import component

LOG = component("CONTROL")
RESERVED_FILES = 4096
"""Descriptors not available to clients, if the limit is more than twice this."""


def raise_file_limit(connections: int) -> None:
    """Raise the descriptor limit for that number of connections and the reserve, as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + RESERVED_FILES
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        LOG.info(
            "The limit of open files is below what was asked for",
            limit=allowed, maxConns=connections, connections=connection_limit(connections),
        )  # fmt: skip


def connection_limit(connections: int) -> int:
    """Return the allowed connections, at most `connections`: those that leave `RESERVED_FILES` descriptors.

    With a low limit, half of the descriptors are for connections.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(connections, limit - min(RESERVED_FILES, limit // 2))
