"""A batch of insert, update or delete statements, carried out across the shards.

Statements keep their order where the client asked for it: a run of statements for one shard is one request, and nothing
after a failed statement is sent. Unordered batches go to all their shards side by side. A statement that a shard calls
stale is routed again; one that a shard has carried out is not sent to that shard again.

The autosplit accounting counts the bytes written statement by statement: a batch is cut where a chunk is due for a
check, so single inserts and bulk loads leave the same chunks.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.sharding.chunks import Chunk
from docstore.sharding.routing import Routing
from mongos.routing.cache import MAX_ATTEMPTS, RoutingCache, is_stale, version_for
from mongos.routing.requests import forwarded, versioned
from mongos.routing.shards import Shards, each
from mongos.routing.targeting import Target


class Accounting(Protocol):
    """What counts the bytes written to chunks, for splitting them in time."""

    def add(self, routing: Routing, chunk: Chunk, size: int) -> bool:
        """Count; True when the chunk is due for a look."""

    async def look(self, routing: Routing, chunk: Chunk) -> None:
        """Split the chunk if it has grown past its size."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one command's statements travel: the field that holds them and who decides where they go."""

    field: str
    target: Callable[[Routing, bytes], Target]
    size: Callable[[bytes], int]


@dataclass(slots=True)
class Outcome:
    """What has happened so far, in the reply's terms."""

    n: int = 0
    modified: int | None = None
    upserted: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)
    concern_error: dict[str, Any] | None = None
    retried: list[int] = field(default_factory=list)

    def reply(self) -> dict[str, Any]:
        """The fields in the order of a data node."""
        body: dict[str, Any] = {"n": self.n}
        if self.errors:
            body["writeErrors"] = sorted(self.errors, key=lambda row: row["index"])
        if self.retried:
            body["retriedStmtIds"] = sorted(self.retried)
        if self.upserted:
            body["upserted"] = sorted(self.upserted, key=lambda row: row["index"])
        if self.modified is not None:
            body["nModified"] = self.modified
        if self.concern_error is not None:
            body["writeConcernError"] = self.concern_error
        return body


@dataclass(frozen=True, slots=True)
class _Request:
    """Statements for one shard: their indexes in the client's batch."""

    shard: str
    indexes: tuple[int, ...]


class BatchWrite:
    """One client's batch. `run` answers it."""

    def __init__(
        self, context: Context, kind: Kind, statements: Sequence[bytes], *, ordered: bool, shards: Shards,
        cache: RoutingCache, accounting: Accounting, ensure_database: Callable[[str], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._context = context
        self._kind = kind
        self._statements = statements
        self._ordered = ordered
        self._shards = shards
        self._cache = cache
        self._accounting = accounting
        self._ensure_database = ensure_database
        self._pending = list(range(len(statements)))
        self._done_on: dict[int, set[str]] = {}
        self._counted: set[int] = set()
        self._begun: set[int] = set()
        self._outcome = Outcome(modified=0 if kind.field == "updates" else None)
        self._base = forwarded(context.raw, without=(kind.field, "stmtId", "stmtIds"))

    async def run(self) -> dict[str, Any]:
        """The reply. Errors: StaleConfig when the routing never settles; those that concern the whole batch."""
        namespace = self._context.namespace
        stale_rounds = 0
        while self._pending and not (self._ordered and self._outcome.errors):
            self._context.operation.check()
            routing = await self._cache.get(namespace)
            if routing.primary is None:
                await self._ensure_database(namespace)
                continue
            requests, due = self._next_requests(routing)
            left = set().union(*await each(requests, functools.partial(self._send, routing)))
            self._pending = [index for index in self._pending if index not in self._begun or index in left]
            if left and not (self._ordered and self._outcome.errors):
                stale_rounds += 1
                if stale_rounds == MAX_ATTEMPTS:
                    raise CommandError(Code.StaleConfig, f"the routing of {namespace} does not settle")
                await self._cache.settle(namespace, routing, stale_rounds)
                continue
            stale_rounds = 0
            if due is not None:
                await self._accounting.look(routing, due)
        return self._outcome.reply()

    def _next_requests(self, routing: Routing) -> tuple[list[_Request], Chunk | None]:
        """What to send next, one request a shard; and the chunk that is due for a look after it."""
        groups: dict[str, list[int]] = {}
        due: Chunk | None = None
        self._begun = set()
        for index in self._pending:
            try:
                target = self._kind.target(routing, self._statements[index])
            except CommandError as error:
                if self._ordered and groups:
                    break
                self._fail(index, error)
                if self._ordered:
                    break
                continue
            shards = [shard for shard in target.shards if shard not in self._done_on.get(index, ())]
            if self._ordered and groups and (len(shards) != 1 or shards[0] not in groups):
                break
            self._begun.add(index)
            for shard in shards:
                groups.setdefault(shard, []).append(index)
            if target.chunk is not None and index not in self._counted:
                self._counted.add(index)
                if self._accounting.add(routing, target.chunk, self._kind.size(self._statements[index])):
                    due = target.chunk
                    break
            if self._ordered and len(shards) > 1:
                break
        return [_Request(shard, tuple(indexes)) for shard, indexes in groups.items()], due

    async def _send(self, routing: Routing, request: _Request) -> set[int]:
        """Send one request and take in its reply; the indexes of statements that are still to be done."""
        add: dict[str, Any] = {}
        session = self._context.session
        repeatable = session is not None and session.txn_number is not None
        if session is not None and repeatable:
            add["stmtIds"] = [session.statement_id(index) for index in request.indexes]
        body = versioned(forwarded(self._base, add=add), version_for(routing, request.shard))
        shard = await self._shards.get(request.shard)
        try:
            answer = await shard.command(
                self._context.db, body,
                sequences={self._kind.field: [self._statements[index] for index in request.indexes]},
                repeatable=repeatable, deadline=self._context.deadline,
            )  # fmt: skip
        except CommandError as error:
            if is_stale(error.code):
                return set(request.indexes)
            raise
        return self._take(request, document_to_python(answer.body))

    def _take(self, request: _Request, reply: dict[str, Any]) -> set[int]:
        left: set[int] = set()
        failed = {row["index"]: row for row in reply.get("writeErrors", ())}
        first_failure = min(failed, default=len(request.indexes))
        for position, index in enumerate(request.indexes):
            row = failed.get(position)
            if (row is not None and is_stale(row["code"])) or (self._ordered and position > first_failure):
                left.add(index)
                continue
            if row is not None:
                self._outcome.errors.append({**row, "index": index})
            self._done_on.setdefault(index, set()).add(request.shard)
        self._outcome.n += reply["n"]
        if self._outcome.modified is not None:
            self._outcome.modified += reply.get("nModified", 0)
        for row in reply.get("upserted", ()):
            self._outcome.upserted.append({**row, "index": request.indexes[row["index"]]})
        self._outcome.concern_error = self._outcome.concern_error or reply.get("writeConcernError")
        self._outcome.retried += reply.get("retriedStmtIds", ())
        return left

    def _fail(self, index: int, error: CommandError) -> None:
        row = {"index": index, "code": error.code, "errmsg": error.message, **error.extra}
        self._outcome.errors.append(row)
        self._pending.remove(index)
