"""Periodic jobs of a node: truncation of undo records that a majority has made needless, reclaiming of disk space.

Each job works in slices. None changes what a reader may see.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from docstore.collection.oplog.oplog import OPLOG_NS
from docstore.collection.oplog.pre_images import remove_pre_images
from docstore.node.cluster_parameters import expired_before
from docstore.node.entry import Repeated, write_in_slices
from docstore.node.node import DataNode
from docstore.node.slices import finish_work
from docstore.node.transactions.registry import transactions_of
from docstore.storage import StorageError

_LOOK_SECONDS = 1.0
SESSION_DAYS = 1
_DAY_MS = 24 * 60 * 60 * 1000


def report_failure(task: asyncio.Task[None]) -> None:
    """Pass the error of a background task to the loop's exception handler, which may stop the process."""
    if not task.cancelled() and task.exception() is not None:
        error = task.exception()
        if isinstance(error, StorageError):
            error = AssertionError(f"the storage engine failed: {error}")
        context = {"message": f"the task {task.get_name()} failed", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)


class PeriodicTask(ABC):
    """A background task that runs a pass periodically, from `start` to `stop`.

    A pass that fails is told to the loop's exception handler, and the next one is begun at its time. A broken invariant
    and a failing storage engine end the task, and with it the process.
    """

    name: ClassVar[str]

    def __init__(self, node: DataNode) -> None:
        self._node = node
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)
        self._task.add_done_callback(report_failure)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        node = self._node
        last = node.clock()
        while True:
            # The interval is a parameter that may change during the sleep.
            await asyncio.sleep(_LOOK_SECONDS)
            seconds = self.interval()
            if seconds is not None and node.clock() - last >= seconds:
                try:
                    await self.run_pass()
                except (AssertionError, StorageError):
                    raise
                except Exception as error:
                    context = {"message": f"a pass of the task {self.name} failed", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(context)
                last = node.clock()

    @abstractmethod
    def interval(self) -> float | None:
        """Return the seconds from the end of a pass to the next; None: no passes for now."""

    @abstractmethod
    async def run_pass(self) -> None:
        """Execute one pass, in slices."""


class Housekeeping(PeriodicTask):
    """Truncates the oplog and pre-images, reclaims space of dropped collections, and deletes old session rows."""

    name = "housekeeping"

    def interval(self) -> float | None:
        return 0

    async def run_pass(self) -> None:
        """Execute one pass, in slices; nothing while the write lock is held."""
        node = self._node
        store = node.store
        transactions_of(node).expire()
        ended = int(node.wall_clock() * 1000) - SESSION_DAYS * _DAY_MS
        limits = node.replication.oplog_limits
        if store.oplog is not None and limits is not None:
            oplog = store.oplog
            await self._carry_out(lambda until: limits.truncate(until, store.sessions.oldest_needed))
            oldest, before = oplog.first.timestamp, expired_before(store, node.wall_clock())
            await self._carry_out(lambda until: not remove_pre_images(store.engine, oldest, before, until))
        await self._carry_out(store.reclaim)
        await self._carry_out(lambda _until: self._compact_removed())
        await self._carry_out(lambda _until: not store.sessions.reap(ended))

    def _compact_removed(self) -> bool:
        self._node.store.engine.compact_removed()
        return True

    async def _carry_out(self, step: Callable[[float], bool]) -> None:
        """Execute one unreplicated job until `step` returns True."""
        writing = Repeated(lambda _owned, until: step(until))
        await finish_work(self._node, write_in_slices(self._node, OPLOG_NS, writing))
