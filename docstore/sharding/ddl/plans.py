"""The plans of the operations: their phases, whom they concern, and what each phase asks for.

dropCollection, dropDatabase
    Everything on every shard waits. The shards note for good which incarnation is gone, then drop it; the config
    servers forget it; the shards are let go. Nothing is undone: from the first drop on there is one way.
shardCollection
    Everything on the primary shard waits while it checks or makes the collection and its index; the config servers then
    give it its chunk, or refuse.
createIndexes
    The shards that own chunks, and the primary shard, build the indexes, and each notes first which it had before. If
    one fails, the others drop what they have built.
dropIndexes
    The same shards say which indexes are meant; then all drop these.
collMod
    The primary shard changes the collection, or refuses; then the others do.
renameCollection
    Where one of the names is sharded. Everything in the database waits on every shard. The shards note for good which
    incarnations of the two names are over, then drop the target and give the collection its new name; the config
    servers change their records, under a new epoch.
movePrimary
    Changes of definitions wait on the old primary shard. It moves what is not sharded as it moves a chunk, online
    (`docstore.sharding.donor`): the config servers are asked by that migration, and either name the new primary shard
    or, with whatever goes wrong before, nothing has changed. What is left of it, dropping the old copy or an unfinished
    new one, nobody waits for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from docstore.sharding.ddl.operation import Blocks, Kind, Operation, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`blocks`: what waits on the participants, see `blocks_on`. `undoes`: what PREPARING has done is undone when it is
    given up. `may_be_refused`: the config servers may say no.
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
    """What waits on one of the participants. A new primary shard is used as soon as it is that, whoever is down."""
    if operation.kind is Kind.MOVE_PRIMARY and shard == operation.facts["to"]:
        return Blocks.NOTHING
    return PLANS[operation.kind].blocks


def asked_of(operation: Operation) -> tuple[str, ...]:
    """The shards that do what the phase is."""
    if operation.kind is Kind.MOVE_PRIMARY:
        return (operation.facts["from"],)
    if operation.kind is not Kind.COLL_MOD:
        return operation.participants
    primary = operation.facts["primary"]
    if operation.phase is Phase.PREPARING:
        return (primary,)
    return tuple(shard for shard in operation.participants if shard != primary)


def noted(operation: Operation, replies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What later phases need to know of the replies to this one."""
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
    """What whoever asked is told. `shards`: the replies by shard, of operations that give each shard's."""
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
