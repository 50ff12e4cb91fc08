"""Snapshot reads outside of transactions: all shards read at one cluster time.

Invariants: all reads of a request use one time; a time that the client has named is never replaced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import bson

from docstore.bson import append_fields, document_from, elements
from docstore.commands.concerns import ReadConcern, ReadLevel
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.gossip import encode_cluster_time
from docstore.errors import Code, CommandError
from mongos.router import router_of

_ATTEMPTS = 5
_REPLACED = frozenset(("readConcern", "$clusterTime"))


async def at_one_time(context: Context, run: Callable[[Context], Awaitable[Result]]) -> Result:
    """Run a read; with a snapshot read concern all shards read at one time.

    Errors: those of `run`; SnapshotUnavailable if chunks or collections have come to a shard since.
    """
    concern = context.read_concern
    if concern.level is not ReadLevel.SNAPSHOT:
        return await run(context)
    router = router_of(context)
    if not router.cluster_time():
        # The cluster time is still unknown.
        await router.config.command("admin", {"ping": 1}, repeatable=True)
    for retries in reversed(range(_ATTEMPTS)):
        try:
            return await run(_pinned(context, concern, router.cluster_time()))
        except CommandError as error:
            if error.code != Code.SnapshotUnavailable or concern.at_cluster_time is not None or not retries:
                raise
        # Chunks move at the config servers' time.
        await router.config.command("admin", {"ping": 1}, repeatable=True)
    raise AssertionError("the last attempt answers or fails")


def _pinned(context: Context, concern: ReadConcern, now: int) -> Context:
    """Return the request with its cluster time, which every recipient has heard of."""
    at = concern.at_cluster_time
    if at is None:
        at = max(now, concern.after_cluster_time or 0)
    context.progress.at_cluster_time = at
    replaced = _REPLACED if at <= now else {"readConcern"}
    pinned = ReadConcern(ReadLevel.SNAPSHOT, at_cluster_time=at)
    base = document_from([field for field in elements(context.raw) if field[0] not in replaced])
    fields = bson.encode({"readConcern": pinned.document()})[4:-1]
    if at <= now:
        # Else the client has named a time that is still to come, and the shards are to say so.
        fields += encode_cluster_time(now)
    return context.derived(raw=append_fields(base, fields), read_concern=pinned)
