"""A shard's part in a DDL operation whose hold stands here.

Each act is idempotent: repeated requests wait for the act under way. A reply is sent once a majority of the shard has
the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from bson.binary import Binary

from docstore.collection.transaction.claims import WriteConflict
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.sharding.ddl.operation import HOLDS, Blocks, Hold, Kind, Operation, Phase, enter_phase
from mongod.ddl import drops, index_changes, primary_moves, renames, shard_key
from mongod.migration.shard import Shard

Act = Callable[[Shard, Context, Operation], Awaitable[dict[str, Any]]]

_ACTS: Mapping[tuple[Kind, Phase], Act] = {
    (Kind.DROP_COLLECTION, Phase.APPLYING): drops.drop_collection,
    (Kind.DROP_DATABASE, Phase.APPLYING): drops.drop_database,
    (Kind.SHARD_COLLECTION, Phase.PREPARING): shard_key.prepare,
    (Kind.CREATE_INDEXES, Phase.PREPARING): index_changes.create,
    (Kind.CREATE_INDEXES, Phase.UNDOING): index_changes.undo,
    (Kind.DROP_INDEXES, Phase.PREPARING): index_changes.choose,
    (Kind.DROP_INDEXES, Phase.APPLYING): index_changes.drop,
    (Kind.COLL_MOD, Phase.PREPARING): index_changes.as_asked,
    (Kind.COLL_MOD, Phase.APPLYING): index_changes.as_asked,
    (Kind.RENAME_COLLECTION, Phase.APPLYING): renames.rename,
    (Kind.MOVE_PRIMARY, Phase.PREPARING): primary_moves.move,
}
_BESIDE_TRANSACTIONS = frozenset((Kind.MOVE_PRIMARY,))
"""Operations that handle open transactions themselves, at a later point."""


class Participant:
    """A part of a shard."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._acting: dict[tuple[bytes, Phase], asyncio.Task[dict[str, Any]]] = {}

    async def hold(self, operation: Binary, namespace: str, blocks: Blocks) -> None:
        """Take the operation's hold on the namespace. Errors: ConflictingOperationInProgress, OperationFailed."""
        shard = self._shard
        shard.shard_filter.settle_term()
        requested = self._hold(operation, namespace, blocks)
        shard.shard_filter.holds.take(shard.records, requested)
        await shard.records.committed(shard.node.store.last_optime)
        await shard.end_migrations(namespace)
        shard.shard_filter.holds.standing(operation)

    async def release(self, operation: Binary, namespace: str, blocks: Blocks) -> None:
        """Release the operation's hold for good."""
        shard = self._shard
        shard.shard_filter.settle_term()
        await self._end_acts(operation)
        if shard.shard_filter.holds.stands(operation):
            await shard.end_migrations(namespace)
        shard.shard_filter.holds.release(shard.records, self._hold(operation, namespace, blocks))
        await shard.records.committed(shard.node.store.last_optime)

    def _hold(self, operation: Binary, namespace: str, blocks: Blocks) -> Hold:
        seconds = int(self._shard.node.wall_clock())
        return Hold(operation=operation, namespace=namespace, blocks=blocks, seconds=seconds)

    async def act(self, context: Context, operation: Operation) -> dict[str, Any]:
        """Carry out the operation's phase. Errors: OperationFailed if it does not hold the namespace."""
        shard = self._shard
        shard.shard_filter.settle_term()
        shard.node.replication.check_write()
        enter_phase(shard.shard_filter.holds.standing(operation.id), operation.phase)
        await self._end_acts(operation.id, but=operation.phase)
        standing = shard.shard_filter.holds.standing(operation.id)
        hold = enter_phase(standing, operation.phase)
        key = (bytes(operation.id), operation.phase)
        task = self._acting.get(key)
        if task is None:
            if hold != standing:
                shard.records.write((HOLDS, hold.document()))
            act = _ACTS.get((operation.kind, operation.phase))
            if act is None:
                raise CommandError(Code.BadValue, f"{operation.kind.value} asks nothing of shards while {key[1].value}")
            task = asyncio.ensure_future(self._carry_out(act, context, operation))
            self._acting[key] = task
            task.add_done_callback(lambda _: self._acting.pop(key, None))
        reply = await asyncio.shield(task)
        await shard.records.committed(shard.node.store.last_optime)
        return reply

    async def _carry_out(self, act: Act, context: Context, operation: Operation) -> dict[str, Any]:
        """Carry out the phase once no open transaction uses what it changes."""
        claims, namespace = self._shard.node.store.claims, operation.namespace
        if operation.kind in _BESIDE_TRANSACTIONS:
            return await act(self._shard, context, operation)
        find = claims.holder if "." in namespace else claims.holder_in
        while True:
            claims.begin_waiting(namespace)
            try:
                while (holder := find(namespace)) is not None:
                    await holder.over()
            finally:
                claims.end_waiting(namespace)
            try:
                return await act(self._shard, context, operation)
            except WriteConflict as conflict:
                if conflict.over is None:
                    raise
                await conflict.over()

    async def _end_acts(self, operation: Binary, *, but: Phase | None = None) -> None:
        """End the acts of earlier coordinators: the operation has moved on."""
        acting = [
            task
            for (identity, phase), task in self._acting.items()
            if identity == bytes(operation) and phase is not but
        ]
        for task in acting:
            task.cancel()
        if acting:
            await asyncio.wait(acting)


def participant_of(context: Context) -> Participant:
    """Return the participant of the shard that serves this request."""
    return context.services.parts[Participant]
