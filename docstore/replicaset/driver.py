"""Runs the core: performs its effects in order, keeps its timer, carries its messages.

Effects leave one `EffectQueue`, in order: while a `Persist` is on its way to disk nothing behind it moves, and nothing
ever does when it does not get there: the process ends. Everything the core is told goes through `deliver`; everything
that must follow from a change of its state hangs on `after`, which is called once for each event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from bson.errors import BSONError

from docstore.bson import document_to_python
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net.errors import NetworkError
from docstore.replicaset.codec import decode_reply, encode_request
from docstore.replicaset.local_state import LocalState
from docstore.replication.config import ReplicaSetConfig
from docstore.replication.core import Core
from docstore.replication.effects import (
    BecomePrimary,
    Drain,
    Effect,
    EffectQueue,
    Follow,
    Log,
    Persist,
    Reply,
    Send,
    SteppedDown,
)
from docstore.replication.messages import (
    Answered,
    Event,
    HeartbeatReply,
    PositionReply,
    VoteReply,
)
from docstore.storage import StorageError

if TYPE_CHECKING:
    from docstore.net.pool import Pool

LOG = component("REPL")
UNREADABLE = (BSONError, ValueError, TypeError, LookupError, ArithmeticError)
"""What reading a broken document raises."""


class ExternalState(Protocol):
    """What the driver has done by the rest of the member."""

    def follow(self, source: str | None) -> None: ...

    def drain(self, term: int) -> None: ...

    def become_primary(self, term: int) -> None: ...

    def stepped_down(self, term: int, reason: str) -> None: ...

    def after(self) -> None:
        """The core has taken in an event."""

    async def find_own_hosts(self, config: ReplicaSetConfig) -> None:
        """Find out which member of a configuration we are, before the core sees it."""


class Driver:
    """One core on one event loop."""

    def __init__(
        self,
        core: Core,
        external: ExternalState,
        local: LocalState,
        pool: Pool,
        *,
        flush: Callable[[], Awaitable[None]],
    ) -> None:
        self._core = core
        self._external = external
        self._local = local
        self._pool = pool
        self._flush = flush
        self._loop = asyncio.get_running_loop()
        self._queue = EffectQueue()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._last_token = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._misunderstood: set[str] = set()
        """Members whose last reply could not be read."""
        self._closed = False

    def now(self) -> float:
        """The core's clock: monotonic seconds."""
        return self._loop.time()

    def deliver(self, event: Event) -> None:
        """Tell the core, and do what it says."""
        if not self._closed:
            self._queue.add(self._core.receive(event, self.now()))
            self._settle()

    def ask(self, make_event: Callable[[int], Event]) -> asyncio.Future[Any]:
        """Deliver a request or command; its result, which is there already where the core answers at once."""
        if self._closed:
            raise CommandError(Code.ShutdownInProgress, "the server is shutting down")
        self._last_token = token = self._last_token + 1
        event = make_event(token)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers[token] = answer
        self.deliver(event)
        return answer

    def start(self) -> None:
        """Begin to tick."""
        self._tick()

    async def close(self) -> None:
        """End all that is under way; the core hears nothing any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(CommandError(Code.ShutdownInProgress, "the server is shutting down"))
                answer.exception()

    async def sent(self, seconds: float) -> None:
        """Return when what is under way to others has arrived, or after so many seconds."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that ends with us. An error in it is a broken invariant."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _settle(self) -> None:
        self._pump()
        self._core.check()
        self._external.after()
        self._set_timer()

    def _pump(self) -> None:
        while (effect := self._queue.next()) is not None:
            try:
                self._carry_out(effect)
            except (CommandError, StorageError) as error:
                # What it was to write is not there: nothing that may depend on it is done any more.
                self._queue.hold()
                stop_the_process(self._loop, error)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Persist():
                self._persist(effect)
            case Send():
                self.spawn(self._send(effect))
            case Reply():
                self._reply(effect)
            case Follow():
                self._external.follow(effect.source)
            case Drain():
                self._external.drain(effect.term)
            case BecomePrimary():
                self._external.become_primary(effect.term)
            case Log():
                component(effect.component).info(effect.message, **effect.attributes)
            case SteppedDown():
                self._external.stepped_down(effect.term, effect.reason)

    def _persist(self, effect: Persist) -> None:
        if effect.vote is not None:
            self._local.write_vote(effect.vote)
        if effect.config is not None:
            self._local.write_config(effect.config)
        self._queue.hold()
        self.spawn(self._persisted())

    async def _persisted(self) -> None:
        await self._flush()
        self._queue.release()
        self._settle()

    def _reply(self, effect: Reply) -> None:
        answer = self._answers.pop(effect.token, None)
        if answer is not None and not answer.done():
            if isinstance(effect.result, CommandError):
                answer.set_exception(effect.result)
            else:
                answer.set_result(effect.result)

    async def _send(self, effect: Send) -> None:
        started = self.now()
        reply, error, refused = None, "", False
        try:
            command = encode_request(effect.request)
            body = await self._pool.command(effect.to, "admin", command, timeout=effect.timeout)
            reply = self._readable(effect, body)
        except NetworkError as failure:
            error, refused = str(failure), failure.refused
        except CommandError as failure:
            error = str(failure)
        except UNREADABLE as failure:
            error = f"the reply cannot be read: {failure!r}"
            self._unreadable(effect.to, error)
        if isinstance(reply, HeartbeatReply) and reply.config_document is not None:
            await self._external.find_own_hosts(reply.config_document)
        took = self.now() - started
        self.deliver(
            Answered(peer=effect.to, request=effect.request, reply=reply, round_trip=took, error=error, refused=refused)
        )

    def _readable(self, effect: Send, body: bytes) -> HeartbeatReply | VoteReply | PositionReply | None:
        """What the reply says. Errors: CommandError, logged here, for one that says nothing that we know."""
        try:
            reply = decode_reply(effect.request, document_to_python(body))
        except CommandError as failure:
            self._unreadable(effect.to, str(failure))
            raise
        self._misunderstood.discard(effect.to)
        return reply

    def _unreadable(self, host: str, reason: str) -> None:
        """Whatever another member sends is no reason to end: it has not answered, which is said once."""
        if host not in self._misunderstood:
            self._misunderstood.add(host)
            LOG.warning("The reply of a member cannot be read", hostAndPort=host, reason=reason)

    def _set_timer(self) -> None:
        wakeup = self._core.next_wakeup()
        if self._timer is not None:
            if self._timer_at <= wakeup:
                # It fires early at worst, finds nothing to do and is set anew: cheaper than moving it with each event.
                return
            self._timer.cancel()
            self._timer = None
        if wakeup != float("inf") and not self._closed:
            self._timer_at = wakeup
            self._timer = self._loop.call_at(wakeup, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self._closed:
            self._queue.add(self._core.tick(self.now()))
            self._settle()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            stop_the_process(self._loop, error)


def stop_the_process(loop: asyncio.AbstractEventLoop, error: BaseException) -> None:
    """Replication cannot go on: the loop's handler ends the process on an AssertionError."""
    if not isinstance(error, AssertionError):
        wrapped = AssertionError(f"replication cannot go on: {error!r}")
        wrapped.__cause__ = error
        error = wrapped
    loop.call_exception_handler({"message": "replication has failed", "exception": error})
