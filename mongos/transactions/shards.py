"""The shards of a transaction: every request to them becomes part of the transaction.

Invariants:

- the first request to a shard begins the shard's part, and no other is sent there before its answer. All parts of a
  snapshot transaction read at the same cluster time;
- nothing is sent twice: no operation may run twice;
- a part that begins waits for changes of definitions only while it is the only one, and holds nothing meanwhile;
- a shard that calls its first request stale has had no effects: its part begins anew with the request as routed then.
  Later, stale means that the shard has lost the part's writes, and the transaction fails: also if another shard calls
  the statement stale at the same time, for which it is routed anew.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import bson

from docstore.bson import array_documents, document_from, elements, get_field
from docstore.commands.concerns import PRIMARY, ReadPreference
from docstore.commands.parts import Parts
from docstore.commands.sessions.transactions import READ_ONLY
from docstore.commands.values import integer_of
from docstore.errors import Code, CommandError
from mongos.limits import MAX_PAUSE_SECONDS
from mongos.merge.leftovers import Leftovers
from mongos.routing.cache import is_stale
from mongos.routing.requests import ShardReply
from mongos.routing.shards import CONFIG, Shard, Shards
from mongos.transactions.transaction import Participant, RouterTransaction

if TYPE_CHECKING:
    from mongos.router_parts import RouterParts

_OF_SESSIONS = frozenset(
    ("lsid", "txnNumber", "autocommit", "startTransaction", "stmtId", "stmtIds", "readConcern", "$clusterTime")
)

MAX_LOCK_WAIT_SECONDS = 20.0
_MIN_PAUSE_SECONDS = 0.01


class _Operation(NamedTuple):
    """A request to a shard; see `Shard.command` for the fields."""

    db: str
    body: bytes | Mapping[str, Any]
    sequences: Mapping[str, list[bytes]] | None
    deadline: float | None
    late: float


class TransactionShard:
    """Stands for a `Shard`; see the module."""

    def __init__(self, transaction: RouterTransaction, shard: Shard) -> None:
        self.name = shard.name
        self.host = shard.host
        self.client = shard.client
        self._transaction = transaction
        self._shard = shard

    async def command(
        self,
        db: str,
        body: bytes | Mapping[str, Any],
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        read_preference: ReadPreference = PRIMARY,
        repeatable: bool = False,
        deadline: float | None = None,
        late: float = 0.0,
        failure: None = None,
    ) -> ShardReply:
        """See `Shard.command`. Further errors: SnapshotUnavailable, NoSuchTransaction."""
        participant = self._transaction.participant(self._shard)
        operation = _Operation(db, body, sequences, deadline, late)
        if participant.begun:
            return await self._send(participant, operation)
        async with participant.turn:
            return await self._begin(participant, operation)

    async def _begin(self, participant: Participant, operation: _Operation) -> ShardReply:
        """Begin the shard's part. The only part waits for a change of definitions; beside others it must not, since the
        change may wait for them.
        """
        shard, pause = self._shard, _MIN_PAUSE_SECONDS
        give_up = shard.now() + MAX_LOCK_WAIT_SECONDS if operation.deadline is None else operation.deadline
        while True:
            try:
                return await self._send(participant, operation)
            except CommandError as error:
                waits = error.code == Code.LockTimeout and not participant.begun
                if not waits or not self._transaction.is_alone(participant) or shard.now() + pause >= give_up:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    async def _send(self, participant: Participant, operation: _Operation) -> ShardReply:
        self._transaction.check()
        if self._transaction.lost is not None:
            raise self._transaction.lost
        first = not participant.begun
        db, body, sequences, deadline, late = operation
        request = self._request(body, first=first)
        try:
            reply = await self._shard.command(db, request, sequences=sequences, deadline=deadline, late=late)
            _check_statements(reply.body)
        except CommandError as error:
            if error.code == Code.CommandOnShardedViewNotSupportedOnMongod:
                # Not a failure: it only names the view's source.
                participant.begun = True
            if is_stale(error.code) and not first:
                self._transaction.lost = CommandError(
                    Code.SnapshotUnavailable,
                    f"Transaction {self._transaction.number} was aborted on {self.name}: {error.message}",
                )
                raise self._transaction.lost from None
            raise
        participant.begun = True
        read_only = get_field(reply.body, READ_ONLY)
        if read_only is not None and read_only[1] == b"\0":
            self._transaction.wrote(participant)
        return reply

    def _request(self, body: bytes | Mapping[str, Any], *, first: bool) -> bytes:
        raw = body if isinstance(body, bytes) else bson.encode(body)
        fields = [field for field in elements(raw) if field[0] not in _OF_SESSIONS]
        return document_from([*fields, *elements(self._transaction.fields(first=first))])

    async def at(
        self,
        address: str,
        db: str,
        body: bytes | Mapping[str, Any],
        *,
        sequences: Mapping[str, list[bytes]] | None = None,
        deadline: float | None = None,
        late: float = 0.0,
    ) -> bytes:
        """See `Shard.at`; only for a member that has answered in the transaction before."""
        self._transaction.check()
        request = self._request(body, first=False)
        return await self._shard.at(address, db, request, sequences=sequences, deadline=deadline, late=late)

    async def end_cursor(self, address: str, db: str, collection: str, cursor_id: int) -> None:
        """See `Shard.end_cursor`. The end of the transaction ends its cursors too."""
        command = {"killCursors": collection, "cursors": [bson.Int64(cursor_id)]}
        await self.at(address, db, command)


def _check_statements(reply: bytes) -> None:
    """Raise the error of a stale statement: the whole batch has had no effect then."""
    failed = get_field(reply, "writeErrors")
    for row in [] if failed is None else array_documents(failed[1]):
        code, text = get_field(row, "code"), get_field(row, "errmsg")
        if code is not None and is_stale(integer_of(*code)):
            raise CommandError(integer_of(*code), "" if text is None else text[1][4:-1].decode())


class TransactionShards:
    """Stands for `Shards`. The config servers take part in no transaction."""

    def __init__(self, transaction: RouterTransaction, shards: Shards) -> None:
        self._transaction = transaction
        self._shards = shards

    @property
    def config(self) -> Shard:
        return self._shards.config

    async def get(self, name: str) -> Shard | TransactionShard:
        """A shard by name. Errors: ShardNotFound."""
        return self._taking_part(await self._shards.get(name))

    async def of_routing(self, name: str) -> Shard | TransactionShard:
        """See `Shards.of_routing`."""
        return self._taking_part(await self._shards.of_routing(name))

    def one_that_answered(self, name: str) -> Shard | TransactionShard:
        """See `Shards.one_that_answered`."""
        return self._taking_part(self._shards.one_that_answered(name))

    def _taking_part(self, shard: Shard) -> Shard | TransactionShard:
        return shard if shard.name == CONFIG else TransactionShard(self._transaction, shard)

    def known(self, name: str) -> None:
        """Return None: a shard's first request must wait for its turn."""

    async def all(self) -> list[TransactionShard]:
        """Every shard, by name."""
        return [TransactionShard(self._transaction, shard) for shard in await self._shards.all()]


def parts_within(router: RouterParts, transaction: RouterTransaction) -> Parts:
    """Return what requests of the transaction see as their router: a copy over the transaction's shards."""
    inner = copy.copy(router)
    shards = TransactionShards(transaction, router.shards)
    inner.shards = shards  # type: ignore[assignment]  # it is asked for no more than it has
    inner.leftovers = Leftovers(shards)  # type: ignore[arg-type]
    parts = Parts()
    parts[type(router)] = inner
    return parts
