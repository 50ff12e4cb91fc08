"""An event loop on virtual time: nothing waits, the clock jumps to the next timer when nothing is ready.

All simulated processes share it. A callback belongs to the process in whose context it was scheduled: it is dropped
when that process has died, and held back while that process is paused. Whatever could differ from run to run is
numbered here: futures and tasks hash by the order in which they were made.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tests.simulation.interpreter import CURRENT

if TYPE_CHECKING:
    from tests.simulation.world import World

CALLBACK_SECONDS = 10e-6
"""What running a callback takes: time passes in a loop that waits for nothing."""


class Killed(BaseException):
    """Unwinds the callback in which its own process died."""


class _NumberedFuture(asyncio.Future):  # type: ignore[type-arg]
    __slots__ = ("number",)

    def __hash__(self) -> int:
        return self.number


class _NumberedTask(asyncio.Task):  # type: ignore[type-arg]
    __slots__ = ("number",)

    def __hash__(self) -> int:
        return self.number


class Handle:
    """A callback that waits for its turn; what `call_soon` and `call_at` give."""

    __slots__ = ("_args", "_callback", "_context", "_when", "owner")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context, when: float) -> None:
        self._callback: Callable[..., Any] | None = callback
        self._args = args
        self._context = context
        self._when = when
        self.owner = context.get(CURRENT)

    def cancel(self) -> None:
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        return self._callback is None

    def when(self) -> float:
        return self._when

    def run(self, loop: SimulatedLoop) -> None:
        callback = self._callback
        assert callback is not None
        try:
            self._context.run(callback, *self._args)
        except Killed:
            return
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            try:
                loop.report(self.owner, {"message": f"exception in {callback!r}", "exception": error})
            except Killed:
                return


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of a `World`."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ready: deque[Handle] = deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self._sequence = 0
        self._numbers = 0
        self._blocking: list[Callable[[], None]] | None = None
        self.steps = 0

    # Running

    def run_until(self, task: asyncio.Task[Any], limit: float) -> bool:
        """Let things happen until the task is done or the world has failed; False when the world's time came to `limit`
        first, or nothing is left.
        """
        ready, timers, world = self._ready, self._timers, self._world
        events._set_running_loop(self)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._finalize_generator)
        try:
            while not task.done() and world.failure is None:
                while timers and timers[0][0] <= world.now:
                    ready.append(heapq.heappop(timers)[2])
                if not ready:
                    if not timers or timers[0][0] > limit:
                        world.now = max(world.now, limit)
                        return False
                    world.now = timers[0][0]
                    continue
                if world.now > limit:
                    return False
                handle = ready.popleft()
                if handle._callback is None:
                    continue
                owner = handle.owner
                if owner is not None:
                    if not owner.alive:
                        continue
                    if owner.paused:
                        owner.held.append(handle)
                        continue
                self.steps += 1
                world.now += CALLBACK_SECONDS
                handle.run(self)
                world.after_step(owner)
            return True
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(None)

    def resume(self, held: deque[Handle]) -> None:
        """Go on with what was held back."""
        self._ready.extend(held)
        held.clear()

    def _finalize_generator(self, generator: Any) -> None:
        self.call_soon(self.create_task, generator.aclose())

    # What asyncio and the product ask of a loop

    def time(self) -> float:
        owner = CURRENT.get()
        return (self._world.clock if owner is None else owner).monotonic()

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, args, contextvars.copy_context() if context is None else context, 0.0)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        return self.call_in(delay, callback, args, contextvars.copy_context() if context is None else context)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        owner = CURRENT.get()
        delay = when - (self._world.clock if owner is None else owner).moment()
        handle = self.call_in(delay, callback, args, contextvars.copy_context() if context is None else context)
        handle._when = when
        return handle

    def call_in(self, delay: float, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> Handle:
        """A timer in seconds from now."""
        when = self._world.now + max(delay, 0.0)
        handle = Handle(callback, args, context, when)
        self._sequence += 1
        heapq.heappush(self._timers, (when, self._sequence, handle))
        return handle

    def create_future(self) -> Any:
        future = _NumberedFuture(loop=self)
        self._numbers += 1
        future.number = self._numbers
        return future

    def create_task(self, coroutine: Coroutine[Any, Any, Any], *, name: Any = None, context: Any = None) -> Any:
        owner = (CURRENT.get() if context is None else context.get(CURRENT)) or self._world.own
        # The number is there before the task enters any set of its maker's; asyncio's own set takes it at once.
        task = _NumberedTask.__new__(_NumberedTask)
        self._numbers += 1
        task.number = self._numbers
        task.__init__(coroutine, loop=self, name=name, context=context)  # type: ignore[misc]
        owner.keep(task)
        return task

    def run_in_executor(self, executor: Any, work: Callable[..., Any], *args: Any) -> Any:
        """What would block a thread: its effect begins now, its end comes after the disk's delay."""
        future = self.create_future()
        ends: list[Callable[[], None]] = []
        self._blocking = ends
        try:
            result, error = work(*args), None
        except Exception as raised:
            result, error = None, raised
        finally:
            self._blocking = None

        def finish() -> None:
            for end in ends:
                end()
            if not future.done():
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)

        owner = CURRENT.get()
        self.call_later(0.0001 if owner is None else owner.machine.disk.delay(), finish)
        return future

    def when_done(self, end: Callable[[], None]) -> None:
        """For blocking work: call `end` when it counts as finished."""
        if self._blocking is None:
            end()
        else:
            self._blocking.append(end)

    async def getaddrinfo(self, host: Any, port: Any, **_hints: Any) -> Any:
        return self._world.network.resolve(str(host), int(port))

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        return self._world.network.listen(options["sock"], protocol_factory)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self._world.network.connect(protocol_factory, str(host), int(port))

    def report(self, owner: Any, context: dict[str, Any]) -> None:
        """What went wrong where nobody awaits it: a broken invariant ends the process, as in a real one."""
        error = context.get("exception")
        self._world.unhandled(owner, str(context.get("message")), error)
        if isinstance(error, AssertionError) and owner is not None:
            owner.die(error)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.report(CURRENT.get(), context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.report(CURRENT.get(), context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """asyncio's own timers say so; ours need not."""
