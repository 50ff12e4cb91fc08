"""Fetching of the source's oplog during an initial sync, stored on disk until it is applied.

So a clone may take longer than the source keeps its oplog. The stored entries begin with the requested one and have no
gaps; after a broken connection, fetching resumes behind the newest stored entry.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path

from docstore.aggregation.stage import Run
from docstore.collection.oplog.oplog import entry_optime
from docstore.errors import CommandError
from docstore.log import component
from docstore.net.errors import NetworkError
from docstore.optime import OpTime
from docstore.replicaset.sync.remote import RemoteMember
from docstore.spill import SpillFile

LOG = component("INITSYNC")
AWAIT_SECONDS = 1.0
RETRY_SECONDS = 0.5
OUTAGE_SECONDS = 10.0
"""Seconds that a source may be unreachable before the attempt fails."""

_ENTRIES_AT_ONCE = 500


class AttemptFailed(Exception):
    """The source has changed so that the copy is invalid; start over."""


class OplogFetch:
    """Fetches from the entry at `begin`, inclusive, until `close`. `directory`: location of the file."""

    def __init__(self, remote: RemoteMember, begin: OpTime, directory: Path, clock: Callable[[], float]) -> None:
        self._remote = remote
        self._begin = begin
        self._clock = clock
        self._file = SpillFile(directory)
        self._batches: deque[Run] = deque()
        self._more = asyncio.Event()
        self._last: OpTime | None = None
        self._task = asyncio.get_running_loop().create_task(self._fetch(), name="initial sync log")

    def check(self) -> None:
        """Raise the error that ended fetching: NetworkError, CommandError, AttemptFailed, OSError."""
        if self._task.done():
            self._task.result()

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Yield the entries, stored ones and then new ones, oldest first. Errors: those of `check`."""
        while True:
            while not self._batches:
                self.check()
                self._more.clear()
                await self._more.wait()
            yield [entry for _, entry in self._batches.popleft().records()]

    async def close(self) -> None:
        """End fetching and delete the file."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()
        self._file.close()

    async def _fetch(self) -> None:
        reached = self._clock()
        try:
            while True:
                try:
                    async with aclosing(self._tail()) as tail:
                        async for entries in tail:
                            await self._keep(entries)
                            reached = self._clock()
                except (NetworkError, CommandError) as error:
                    if self._clock() - reached > OUTAGE_SECONDS:
                        raise
                    LOG.info("The source's log is asked for again", source=self._remote.address, reason=str(error))
                await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._more.set()

    async def _tail(self) -> AsyncGenerator[list[bytes], None]:
        """Yield the entries behind the newest stored one, which the source must still have."""
        after, first = self._last or self._begin, True
        async with aclosing(self._remote.tail(after, AWAIT_SECONDS)) as tail:
            async for entries in tail:
                if first and (not entries or entry_optime(entries[0]) != after):
                    raise AttemptFailed(f"the source's oplog no longer holds the entry at {after}")
                yield entries[1:] if first and self._last is not None else entries
                first = False

    async def _keep(self, entries: list[bytes]) -> None:
        for at in range(0, len(entries), _ENTRIES_AT_ONCE):
            piece = entries[at : at + _ENTRIES_AT_ONCE]
            self._batches.append(self._file.write((b"", entry) for entry in piece))
            self._last = entry_optime(piece[-1])
            self._more.set()
            await asyncio.sleep(0)
