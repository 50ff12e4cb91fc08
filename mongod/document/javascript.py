"""The node's worker processes for JavaScript, started with the first operation that wants one."""

from __future__ import annotations

import shutil

from docstore.js.workers import Workers
from docstore.node.node import DataNode

WORKERS = 2
"""Operations that run JavaScript side by side; a machine's other cores serve the rest."""


EVALUATORS = 8
"""Requests with scripts in filters or expressions that are under way at once; each holds a worker until it ends."""


class JavaScript:
    """Installs the pool on the node; ends its processes with the node."""

    def __init__(self, node: DataNode) -> None:
        self._node = node
        self._spill = node.settings.dbpath / "_tmp"
        self._workers = Workers(WORKERS, spill=self._spill / "mapreduce")
        self._evaluators = Workers(EVALUATORS, spill=self._spill / "evaluation")

    async def start(self) -> None:
        # What a killed process has left behind is of no use to anyone.
        shutil.rmtree(self._spill, ignore_errors=True)
        self._spill.mkdir(parents=True, exist_ok=True)
        self._node.workers = self._workers
        self._node.evaluators = self._evaluators

    async def stop(self) -> None:
        await self._workers.close()
        await self._evaluators.close()
