"""The first step of routed requests: they are sent, and answered if their shards succeed, without a task.

`routed` wraps a command's own `run`. If the cached routing shows the shards of the request, it is sent to them in the
step in which it arrived. If they succeed with all they have, the reply is made in the step of the last answer: that of
a single shard is passed on as it came, except for the times that the router reports. Whatever remains is done by `run`
in a task, from what was begun (`Begun`): more batches, large merges, shards that failed, and requests that could not
be sent.

Invariants:

- what was sent is sent again only after stale routing, to a shard that was no primary, or after a network failure;
- a cursor that stays open becomes one of the router's;
- abandoned work is ended: its cursor is closed, and so is a connection that is silent for `LATE_SECONDS`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadLevel
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result, Role
from docstore.commands.operations.relay import Answered
from docstore.errors import CommandError
from mongos.relay.asked import Asked, Begun
from mongos.relay.replies import CURSOR, end_of_own_fields, own_fields
from mongos.relay.targets import NamespaceTargets
from mongos.relay.waiting import AwaitedRelay
from mongos.router import router_of
from mongos.routing.scatter import Scatter

_LARGE_BYTES = 1024 * 1024
"""Larger answers are passed on in several turns of the loop."""

Run = Callable[[Context, Arguments, Begun | None], Awaitable[Result]]
"""Carries a request out in a task, from what was begun of it."""


@dataclass(frozen=True, slots=True)
class FirstStep:
    """The first step of a command.

    - `prepare(context, arguments, targets)`: the request to the shards; None if only its task can tell. Errors: the
      client's.
    - `begins`: the first bytes of its successful replies.
    - `statements`: the field of its statements; empty for other commands.
    - `counts`: the counter of serverStatus in which its statements count; empty for none of its own.
    """

    prepare: Callable[[Context, Arguments, NamespaceTargets], Asked | None]
    begins: bytes
    statements: str = ""
    counts: str = ""


def routed(run: Run, first: FirstStep) -> Callable[[Context, Arguments], Response]:
    """Return the command with its first step."""

    def begin(context: Context, args: Arguments) -> Response:
        if first.counts:
            counters = router_of(context).counters
            counters.count(first.counts, len(args[first.statements]) if first.statements else 1)
            counters.writes += bool(first.statements)
        return RoutedRequest(run, first, context, args) if _may_be_sent(first, context) else run(context, args, None)

    return begin


def _may_be_sent(first: FirstStep, context: Context) -> bool:
    """False if the request must wait: for its transaction, a time, a member that is no primary, or its deadline."""
    session = context.session
    if session is not None and (
        session.in_transaction or session.transaction is not None or session.stmt_ids is not None
    ):
        return False
    if context.read_concern.level is ReadLevel.SNAPSHOT or context.max_time_ms:
        return False
    if context.sequences and not context.sequences.keys() <= {first.statements}:
        return False
    return not context.read_preference.secondary_ok or context.command.role is Role.PRIMARY


class RoutedRequest(AwaitedRelay):
    """One request to one or several shards."""

    # Defaults that few requests override are on the class.
    _answered: Answered | None = None
    _asked: Asked | None = None
    _due = False
    _refused: CommandError | None = None
    _result: bytes | None = None
    _scatter: Scatter
    _targets: NamespaceTargets

    def __init__(self, run: Run, first: FirstStep, context: Context, args: Arguments) -> None:
        self._run = run
        self._first = first
        self._context = context
        self._args = args

    @property
    def shards(self) -> tuple[str, ...]:
        """Return the shards that the first step has asked."""
        return () if self._asked is None else self._asked.target.shards

    def start(self, answered: Answered) -> bool:
        self._started = True
        context = self._context
        router = router_of(context)
        targets = router.targets.known(context.namespace)
        if targets is None:
            return False
        try:
            asked = self._first.prepare(context, self._args, targets)
        except CommandError as error:
            self._refused = error
            return False
        if asked is None or not asked.target.shards:
            return False
        scatter = Scatter(router.leftovers.discard_answer, ended=self._ended)
        raw, sequences, upstream = context.raw, context.sequences, context.connection.upstream
        known, are_sent = router.shards.known, True
        for name in asked.target.shards:
            shard = known(name)
            message = asked.message(raw, targets.version(name))
            if shard is None or not scatter.send(shard, message, sequences=sequences, upstream=upstream):
                are_sent = False
        if asked.size and asked.target.chunk is not None:
            self._due = router.autosplit.add(targets.routing, asked.target.chunk, asked.size)
        self._targets, self._asked, self._scatter = targets, asked, scatter
        if are_sent:
            self._answered = answered
        return are_sent

    def cancel(self) -> None:
        self._answered = None
        self._scatter.give_up()

    def _ended(self) -> None:
        answered, self._answered = self._answered, None
        if answered is None:
            return
        scatter, asked = self._scatter, self._asked
        assert asked is not None, "shards have answered"
        result: bytes | None = None
        if not self._due and not scatter.failures:
            shards, answers = asked.target.shards, scatter.answers
            if len(shards) == 1:
                result = self._passed_on(answers[shards[0]].body)
            if result is None and asked.merge is not None:
                result = asked.merge([answers[name] for name in shards])
            if result is not None and len(result) > _LARGE_BYTES:
                self._result, result = result, None
        answered(result)

    def _passed_on(self, reply: bytes) -> bytes | None:
        """Return the reply of the only shard; None if it leaves a cursor open or tells of failed statements."""
        first = self._first
        end = end_of_own_fields(reply, first.begins)
        if not end or (first.statements and reply.find(b"write", 4, end) >= 0):
            return None
        if first.begins is CURSOR and not self._targets.is_whole(reply, end):
            return None
        return own_fields(reply, end)

    async def _rest(self) -> Result:
        if self._refused is not None:
            raise self._refused
        if self._result is not None:
            return self._result
        asked = self._asked
        begun = None if asked is None else Begun(self._targets, asked, self._scatter, self._due)
        return await self._run(self._context, self._args, begun)
