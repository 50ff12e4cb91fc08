"""Unfinished outputs of map-reduces of an earlier start or primary: merged or dropped once this node can write."""

from __future__ import annotations

import asyncio
import contextlib

from docstore.errors import CommandError
from docstore.node.node import DataNode
from docstore.node.pipeline.map_reduce import drop_idle_outputs, finish_left_outputs, merge_noted_outputs
from docstore.node.upkeep.periodic import report_failure

_LOOK_SECONDS = 60.0


class UnfinishedOutputs:
    """Merges complete outputs and drops incomplete ones.

    A standalone does so before it accepts connections, a member of a set when it is elected. It is repeated later: an
    operation that a failed step-down interrupted leaves a complete output to the same primary, and routers and
    secondaries leave idle ones.
    """

    def __init__(self, node: DataNode) -> None:
        self._node = node
        self._watch: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._node.replication.set_name is None:
            await finish_left_outputs(self._node)
            return
        self._watch = asyncio.get_running_loop().create_task(self._watch_elections(), name="left outputs")
        self._watch.add_done_callback(report_failure)

    async def stop(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch

    async def _watch_elections(self) -> None:
        replication, store = self._node.replication, self._node.store
        finished = None
        while True:
            counter = int(replication.topology_version()["counter"])
            term = None if store.oplog is None else store.oplog.term
            with contextlib.suppress(CommandError):  # no primary, or no more: whoever is one does it
                replication.check_write()
                await (merge_noted_outputs if term == finished else finish_left_outputs)(self._node)
                finished = term
                await drop_idle_outputs(self._node)
            await replication.wait_topology_change(counter, _LOOK_SECONDS)
