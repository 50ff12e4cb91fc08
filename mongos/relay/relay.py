"""Relaying: a command for one shard is passed on and its answer passed back, without routing it through `run`.

`relayed` wraps a command's own `run`. If the bytes of the request and the cached routing show one shard, the request
is sent there as it came, with the shard version, over the client's previous connection. The answer is returned as it
came, except for the times that the router reports.

Invariants:

- a client sees the same as from `run`;
- an answer that is no plain success is handled as in `run`. If nothing was done (stale, not primary), or the request
  may be repeated, the request goes through `run`;
- a statement that names its time goes through `run`, which sends the router's;
- a cursor that stays open becomes one of the router's;
- abandoned work is ended: its cursor is closed, and so is a connection that is silent for `LATE_SECONDS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from docstore.bson import without_fields
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import ReadLevel
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result, Role
from docstore.commands.gossip import heard_cluster_time
from docstore.commands.operations.relay import Answered, Relay
from docstore.errors import STATE_CHANGE_CODES, CommandError
from docstore.net import NetworkError
from docstore.net.link import Link
from docstore.net.pool import raise_for_error
from docstore.net.replica_set_client import NOT_DONE_CODES
from docstore.sharding.version import STALE_CODES
from docstore.wire.message import Message
from mongos.relay.failures import ends_read
from mongos.relay.gathered import Gather, GatheredRelay
from mongos.relay.replies import of_statements, own_fields, statement_error, success
from mongos.relay.targets import Aim, Language, NamespaceTargets
from mongos.relay.waiting import AwaitedRelay
from mongos.router import Router, router_of
from mongos.routing.query_context import names_time, query_context_of
from mongos.routing.requests import BETWEEN_CLIENT_AND_ROUTER, ShardReply
from mongos.routing.scatter import LATE_SECONDS
from mongos.routing.shards import Shard, told, unreachable

_LEFT_OUT = BETWEEN_CLIENT_AND_ROUTER - {b"$db"}
_LARGE_BYTES = 1024 * 1024
"""Larger answers are passed on in several turns of the loop."""

Run = Callable[[Context, Arguments], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Relaying:
    """The relaying of one command.

    - `aim(arguments, targets, language)`: the target shard; None if the request is not to be relayed.
    - `begins`: the first bytes of its successful replies.
    - `aside`: parameters that prevent relaying.
    - `statements`: the field of its statements, of which there must be one; empty for other commands.
    - `counts`: the counter of serverStatus in which its statements count; empty for none of its own.
    - `open_cursor`: makes the reply from an answer that leaves a cursor open.
    - `gather`: the gathering of a read that goes to all shards.
    """

    aim: Callable[[Arguments, NamespaceTargets, Language], Aim | None]
    begins: bytes
    aside: frozenset[str] = frozenset()
    statements: str = ""
    counts: str = ""
    open_cursor: Callable[[Context, Arguments, ShardReply], Awaitable[bytes]] | None = None
    gather: Gather | None = None


def relayed(run: Run, how: Relaying) -> Callable[[Context, Arguments], Response]:
    """Return the command with relaying where that is possible."""

    def begin(context: Context, args: Arguments) -> Response:
        if how.counts:
            counters = router_of(context).counters
            counters.count(how.counts, len(args[how.statements]) if how.statements else 1)
            counters.writes += bool(how.statements)
        return _relay(run, how, context, args) or run(context, args)

    return begin


def _relay(run: Run, how: Relaying, context: Context, args: Arguments) -> Relay | None:
    session = context.session
    if session is not None and (
        session.in_transaction or session.transaction is not None or session.stmt_ids is not None
    ):
        return None
    if context.read_concern.level is ReadLevel.SNAPSHOT:
        # The shard must be told the time.
        return None
    if context.max_time_ms or not how.aside.isdisjoint(args.values) or not context.sequences.keys() <= {how.statements}:
        return None
    if context.read_preference.secondary_ok and context.command.role is not Role.PRIMARY:
        return None
    if names_time(context.raw) or (how.statements != "documents" and names_time(*_statements(how, context))):
        # The shard must be told this time too.
        return None
    router = router_of(context)
    targets = router.targets.of(context.namespace)
    if targets is None:
        return None
    aim = how.aim(args, targets, partial(query_context_of, context))
    if aim is None:
        if how.gather is None or not targets.all_shards:
            return None
        gathering = how.gather(context, args, targets)
        if gathering is None:
            return None
        return GatheredRelay(partial(run, context, args), gathering, context, router, targets)
    shard = router.shards.known(aim.shard)
    return None if shard is None else RoutedRelay(run, how, context, args, router, targets, aim, shard)


def _statements(how: Relaying, context: Context) -> Sequence[bytes]:
    return context.sequences.get(how.statements, ())


class RoutedRelay(AwaitedRelay):
    """One request to one shard."""

    # Defaults that few requests override are on the class.
    _answer: ShardReply | None = None
    _answered: Answered | None = None
    _abandoned: asyncio.TimerHandle | None = None
    _failure: NetworkError | CommandError | None = None
    _link: Link | None = None
    _result: bytes | None = None
    _address = ""

    def __init__(
        self, run: Run, how: Relaying, context: Context, args: Arguments, router: Router, targets: NamespaceTargets,
        aim: Aim, shard: Shard,
    ) -> None:  # fmt: skip
        self._run = run
        self._how = how
        self._context = context
        self._args = args
        self._router = router
        self._targets = targets
        self._aim = aim
        self._shard = shard

    def start(self, answered: Answered) -> bool:
        self._begun = True
        context, shard = self._context, self._shard
        body = without_fields(context.raw, _LEFT_OUT, self._targets.version(shard.name) + self._aim.more)
        upstream = context.connection.upstream
        sent = shard.send(body, self._take, sequences=context.sequences, before=upstream.get(shard.name))
        if sent is None:
            return False
        self._answered = answered
        self._address, self._link = sent
        upstream[shard.name] = self._link
        return True

    def cancel(self) -> None:
        self._answered = None
        if self._answer is not None:
            self._router.leftovers.discard_answers([self._answer])
        if self._link is not None:
            self._abandoned = asyncio.get_running_loop().call_later(LATE_SECONDS, self._link.close)

    def _take(self, reply: Message | NetworkError) -> None:
        answered, self._answered, self._link = self._answered, None, None
        if answered is None:
            self._discard(reply)
        elif isinstance(reply, NetworkError):
            self._failure = reply
            answered(None)
        else:
            answered(self._looked_at(reply.body))

    def _discard(self, reply: Message | NetworkError) -> None:
        if self._abandoned is not None:
            self._abandoned.cancel()
        if isinstance(reply, Message):
            self._router.leftovers.discard_answers([ShardReply(self._shard.name, self._address, reply.body)])

    def _looked_at(self, reply: bytes) -> bytes | None:
        """Return the reply's own fields if nothing remains to be done; None if a task must finish."""
        how = self._how
        outcome = success(reply, how.begins)
        if outcome is None:
            self._note(reply)
            return None
        end = outcome.end
        self._router.observe_cluster_time(outcome.cluster_time)
        if how.statements and reply.find(b"write", 4, end) >= 0:
            result = self._of_statements(reply)
        elif how.open_cursor is not None and not self._targets.is_whole(reply, end):
            self._answer = ShardReply(self._shard.name, self._address, reply)
            result = None
        else:
            result = own_fields(reply, end)
        if result is not None and (len(result) > _LARGE_BYTES or self._is_due()):
            self._result, result = result, None
        return result

    def _note(self, reply: bytes) -> None:
        """Keep a reply for a task: an error, or a success in a form that current data nodes do not send."""
        try:
            raise_for_error(reply)
        except CommandError as error:
            self._failure = error
        else:
            self._router.observe_cluster_time(heard_cluster_time(reply))
            self._answer = ShardReply(self._shard.name, self._address, reply)

    def _of_statements(self, reply: bytes) -> bytes | None:
        code = statement_error(reply)
        if code not in STALE_CODES:
            return of_statements(reply)
        self._failure = CommandError(code, "the routing of the statement was out of date")
        return None

    def _is_due(self) -> bool:
        """Count the bytes written; return whether the chunk is due for a check."""
        aim = self._aim
        return aim.chunk is not None and self._router.autosplit.add(self._targets.routing, aim.chunk, aim.size)

    # In a task

    async def _rest(self) -> Result:
        """Finish in a task, after the shard has answered or could not be asked."""
        if self._result is not None:
            # Kept because it is large, or because the chunk that was written to is due.
            due = self._aim.chunk is not None
            result: Result = self._result
        elif self._answer is not None:
            answered = await self._from_answer(self._answer)
            if answered is None:
                return await self._routed_anew()
            due, result = self._is_due(), answered
        else:
            return await self._routed_anew()
        if due and self._aim.chunk is not None:
            await self._router.autosplit.look(self._targets.routing, self._aim.chunk)
        return result

    async def _from_answer(self, answer: ShardReply) -> bytes | None:
        """Return the client's reply to a success; None if the statement did not succeed."""
        how = self._how
        if how.open_cursor is not None:
            return await how.open_cursor(self._context, self._args, answer)
        return self._of_statements(answer.body) if how.statements else answer.relayed()

    async def _routed_anew(self) -> Result:
        """Execute the request as if it had not been relayed. Errors: the reason, for a request that may not be sent
        again.
        """
        failure = self._failure
        if isinstance(failure, NetworkError):
            self._shard.client.suspect(self._address)
            if failure.sent and not self._repeatable:
                raise told(unreachable(self._shard.name, self._address, failure), True) from failure
        elif failure is not None and failure.code in STALE_CODES:
            await self._router.cache.settle(self._context.namespace, self._targets.routing, 0)
        elif failure is not None and failure.code in STATE_CHANGE_CODES:
            self._shard.client.suspect(self._address)
            if not self._repeatable and failure.code not in NOT_DONE_CODES:
                raise told(failure, True)
        elif failure is not None and (ends_read(failure) or not self._reads):
            raise failure
        return await self._run(self._context, self._args)

    @property
    def _reads(self) -> bool:
        return self._context.command.role is not Role.PRIMARY

    @property
    def _repeatable(self) -> bool:
        session = self._context.session
        return self._reads or (session is not None and session.txn_number is not None)
