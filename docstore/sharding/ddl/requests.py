"""The commands that request DDL, and those of its coordinators.

`docstore.sharding.requests` has the rules for all commands between processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson.binary import Binary
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.sharding.ddl.operation import Kind, Operation, Phase
from docstore.sharding.ddl.plans import blocks_on
from docstore.sharding.requests import commit_shard_collection
from docstore.sharding.routing import Routing
from docstore.sharding.version import DatabaseVersion

# To the primary shard of the database, from routers. The same asked again while it runs is one operation.


def drop_collection(namespace: str, uuid: Binary) -> dict[str, Any]:
    """Drop a sharded collection everywhere. -> `{dropped: bool}`, false when there is none of that uuid (any more)."""
    return {"_shardsvrDropCollection": namespace, "uuid": uuid}


def drop_database(database: str, version: DatabaseVersion) -> dict[str, Any]:
    """Drop a database everywhere. -> `{dropped: bool}`, false when there is none of that version (any more)."""
    return {"_shardsvrDropDatabase": database, "databaseVersion": version.to_document()}


def move_primary(database: str, version: DatabaseVersion, to: str) -> dict[str, Any]:
    """Make `to` the primary shard of a database, with all that is not sharded. -> `{primary: shard}`, also when it is
    so already. StaleDbVersion for another database; NamespaceExists where `to` has other documents under a name.
    """
    return {"_shardsvrMovePrimary": database, "databaseVersion": version.to_document(), "to": to}


def rename_collection(source: Routing, target: Routing, *, drop_target: bool) -> dict[str, Any]:
    """Rename a collection in its database, where one of the names is sharded.

    -> `{renamed: true}`. StaleConfig if one of them is sharded differently by now; further errors as of
    renameCollection.
    """
    return {
        "_shardsvrRenameCollection": source.namespace,
        "to": target.namespace,
        "dropTarget": drop_target,
        "uuid": None if source.collection is None else source.collection.uuid,
        "sourceVersion": source.version().to_document(),
        "targetVersion": target.version().to_document(),
    }


def change_collection(namespace: str, epoch: ObjectId, request: bytes) -> dict[str, Any]:
    """Carry out a client's createIndexes, dropIndexes or collMod on a sharded collection: on all shards or on none.

    -> `{shards: {name: reply, ...}}`. Errors: that of the first shard that refused, with `shards`.
    """
    return {"_shardsvrChangeCollection": namespace, "epoch": epoch, "request": RawBSONDocument(request)}


# To every shard that takes part, from the coordinator.


def hold(operation: Operation, shard: str) -> dict[str, Any]:
    """Take the hold on the namespace or database. -> `{}` once no other operation is under way there."""
    return {
        "_shardsvrParticipantBlock": operation.namespace,
        "operation": operation.id,
        "blocks": blocks_on(operation, shard).value,
        "release": False,
    }


def release(operation: Operation, shard: str) -> dict[str, Any]:
    """Release the hold for good. -> `{}`"""
    return {**hold(operation, shard), "release": True}


def act(operation: Operation, _shard: str) -> dict[str, Any]:
    """Carry out the operation's phase. -> the fields that `docstore.sharding.ddl.plans.noted` reads. OperationFailed
    if the operation does not hold the namespace.
    """
    return {"_shardsvrParticipantAct": operation.namespace, "document": operation.document()}


# To the config servers, from the coordinator.


def commit(operation: Operation, shard: str) -> dict[str, Any]:
    """Return the request of phase COMMITTING."""
    assert operation.phase is Phase.COMMITTING
    facts: Mapping[str, Any] = operation.facts
    if operation.kind is Kind.DROP_DATABASE:
        return {"_configsvrRemoveDatabase": operation.namespace, "databaseVersion": facts["databaseVersion"]}
    if operation.kind is Kind.DROP_COLLECTION:
        return {"_configsvrRemoveCollection": operation.namespace, "uuid": facts["uuid"]}
    if operation.kind is Kind.RENAME_COLLECTION:
        return {
            "_configsvrCommitRename": facts["source"],
            "to": facts["target"],
            "sourceUuid": facts["sourceUuid"],
            "targetUuid": facts["targetUuid"],
        }
    return commit_shard_collection(
        operation.namespace, operation.request["key"], operation.request["unique"], facts["uuid"], shard,
        DatabaseVersion.from_document(facts["databaseVersion"]), partitioner=facts.get("partitioner"),
    )  # fmt: skip
