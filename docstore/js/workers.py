"""A pool of worker processes that run users' JavaScript; signatures first, see `docstore.js.job` for the values.

User code never runs in the server's own process: V8 ends the process it lives in when memory is exhausted, so that process
must be one that nobody misses. `Workers` keeps a few of them warm; each operation gets a fresh isolate in one of them.

A refusal by the user's code (syntax error, throw, time limit, memory limit) is a `CommandError`. Cancelling the awaiting
task stops the operation: its worker is killed and replaced.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from docstore.js.job import MapReduceJob, MapReduceResult


class Workers:
    """At most `size` operations at once; further ones wait for a free worker. `spill` is a directory for sorted runs."""

    def __init__(self, size: int, *, spill: Path) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Start one worker process so that the first operation finds it warm; others are started when wanted."""
        raise NotImplementedError

    async def close(self) -> None:
        """Kill every worker and wait for it. Operations still running fail with InterruptedAtShutdown."""
        raise NotImplementedError

    async def map_reduce(
        self, job: MapReduceJob, batches: AsyncIterator[list[bytes]], *, partial: bool = False
    ) -> MapReduceResult:
        """Map every document of `batches` (lists of raw documents), reduce, finalize unless `partial`."""
        raise NotImplementedError

    async def merge_reduce(
        self, job: MapReduceJob, runs: Sequence[AsyncIterator[list[bytes]]]
    ) -> MapReduceResult:
        """Merge partial results, each sorted by `_id`: reduce once per key with several values, finalize every key once."""
        raise NotImplementedError
