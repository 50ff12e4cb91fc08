"""Synchronous work that can wait: a request on a thread of its own that alternates with the event loop.

Filters, stages and expressions are plain functions over bytes, called from deep inside scans, while their scripts run
in another process. A request with scripts runs on a thread. When it waits (`wait`, or an ordinary `await`), the
thread blocks and the loop continues; while the thread works, the loop blocks, as in any step of a request. The two
never run at the same time, so the thread needs no locks, and deadlines and pauses keep their meaning.

- An exception that the loop throws into the request (it was killed) is raised by the `wait` that blocks.
- The thread finishes the request when it ends, however that is, and waits a while for another one.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from enum import Enum
from functools import partial
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from docstore.js.limits import MAX_IDLE_THREADS

_LOCAL = threading.local()
_IDLE_SECONDS = 10.0


class _Message(Enum):
    """A side's message at a handover: the thread sends the first four, the loop the last two."""

    RETURNED = "the work returned this"
    RAISED = "the work raised this"
    AWAITED = "this is to be awaited"
    YIELDED = "a coroutine of the work yielded this"
    VALUE = "go on with this value"
    THROWN = "go on by raising this"


_Word = tuple[_Message, Any]


class Turns:
    """One piece of work. `begin` returns its result or an awaitable of it; `await turns` gives the result.

    `scripts`: the object that the work's functions find through `current`; None if scripts cannot run here.
    """

    def __init__(self, begin: Callable[[], Any], scripts: Any) -> None:
        self.scripts = scripts
        self.taken = 0
        """The number of turns of the loop since the work began."""
        self._begin: Callable[[], Any] | None = begin
        self._to_thread: SimpleQueue[_Word] = SimpleQueue()
        self._to_loop: SimpleQueue[_Word] = SimpleQueue()

    def __await__(self) -> Generator[Any, Any, Any]:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        begin, self._begin = self._begin, None
        assert begin is not None, "it is awaited once"
        thread = _Worker.acquire()
        # `begin` may refer to the caller's variables, this object among them: keeping it would make a reference cycle.
        thread.give(partial(context.run, self._work, loop, begin), self._to_loop)
        del begin
        kind, subject = self._to_loop.get()
        while kind in (_Message.AWAITED, _Message.YIELDED):
            try:
                answer = (yield from subject.__await__()) if kind is _Message.AWAITED else (yield subject)
            except BaseException as error:  # any error belongs to the work
                self._to_thread.put((_Message.THROWN, error))
            else:
                self._to_thread.put((_Message.VALUE, answer))
            kind, subject = self._to_loop.get()
        thread.let_go()
        if kind is _Message.RAISED:
            try:
                raise subject
            finally:
                # The error's traceback refers to this frame, which must not refer to the error.
                del subject
        return subject

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        """Called by the work: stand still until the loop has the result."""
        return self._hand_over(_Message.AWAITED, awaitable)

    def _work(self, loop: asyncio.AbstractEventLoop, begin: Callable[[], Any]) -> _Word:
        _LOCAL.turns = self
        asyncio._set_running_loop(loop)  # the work's coroutines must see the loop that runs them
        try:
            result = begin()
            return _Message.RETURNED, self._run(_coroutine(result)) if isawaitable(result) else result
        except BaseException as error:  # it is raised where the work is awaited
            return _Message.RAISED, error
        finally:
            _LOCAL.turns = None
            asyncio._set_running_loop(None)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            yielded = work.send(None)
            while True:
                try:
                    answer = self._hand_over(_Message.YIELDED, yielded)
                except BaseException as error:  # the loop throws it into the awaitable of the work
                    yielded = work.throw(error)
                else:
                    yielded = work.send(answer)
        except StopIteration as end:
            return end.value

    def _hand_over(self, message: _Message, subject: Any) -> Any:
        self.taken += 1
        self._to_loop.put((message, subject))
        how, answer = self._to_thread.get()
        if how is _Message.THROWN:
            raise answer
        return answer


class _Worker:
    """A thread for one piece of work after the other; it ends after a while without work.

    It reports the end of a piece only after releasing all references of it: from then on the loop runs beside it.
    """

    _idle: ClassVar[list[_Worker]] = []

    def __init__(self) -> None:
        self._given: SimpleQueue[tuple[Callable[[], _Word], SimpleQueue[_Word]] | None] = SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    @classmethod
    def acquire(cls) -> _Worker:
        """Return an idle worker."""
        try:
            return cls._idle.pop()
        except IndexError:
            return cls()

    def give(self, work: Callable[[], _Word], answered: SimpleQueue[_Word]) -> None:
        """Run the work on it; the result is delivered to the loop."""
        self._given.put((work, answered))

    def let_go(self) -> None:
        """Its work is done."""
        if len(self._idle) < MAX_IDLE_THREADS:
            self._idle.append(self)
        else:
            self._given.put(None)

    def _run(self) -> None:
        while True:
            try:
                job = self._given.get(timeout=_IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(self)
                except ValueError:
                    # A request has just taken it.
                    continue
                return
            if job is None:
                return
            work, answered = job
            del job
            word = work()
            del work
            answered.put(word)
            del word, answered


async def _coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def current() -> Turns | None:
    """Return the work of this thread; None on the loop's own thread."""
    turns: Turns | None = getattr(_LOCAL, "turns", None)
    return turns


def wait_on_thread(pause: Callable[[], Awaitable[None]]) -> bool:
    """Have the loop await `pause` while this thread blocks. False, without effect, on the loop's own thread."""
    turns = current()
    if turns is None:
        return False
    turns.wait(pause())
    return True
