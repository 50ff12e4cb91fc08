"""Group flush: one thread makes all writes durable, for all waiters together.

Invariants:

* At most one flush runs at a time; requests during a flush are served by the next, which starts at once.
* `wait_flushed()` returns only after a flush that *started* after the call.
* `durable` is a position applied before the last finished flush started, so it is on disk. Only `rewind`, used by
  rollback, decreases it.
* Without waiters, writes announced by `touched()` are flushed within `interval` seconds.
* A failed flush is fatal for the waiters, for all later callers and, through an AssertionError to the loop's exception
  handler, for the process: after a failure a disk's content is unknown, even if a retry succeeds.

Source: the journal of MongoDB (journalCommitInterval 100 ms, j:true waits for the next group commit).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from docstore.net.threads import LoopThread
from docstore.optime import NULL_OPTIME, OpTime
from docstore.storage import StorageError

INTERVAL_SECONDS = 0.1


class GroupFlusher:
    """Coalesces calls of a blocking `flush` (which releases the GIL) in one thread.

    `position` returns the newest applied optime; it is read on the loop just before each flush.
    """

    def __init__(
        self,
        flush: Callable[[], None],
        *,
        position: Callable[[], OpTime] = lambda: NULL_OPTIME,
        interval: float = INTERVAL_SECONDS,
    ) -> None:
        self._flush = flush
        self._position = position
        self._interval = interval
        self._thread = LoopThread("flush")
        self._listeners: list[Callable[[OpTime], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._again = False
        """A flush was requested during the running one, which does not cover it; with or without a waiter."""
        self._failure: OSError | RuntimeError | StorageError | None = None
        self._durable = NULL_OPTIME
        self._rewinds = 0
        self._stopped = False
        self.flushes = 0
        """Flushes since the start, for serverStatus and tests."""

    @property
    def durable(self) -> OpTime:
        """The newest position known to be on disk."""
        return self._durable

    @property
    def is_idle(self) -> bool:
        """True if all writes announced by `touched` are on disk."""
        return self._task is None and self._timer is None

    @property
    def is_flushing(self) -> bool:
        """True if a flush is running, after which the listeners are called."""
        return self._task is not None

    def subscribe(self, listener: Callable[[OpTime], None]) -> None:
        """Call `listener(durable)` on the loop after each flush."""
        self._listeners.append(listener)

    def touched(self, *, soon: bool = False) -> None:
        """Announce a write: flush it within `interval` seconds, or at once if `soon`."""
        if soon and not self._stopped and self._failure is None:
            self._start()
        elif self._timer is None and not self._stopped:
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._start)

    def wait_flushed(self) -> asyncio.Future[None]:
        """Return a future that resolves when all writes before the call are on disk; it raises the disk's error."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            waiter.set_exception(self._failure)
        elif self._stopped:
            raise RuntimeError("the flusher has been stopped")
        else:
            self._waiters.append(waiter)
            self._start()
        return waiter

    def flush_soon(self) -> None:
        """Start a flush now (or right after the running one) without waiting for it."""
        if not self._stopped and self._failure is None:
            self._start()

    def rewind(self, position: OpTime) -> None:
        """Lower `durable` after the oplog was cut back to `position`."""
        self._durable = min(self._durable, position)
        self._rewinds += 1

    async def stop(self) -> None:
        """Flush pending writes and end the thread. Errors: that of a failed flush."""
        if self._stopped:
            return
        try:
            if self._failure is None:
                await self.wait_flushed()
        finally:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._task is not None:
                await self._task
            self._thread.shutdown()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._again = True
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="flusher")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._again:
                self._again = False
                waiters, self._waiters = self._waiters, []
                position, rewinds = self._position(), self._rewinds
                try:
                    await loop.run_in_executor(self._thread, self._flush)
                except (OSError, RuntimeError, StorageError) as error:
                    self._fail(error, waiters)
                    return
                self.flushes += 1
                if rewinds == self._rewinds:
                    self._durable = max(self._durable, position)
                for waiter in waiters:
                    if not waiter.done():
                        waiter.set_result(None)
                for listener in self._listeners:
                    listener(self._durable)
        finally:
            self._task = None

    def _fail(self, error: OSError | RuntimeError | StorageError, waiters: list[asyncio.Future[None]]) -> None:
        self._failure = error
        for waiter in [*waiters, *self._waiters]:
            if not waiter.done():
                waiter.set_exception(error)
                # The process ends with the next step, so waiters may have no time left to retrieve their errors.
                waiter.exception()
        self._waiters = []
        fatal = AssertionError(f"writes could not be made durable: {error}")
        asyncio.get_running_loop().call_exception_handler({"message": "a flush has failed", "exception": fatal})
