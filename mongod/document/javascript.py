"""The node's worker processes for JavaScript, started with the first operation that wants one."""

from __future__ import annotations

import shutil

from docstore.commands.parameters import ServerParameter, whole_number
from docstore.errors import Code, CommandError
from docstore.js.job import MEBIBYTE, Limits
from docstore.js.workers import Workers
from docstore.node.node import DataNode

WORKERS = 2
"""Operations that run JavaScript side by side; a machine's other cores serve the rest."""

EVALUATORS = 8
"""Requests with scripts in filters or expressions that are under way at once; each holds a worker until it ends."""

LEAST_HEAP_MB = 32
"""Less does not hold what scripts begin with."""


class HeapLimit:
    """The server parameter `jsHeapLimitMB`: how much the objects of one operation's scripts may take."""

    def __init__(self) -> None:
        self.megabytes = Limits.heap // MEBIBYTE

    def parameter(self) -> ServerParameter:
        return ServerParameter(name="jsHeapLimitMB", get=lambda: self.megabytes, put=self._put)

    def bytes(self) -> int:
        return self.megabytes * MEBIBYTE

    def _put(self, value: object) -> None:
        megabytes = whole_number("jsHeapLimitMB", value)
        if not LEAST_HEAP_MB <= megabytes <= Limits.heap // MEBIBYTE:
            raise CommandError(
                Code.BadValue, f"jsHeapLimitMB must be between {LEAST_HEAP_MB} and {Limits.heap // MEBIBYTE}"
            )
        self.megabytes = megabytes


class JavaScript:
    """Installs the pool on the node; ends its processes with the node."""

    def __init__(self, node: DataNode, limit: HeapLimit) -> None:
        self._node = node
        self._spill = node.settings.dbpath / "_tmp"
        self._workers = Workers(WORKERS, spill=self._spill / "mapreduce", heap=limit.bytes)
        self._evaluators = Workers(EVALUATORS, spill=self._spill / "evaluation", heap=limit.bytes)

    async def start(self) -> None:
        # What a killed process has left behind is of no use to anyone.
        shutil.rmtree(self._spill, ignore_errors=True)
        self._spill.mkdir(parents=True, exist_ok=True)
        self._node.workers = self._workers
        self._node.evaluators = self._evaluators

    async def stop(self) -> None:
        await self._workers.close()
        await self._evaluators.close()
