"""The plans of DDL operations: their phases, participants, and the requests of each phase.

dropCollection, dropDatabase
    Everything on every shard waits. The shards durably record the dropped incarnation, then drop it; the config
    servers forget it; the shards are released. Nothing is undone: the first drop is the point of no return.
shardCollection
    Everything on the primary shard waits while it checks or creates the collection and its index; the config servers
    then give it its chunk, or refuse.
createIndexes
    The shards that own chunks, and the primary shard, build the indexes, and each notes first which it had before. If
    one fails, the others drop the new ones.
dropIndexes
    The same shards resolve the index names; then all drop these.
collMod
    The primary shard changes the collection, or refuses; then the others do.
renameCollection
    For renames with a sharded collection. Everything in the database waits on every shard. The shards durably record
    that the incarnations of both names are over, then drop the target and rename the collection; the config servers
    change their records, under a new epoch.
movePrimary
    Changes of definitions wait on the old primary shard. It moves its unsharded collections as it moves a chunk,
    online (`docstore.sharding.donor`). That migration asks the config servers, which name the new primary shard; after
    an earlier failure nothing has changed. The operation does not wait for the cleanup of the old copy, or of an
    unfinished new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docstore.sharding.ddl.operation import Blocks, Kind, Operation, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a kind. `blocks`: for the participants, see `blocks_on`. `undoes`: PREPARING is undone when the
    operation is given up. `may_be_refused`: the config servers may refuse.
    """

    phases: tuple[Phase, ...]
    blocks: Blocks = Blocks.NOTHING
    undoes: bool = False
    may_be_refused: bool = False


_DROP = Plan(phases=(Phase.HOLDING, Phase.APPLYING, Phase.COMMITTING, Phase.RELEASING), blocks=Blocks.EVERYTHING)
_CHECKED = Plan(phases=(Phase.HOLDING, Phase.PREPARING, Phase.APPLYING, Phase.RELEASING))

PLANS: Mapping[Kind, Plan] = {
    Kind.DROP_COLLECTION: _DROP,
    Kind.DROP_DATABASE: _DROP,
    Kind.RENAME_COLLECTION: _DROP,
    Kind.SHARD_COLLECTION: Plan(
        phases=(Phase.HOLDING, Phase.PREPARING, Phase.COMMITTING, Phase.RELEASING),
        blocks=Blocks.EVERYTHING,
        may_be_refused=True,
    ),
    Kind.CREATE_INDEXES: Plan(phases=(Phase.HOLDING, Phase.PREPARING, Phase.RELEASING), undoes=True),
    Kind.DROP_INDEXES: _CHECKED,
    Kind.COLL_MOD: _CHECKED,
    Kind.MOVE_PRIMARY: Plan(phases=(Phase.HOLDING, Phase.PREPARING, Phase.RELEASING), blocks=Blocks.CHANGES),
}


def blocks_on(operation: Operation, shard: str) -> Blocks:
    """Return what a participant's hold blocks. Nothing on a new primary shard: it serves at once, even if other
    shards are down.
    """
    if operation.kind is Kind.MOVE_PRIMARY and shard == operation.facts["to"]:
        return Blocks.NOTHING
    return PLANS[operation.kind].blocks


def asked_of(operation: Operation) -> tuple[str, ...]:
    """Return the shards that carry out the phase."""
    if operation.kind is Kind.MOVE_PRIMARY:
        return (operation.facts["from"],)
    if operation.kind is not Kind.COLL_MOD:
        return operation.participants
    primary = operation.facts["primary"]
    if operation.phase is Phase.PREPARING:
        return (primary,)
    return tuple(shard for shard in operation.participants if shard != primary)


def noted(operation: Operation, replies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parts of the phase's replies that later phases need."""
    match operation.kind, operation.phase:
        case Kind.SHARD_COLLECTION, Phase.PREPARING:
            (reply,) = replies.values()
            return {name: value for name, value in reply.items() if name != "ok"}
        case Kind.DROP_INDEXES, Phase.PREPARING:
            return {"indexes": sorted({name for reply in replies.values() for name in reply.get("indexes", ())})}
        case ((Kind.CREATE_INDEXES | Kind.DROP_INDEXES | Kind.COLL_MOD), _):
            return {"replies": {**operation.facts.get("replies", {}), **replies}}
        case _:
            return {}


def result_of(operation: Operation) -> dict[str, Any]:
    """Return the client's result. `shards`: the replies by shard, for operations that report them."""
    match operation.kind:
        case Kind.SHARD_COLLECTION:
            return {"collectionsharded": operation.namespace, "collectionUUID": operation.facts["uuid"]}
        case Kind.DROP_COLLECTION | Kind.DROP_DATABASE:
            return {"dropped": True}
        case Kind.RENAME_COLLECTION:
            return {"renamed": True}
        case Kind.MOVE_PRIMARY:
            return {"primary": operation.facts["to"]}
        case _:
            return {"shards": operation.facts.get("replies", {})}
