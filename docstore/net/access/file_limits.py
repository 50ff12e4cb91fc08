"""Open files of a process: clients get at most what data files, the log and other processes leave.

A process that runs out of descriptors cannot open its own files any more, so strangers must not be able to use them up.
"""

from __future__ import annotations

import resource

from docstore.log import component

LOG = component("CONTROL")
RESERVED_FILES = 4096
"""Descriptors that are no clients', where the limit is more than twice that."""


def raise_file_limit(connections: int) -> None:
    """Have as many descriptors as that many connections need besides the others, or as many as the system gives."""
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
    """Return how many of so many connections there may be: those that leave `RESERVED_FILES` descriptors, half of them
    where there are few.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(connections, limit - min(RESERVED_FILES, limit // 2))
