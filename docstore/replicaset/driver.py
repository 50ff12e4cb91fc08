"""Driver of the core: performs its effects in order, runs its timer, carries its messages.

* Effects leave one `EffectQueue`, in order. While a `Persist` is being written no later effect is performed; if the
  write fails none ever is, and the process ends.
* All events reach the core through `deliver`. `after` is called once per event, for reactions to changes of its state.
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
"""Errors of parsing an invalid document."""


class ExternalState(Protocol):
    """The member's parts that perform effects for the driver."""

    def follow(self, source: str | None) -> None: ...

    def drain(self, term: int) -> None: ...

    def become_primary(self, term: int) -> None: ...

    def stepped_down(self, term: int, reason: str) -> None: ...

    def after(self) -> None:
        """React to an event that the core has processed."""

    async def find_own_hosts(self, config: ReplicaSetConfig) -> None:
        """Find out which member of a configuration this process is, before the core sees it."""


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
        """Members whose last reply was unreadable."""
        self._closed = False

    def now(self) -> float:
        """Return the core's clock: monotonic seconds."""
        return self._loop.time()

    def deliver(self, event: Event) -> None:
        """Deliver an event to the core and perform the effects."""
        if not self._closed:
            self._queue.add(self._core.receive(event, self.now()))
            self._settle()

    def ask(self, make_event: Callable[[int], Event]) -> asyncio.Future[Any]:
        """Deliver a request or command; return its future result, which is already set if the core replies at once."""
        if self._closed:
            raise CommandError(Code.ShutdownInProgress, "the server is shutting down")
        self._last_token = token = self._last_token + 1
        event = make_event(token)
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._answers[token] = answer
        self.deliver(event)
        return answer

    def start(self) -> None:
        """Start the timer."""
        self._tick()

    async def close(self) -> None:
        """Cancel all running work; later events are ignored."""
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
        """Return when all pending messages have arrived, or after `seconds`."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that is cancelled on close. An error in it is a broken invariant."""
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
                # The write failed: no effect that may depend on it is performed any more.
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
        """Decode a reply. Errors: CommandError for an invalid one, which is logged here."""
        try:
            reply = decode_reply(effect.request, document_to_python(body))
        except CommandError as failure:
            self._unreadable(effect.to, str(failure))
            raise
        self._misunderstood.discard(effect.to)
        return reply

    def _unreadable(self, host: str, reason: str) -> None:
        """Log an unreadable reply, once per member; it counts as no reply, and never ends the process."""
        if host not in self._misunderstood:
            self._misunderstood.add(host)
            LOG.warning("The reply of a member cannot be read", hostAndPort=host, reason=reason)

    def _set_timer(self) -> None:
        wakeup = self._core.next_wakeup()
        if self._timer is not None:
            if self._timer_at <= wakeup:
                # At worst it fires early, finds nothing to do and is set again: cheaper than rescheduling it with each
                # event.
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
    """Pass an AssertionError to the loop's exception handler, which ends the process: replication cannot continue."""
    if not isinstance(error, AssertionError):
        wrapped = AssertionError(f"replication cannot go on: {error!r}")
        wrapped.__cause__ = error
        error = wrapped
    loop.call_exception_handler({"message": "replication has failed", "exception": error})
