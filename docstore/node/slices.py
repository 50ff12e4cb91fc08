"""The time of a long command in slices: after each one the event loop serves others."""

from __future__ import annotations

from docstore.commands.context import Context
from docstore.node.node import node_of
from docstore.node.read.cursors import SLICE_SECONDS


class Slices:
    """The slices of one command; the first begins now."""

    def __init__(self, context: Context) -> None:
        self._operation = context.operation
        self._node = node_of(context)
        self._until = self._node.clock() + SLICE_SECONDS

    async def pause_when_due(self) -> None:
        """Let others run when the slice is over. Errors: that with which the operation was killed."""
        if self._node.clock() >= self._until:
            await self._node.pause()
            self._operation.check()
            self._until = self._node.clock() + SLICE_SECONDS
