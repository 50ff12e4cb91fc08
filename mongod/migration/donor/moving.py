"""Carries out the decisions of `docstore.sharding.move_request` about a request to move a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bson.binary import Binary

from docstore.node.slices import finish_work
from docstore.sharding import requests
from docstore.sharding.migration import Migration
from docstore.sharding.move_request import (
    Begin,
    Event,
    FindPart,
    Join,
    Measure,
    Measured,
    MoveRequest,
    Moving,
    PartFound,
    ReadRouting,
    RoutingRead,
    Situation,
    Split,
    SplitDone,
)
from mongod.migration.range_operations import part_of, range_bytes

if TYPE_CHECKING:
    from mongod.migration.shard import Shard


async def move(shard: Shard, request: MoveRequest) -> Binary:
    """Move a range to another shard; the migration's id, once the move is committed.

    Asked again for a move that runs or has happened, it is the same move. Errors: StaleEpoch,
    ConflictingOperationInProgress when there is no such chunk here or another migration runs, OperationFailed,
    ChunkTooBig where it is much larger than the extent lets it be.
    """
    moving = Moving(request, shard.name)
    effect = moving.start()
    while True:
        match effect:
            case Begin(routed, chunk):
                return await shard.donated(await shard.donate(routed, chunk, request.to))
            case Join(migration):
                return await shard.donated(migration)
            case ReadRouting() | Measure() | FindPart() | Split():
                event = await _carry_out(shard, request, effect)
            case _:
                if effect.error is not None:
                    raise effect.error
                return Binary(bytes(16), 4)
        running = [migration for migration in shard.donating() if isinstance(migration, Migration)]
        effect = moving.receive(event, Situation(running, shard.conflict(request.namespace)))


async def _carry_out(shard: Shard, request: MoveRequest, effect: ReadRouting | Measure | FindPart | Split) -> Event:
    node = shard.node
    collection = node.store.collection(request.namespace)
    match effect:
        case ReadRouting():
            shard.shard_filter.forget(request.namespace)
            return RoutingRead((await shard.shard_filter.refresh(request.namespace)).collection)
        case Split(routed, chunk, points):
            await shard.config_servers().command(
                requests.commit_chunk_split(request.namespace, routed.epoch, shard.name, chunk.range, points)
            )
            return SplitDone()
        case Measure(routed, bounds, most):
            if collection is None:
                return Measured(0)
            return Measured(await finish_work(node, range_bytes(node, collection, routed.key, bounds, most)))
        case FindPart(routed, bounds, wanted, most, upper):
            if collection is None:
                return PartFound(bounds)
            steps = part_of(node, collection, routed.key, bounds, wanted, most, upper=upper)
            return PartFound(await finish_work(node, steps))
