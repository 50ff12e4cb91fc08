"""Reads of several shards whose replies are merged in one step, without a task or a router cursor.

A request that does not fix the shard key goes to all shards with chunks, or to those that may have matches. It is
sent as it came, except for the router's own part. If every shard returns its complete result, the reply is made in
the step of the last answer.

Invariants:

- a client sees the same as from the command's own `run`;
- if a shard has more results, or the merge is large, a task does the rest, as `run` would;
- if a shard fails, the cursors of the others are closed. The request goes through `run` if the failure allows that
  (`mongos.relay.failures`); else the client gets the error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from docstore.bson import without_fields
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.operations.relay import Answered
from docstore.errors import CommandError
from docstore.sharding.version import STALE_CODES
from mongos.relay.failures import ends_read
from mongos.relay.targets import NamespaceTargets
from mongos.relay.waiting import AwaitedRelay
from mongos.router import Router
from mongos.routing.requests import BETWEEN_CLIENT_AND_ROUTER, ShardReply
from mongos.routing.scatter import Scatter

_LEFT_OUT = BETWEEN_CLIENT_AND_ROUTER - {b"$db"}


@dataclass(frozen=True, slots=True)
class Gathering:
    """The requests to the shards and the merge of their replies.

    - `shards`: the targets.
    - `join(replies)`: the reply's own fields, from the shards' complete replies; None if more is to come.
    - `rest(answers)`: the client's result in that case. Without it, `join` always returns the complete result, or
      raises the client's error.
    - `without`: fields to leave out of the request; `add`: encoded fields to add.
    """

    shards: Sequence[str]
    join: Callable[[Sequence[bytes]], bytes | None]
    rest: Callable[[Sequence[ShardReply]], Awaitable[Result]] | None = None
    without: frozenset[bytes] = field(default=frozenset())
    add: bytes = b""


Gather = Callable[[Context, Arguments, NamespaceTargets], Gathering | None]
"""Returns the gathering of a request to several shards; None if it takes the command's own `run`."""


class GatheredRelay(AwaitedRelay):
    """One request to several shards."""

    _answered: Answered | None = None
    _answers: list[ShardReply] | None = None

    def __init__(
        self, run: Callable[[], Awaitable[Result]], gathering: Gathering, context: Context, router: Router,
        targets: NamespaceTargets,
    ) -> None:  # fmt: skip
        self._run = run
        self._gathering = gathering
        self._context = context
        self._router = router
        self._targets = targets
        self._scatter = Scatter(lambda answer: router.leftovers.discard_answers([answer]), ended=self._ended)

    def start(self, answered: Answered) -> bool:
        self._begun = True
        gathering, targets, scatter = self._gathering, self._targets, self._scatter
        left_out = _LEFT_OUT | gathering.without if gathering.without else _LEFT_OUT
        body = without_fields(self._context.raw, left_out, gathering.add)
        for name in gathering.shards:
            shard = self._router.shards.known(name)
            if shard is None or not scatter.send(shard, targets.versioned(body, name)):
                scatter.give_up()
                return False
        self._answered = answered
        return True

    def cancel(self) -> None:
        self._answered = self._answers = None
        self._scatter.give_up()

    def _ended(self) -> None:
        answered, self._answered = self._answered, None
        if answered is None:
            return
        scatter = self._scatter
        if scatter.failures:
            scatter.give_up()
            answered(None)
            return
        answers = [scatter.answers[name] for name in self._gathering.shards]
        try:
            result = self._gathering.join([answer.body for answer in answers])
        except CommandError:
            # `rest` reports the error.
            result = None
        if result is None:
            self._answers = answers
        answered(result)

    # In a task

    async def _routed_anew(self) -> Result:
        """Execute the request as if it had not been sent. Errors: that of the first shard that ended the read."""
        failures = self._scatter.failures
        errors = [failures[name].error for name in self._gathering.shards if name in failures]
        for error in errors:
            if isinstance(error, CommandError) and ends_read(error):
                raise error
        if any(isinstance(error, CommandError) and error.code in STALE_CODES for error in errors):
            await self._router.cache.settle(self._context.namespace, self._targets.routing, 0)
        return await self._run()

    async def _rest(self) -> Result:
        if self._answers is None:
            return await self._routed_anew()
        answers, self._answers = self._answers, None
        gathering = self._gathering
        if gathering.rest is not None:
            return await gathering.rest(answers)
        result = gathering.join([answer.body for answer in answers])
        assert result is not None, "without a rest it always has all"
        return result
