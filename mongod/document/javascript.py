"""The node's worker processes for JavaScript, started with the first operation that wants one."""

from __future__ import annotations

import shutil

from docstore.commands.parameters import ServerParameter, whole_number
from docstore.errors import Code, CommandError
from docstore.js.job import MEBIBYTE, Limits
from docstore.js.workers import CALL_SECONDS, Workers
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
        return ServerParameter(name="jsHeapLimitMB", get=lambda: self.megabytes, assign=self._assign)

    def bytes(self) -> int:
        return self.megabytes * MEBIBYTE

    def _assign(self, value: object) -> None:
        megabytes = whole_number("jsHeapLimitMB", value)
        if not LEAST_HEAP_MB <= megabytes <= Limits.heap // MEBIBYTE:
            raise CommandError(
                Code.BadValue, f"jsHeapLimitMB must be between {LEAST_HEAP_MB} and {Limits.heap // MEBIBYTE}"
            )
        self.megabytes = megabytes


class CallTimeLimit:
    """The server parameter `internalQueryJavaScriptFnTimeoutMillis`: how long a script of a filter or an expression may
    run for the documents that it is given together. A real server counts each call for itself.
    """

    _NAME = "internalQueryJavaScriptFnTimeoutMillis"

    def __init__(self) -> None:
        self._milliseconds = int(CALL_SECONDS * 1000)

    def parameter(self) -> ServerParameter:
        return ServerParameter(name=self._NAME, get=lambda: self._milliseconds, assign=self._assign)

    def seconds(self) -> float:
        return self._milliseconds / 1000

    def _assign(self, value: object) -> None:
        milliseconds = whole_number(self._NAME, value)
        if milliseconds <= 0:
            raise CommandError(Code.BadValue, f"{self._NAME} must be greater than 0")
        self._milliseconds = milliseconds


class JavaScript:
    """Installs the pool on the node; ends its processes with the node."""

    def __init__(self, node: DataNode, limit: HeapLimit, time_limit: CallTimeLimit) -> None:
        self._node = node
        self._spill = node.settings.dbpath / "_tmp"
        self._workers = Workers(WORKERS, spill=self._spill / "mapreduce", heap=limit.bytes)
        self._evaluators = Workers(
            EVALUATORS, spill=self._spill / "evaluation", heap=limit.bytes, call_seconds=time_limit.seconds
        )

    async def start(self) -> None:
        # What a killed process has left behind is of no use to anyone.
        shutil.rmtree(self._spill, ignore_errors=True)
        self._spill.mkdir(parents=True, exist_ok=True)
        self._node.workers = self._workers
        self._node.evaluators = self._evaluators

    async def stop(self) -> None:
        await self._workers.close()
        await self._evaluators.close()
