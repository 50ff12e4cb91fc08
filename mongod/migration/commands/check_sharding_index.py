"""checkShardingIndex: whether a collection has an index that can serve a shard key."""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.sharding.key import ShardKey
from mongod.migration.ranges import key_index


def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    collection = node_of(context).store.collection(arguments.value)
    if collection is None:
        raise CommandError(Code.NamespaceNotFound, "ns not found")
    key_index(collection, ShardKey.parse(document_to_python(arguments["keyPattern"])))
    return {}


COMMAND = Command(
    "checkShardingIndex",
    run,
    aliases=("checkshardingindex",),
    privilege=Privilege("find", Resource.COLLECTION),
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(Parameter("keyPattern", Type.OBJECT, required=True),),
    help="whether an index can serve a shard key",
)
