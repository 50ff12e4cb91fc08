"""A batch of insert, update or delete statements, executed across the shards.

Ordered batches keep the order of statements: a run of statements for one shard is one request, and nothing after a
failed statement is sent. Unordered batches go to all their shards concurrently. A statement that a shard calls stale
is routed again; `mongos.routing.progress` has the rest of a statement on several shards.

The autosplit accounting counts the bytes written statement by statement: a batch is divided where a chunk is due for
a check, so single inserts and bulk loads leave the same chunks.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.errors import Code, CommandError, interrupted
from docstore.sharding.chunk import Chunk
from docstore.sharding.routing import Routing
from docstore.sharding.targeting import KeyRanges
from docstore.wire import MAX_MESSAGE_BYTES
from mongos.relay.asked import Begun
from mongos.routing.cache import MAX_ATTEMPTS, RoutingCache, is_stale, version_for
from mongos.routing.progress import Part, Progress
from mongos.routing.query_context import names_time, query_context_of, statement_time
from mongos.routing.requests import forwarded, versioned
from mongos.routing.scatter import Scatter
from mongos.routing.shards import Shards, each
from mongos.routing.targeting import Target

_ADDED_BYTES = 64 * 1024
"""Space for a request's fields besides its statements: version, session, times, ranges."""
_STATEMENTS_AT_ONCE = 256
"""Statements that are targeted before others may run."""
_STATEMENT_ID_BYTES = 24
"""Room for the number of a statement in an array."""


class Accounting(Protocol):
    """Counts the bytes written to chunks, for splitting them in time."""

    def add(self, routing: Routing, chunk: Chunk, size: int) -> bool:
        """Count bytes; True when the chunk is due for a check."""

    async def look(self, routing: Routing, chunk: Chunk) -> None:
        """Split the chunk if it has grown past its size."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The kind of a batch: the field of its statements, and how they are targeted and measured.

    `complete`: makes a client's statement that of the shards, once before it is targeted; None: it is that already.
    """

    field: str
    target: Callable[[Routing, bytes], Target]
    size: Callable[[bytes], int]
    complete: Callable[[bytes], bytes] | None = None


@dataclass(slots=True)
class Outcome:
    """The results so far, in the reply's terms."""

    n: int = 0
    modified: int | None = None
    upserted: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    concern_error: dict[str, Any] | None = None
    retried: list[int] = field(default_factory=list)
    by_statement: dict[int, list[int]] | None = None
    """[matched documents, modified documents] of the executed statements, on request."""

    def count(self, index: int, n: int, modified: int) -> None:
        """Note that a shard has carried out a statement, or a part of one."""
        if self.by_statement is not None:
            counts = self.by_statement.setdefault(index, [0, 0])
            counts[0] += n
            counts[1] += modified

    def reply(self) -> dict[str, Any]:
        """The fields in the order of a data node."""
        body: dict[str, Any] = {"n": self.n}
        if self.errors:
            body["writeErrors"] = sorted(self.errors, key=lambda row: row["index"])
        if self.retried:
            body["retriedStmtIds"] = sorted(set(self.retried))
        if self.upserted:
            body["upserted"] = sorted(self.upserted, key=lambda row: row["index"])
        if self.modified is not None:
            body["nModified"] = self.modified
        if self.concern_error is not None:
            body["writeConcernError"] = self.concern_error
        return body


@dataclass(slots=True)
class _Request:
    """Statements for one shard: their indexes in the client's batch. `keys`: the ranges of the only statement."""

    shard: str
    indexes: list[int]
    keys: KeyRanges | None = None
    stale: list[int] = field(default_factory=list)
    """The statements that the shard has not executed."""


class Batch(NamedTuple):
    """The statements of a write command. `ordered`: none is executed after one that fails."""

    kind: Kind
    statements: Sequence[bytes]
    ordered: bool


class BatchWrite:
    """One client's batch. `run` answers it."""

    def __init__(
        self, context: Context, batch: Batch, *, shards: Shards, cache: RoutingCache, accounting: Accounting,
        ensure_database: Callable[[str], Awaitable[None]], pause: Callable[[], Awaitable[None]], counted: bool = False,
    ) -> None:  # fmt: skip
        self._context = context
        self._kind, self._ordered = batch.kind, batch.ordered
        self._statements = list(batch.statements)
        self._completed = 0
        self._shards = shards
        self._cache = cache
        self._accounting = accounting
        self._ensure_database = ensure_database
        self._pause = pause
        self._pending = deque(range(len(batch.statements)))
        self._progress: dict[int, Progress] = {}
        self._failed: set[int] = set()
        self._counted: set[int] = set()
        self._begun: set[int] = set()
        self._answered = False
        name = batch.kind.field
        self._outcome = Outcome(modified=0 if name == "updates" else None, by_statement={} if counted else None)
        self._base = forwarded(context.raw, without=(name, "stmtId", "stmtIds"))

    async def run(self) -> dict[str, Any]:
        """The reply. Errors: those of `carry_out`."""
        return (await self.carry_out()).reply()

    async def carry_out(self, begun: Begun | None = None) -> Outcome:
        """Carry out the batch, whose only statement may have begun, and return its results.

        Errors: StaleConfig when the routing never settles; those of the whole batch. "Not primary" is among them only
        if no shard has done anything.
        """
        namespace = self._context.namespace
        stale_rounds = 0
        while self._pending and not (self._ordered and self._outcome.errors):
            self._context.operation.check()
            routing = await self._cache.get(namespace) if begun is None else begun.targets.routing
            if routing.primary is None:
                await self._ensure_database(namespace)
                continue
            requests, due = await self._next_requests(routing) if begun is None else self._begun_request(begun)
            scatter, begun = None if begun is None else begun.scatter, None
            try:
                await each(requests, functools.partial(self._send, routing, scatter))
            except CommandError as error:
                self._cache.doubt(namespace, error)
                raise (interrupted(error) if self._answered else error) from error.__cause__
            remaining = self._left(routing, requests)
            self._pending.extendleft(sorted(remaining, reverse=True))
            stale = any(request.stale for request in requests)
            if remaining and stale and not (self._ordered and self._outcome.errors):
                stale_rounds += 1
                if stale_rounds == MAX_ATTEMPTS:
                    raise CommandError(Code.StaleConfig, f"the routing of {namespace} does not settle")
                await self._cache.settle(namespace, routing, stale_rounds)
                continue
            stale_rounds = 0
            if due is not None:
                await self._accounting.look(routing, due)
        return self._outcome

    def _begun_request(self, begun: Begun) -> tuple[list[_Request], Chunk | None]:
        """Return the request of the statement that was sent before the batch, as `_next_requests`."""
        target = begun.asked.target
        index = self._pending.popleft()
        self._begun = {index}
        self._counted.add(index)
        return [_Request(target.shards[0], [index])], target.chunk if begun.due else None

    async def _next_requests(self, routing: Routing) -> tuple[list[_Request], Chunk | None]:
        """Return the next requests, one per shard and one per partly done statement, and the chunk to check after
        them.

        Others run in between. A client's message may have the maximal size. Fields added for the shards may then not
        fit beside all its statements, so some statements are deferred.
        """
        groups: dict[str, _Request] = {}
        partial: list[_Request] = []
        due: Chunk | None = None
        self._begun = set()
        room = MAX_MESSAGE_BYTES - len(self._base) - _ADDED_BYTES
        pending, position = self._pending, 0
        while pending:
            position += 1
            if not position % _STATEMENTS_AT_ONCE:
                await self._pause()
            index = pending[0]
            if self._kind.complete is not None and index >= self._completed:
                self._statements[index] = self._kind.complete(self._statements[index])
                self._completed = index + 1
            room -= len(self._statements[index]) + _STATEMENT_ID_BYTES
            if room < 0 and self._begun:
                break
            try:
                target = self._kind.target(routing, self._statements[index])
            except CommandError as error:
                if self._ordered and groups:
                    break
                pending.popleft()
                self._fail_once(index, {"index": index, "code": error.code, "errmsg": error.message, **error.extra})
                if self._ordered:
                    break
                continue
            parts = self._parts(routing, index, target)
            if self._ordered and groups and (len(parts) != 1 or parts[0].shard not in groups or parts[0].keys):
                break
            self._begun.add(pending.popleft())
            for part in parts:
                if part.keys is not None:
                    partial.append(_Request(part.shard, [index], part.keys))
                elif part.shard in groups:
                    groups[part.shard].indexes.append(index)
                else:
                    groups[part.shard] = _Request(part.shard, [index])
            if target.chunk is not None and index not in self._counted:
                self._counted.add(index)
                if self._accounting.add(routing, target.chunk, self._kind.size(self._statements[index])):
                    due = target.chunk
                    break
            if self._ordered and (len(parts) > 1 or partial or self._is_narrow(index)):
                break
        return [*groups.values(), *partial], due

    def _parts(self, routing: Routing, index: int, target: Target) -> Sequence[Part]:
        progress = self._progress.get(index)
        if progress is None:
            if len(target.shards) == 1:
                return (Part(target.shards[0]),)
            progress = self._progress[index] = Progress()
        return progress.parts(routing, target)

    def _is_narrow(self, index: int) -> bool:
        progress = self._progress.get(index)
        return progress is not None and progress.narrow

    async def _send(self, routing: Routing, scatter: Scatter | None, request: _Request) -> None:
        """Send one request and process its reply, or note that all of it is stale. `scatter`: where it was sent before,
        so that only its answer, or what follows from its failure, is awaited.
        """
        add: dict[str, Any] = {}
        session = self._context.session
        repeatable = session is not None and session.txn_number is not None
        if session is not None and repeatable:
            add |= _statement_ids([session.statement_id(index) for index in request.indexes])
        if request.keys is not None:
            add["within"] = [{"min": low, "max": high} for low, high in request.keys]
        if len(request.indexes) > 1 and self._needs_counts(request):
            add["statementCounts"] = True
        statements = [self._statements[index] for index in request.indexes]
        if self._kind.field != "documents" and names_time(self._base, *statements):
            add |= statement_time(query_context_of(self._context), self._base, *statements)
        body = versioned(forwarded(self._base, add=add), version_for(routing, request.shard))
        answer = failure = None
        if scatter is not None:
            answer, failure = scatter.answers.get(request.shard), scatter.failures.get(request.shard)
        try:
            if answer is None:
                shard = await self._shards.of_routing(request.shard)
                answer = await shard.command(
                    self._context.db, body,
                    sequences={self._kind.field: statements},
                    repeatable=repeatable, deadline=self._context.deadline, failure=failure,
                )  # fmt: skip
        except CommandError as error:
            if not is_stale(error.code):
                raise
            request.stale = request.indexes
            return
        self._take(request, document_to_python(answer.body))

    def _needs_counts(self, request: _Request) -> bool:
        """True if the shard must report the counts of each statement."""
        if self._kind.field == "documents":
            return False
        return self._outcome.by_statement is not None or not self._progress.keys().isdisjoint(request.indexes)

    def _take(self, request: _Request, reply: dict[str, Any]) -> None:
        self._answered = True
        failed = {row["index"]: row for row in reply.get("writeErrors", ())}
        first_failure = min(failed, default=len(request.indexes))
        for position, index in enumerate(request.indexes):
            row = failed.get(position)
            if (row is not None and is_stale(row["code"])) or (self._ordered and position > first_failure):
                request.stale.append(index)
            elif row is not None:
                self._fail_once(index, {**row, "index": index})
        self._outcome.n += reply["n"]
        if self._outcome.modified is not None:
            self._outcome.modified += reply.get("nModified", 0)
        for row in reply.get("upserted", ()):
            self._outcome.upserted.append({**row, "index": request.indexes[row["index"]]})
        self._outcome.concern_error = self._outcome.concern_error or reply.get("writeConcernError")
        self._outcome.retried += reply.get("retriedStmtIds", ())
        if self._kind.field == "documents":
            if self._outcome.by_statement is not None:
                for index in set(request.indexes).difference(request.stale, self._failed):
                    self._outcome.count(index, 1, 0)
        elif self._progress or self._outcome.by_statement is not None:
            self._note_progress(request, reply)

    def _note_progress(self, request: _Request, reply: dict[str, Any]) -> None:
        several = len(request.indexes) > 1 and "counts" in reply
        counts = reply["counts"] if several else [reply["n"]]
        changed = reply.get("modifiedCounts", [0] * len(counts)) if several else [reply.get("nModified", 0)]
        retried = frozenset(reply.get("retriedStmtIds", ()))
        session = self._context.session
        for index, count, modified in zip(request.indexes, counts, changed, strict=False):
            self._outcome.count(index, count, modified)
            progress = self._progress.get(index)
            if progress is None or index in request.stale:
                continue
            is_repeat = session is not None and bool(retried) and session.statement_id(index) in retried
            if not progress.answered(Part(request.shard, request.keys), count, retried=is_repeat):
                self._outcome.n -= count
                self._outcome.count(index, -count, -modified)
                if self._outcome.modified is not None:
                    self._outcome.modified -= modified

    def _left(self, routing: Routing, requests: Sequence[_Request]) -> set[int]:
        """Return the statements that are not done, or only in part."""
        stale: dict[int, list[Part]] = {}
        for request in requests:
            for index in request.stale:
                stale.setdefault(index, []).append(Part(request.shard, request.keys))
        remaining = set(stale)
        for index in self._begun & self._progress.keys():
            if self._progress[index].end_round(routing, stale.get(index, ())) and index not in self._failed:
                remaining.add(index)
            else:
                remaining.discard(index)
        return remaining

    def _fail_once(self, index: int, row: dict[str, Any]) -> None:
        """Note the error of a statement; if several shards refuse it, that of the first."""
        if index not in self._failed:
            self._failed.add(index)
            self._outcome.errors.append(row)


def _statement_ids(ids: list[int]) -> dict[str, Any]:
    """Return the field for statement ids: only the first if they are consecutive, because 10,000 ids take much of a
    message.
    """
    first = ids[0]
    return {"stmtId": first} if ids == list(range(first, first + len(ids))) else {"stmtIds": ids}
