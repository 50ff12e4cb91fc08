"""_shardsvrHoldColumnFamily: the primary shard of a keyspace creates a column family on this shard, or alters it.

    {_shardsvrHoldColumnFamily: ns, uuid, options: {columnFamily}, keyspace: {keyspace}}

`options` belong to the collection, `keyspace` to the keyspace's mark. The reply is sent once a majority of the shard
has the change. The command is idempotent.
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from docstore.collection.catalog.options import parse_options
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.node.ddl.catalog_changes import enter_change
from mongod.migration.range_cloner import registered_cloner
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    node = shard.node
    await enter_change(context.about(arguments.value))
    options, keyspace = parse_options(arguments["options"]), parse_options(arguments["keyspace"])
    registered_cloner(node).hold(arguments.value, Binary(arguments["uuid"], 4).as_uuid(), options, keyspace)
    await shard.records.committed(node.store.last_optime)
    return {}


COMMAND = Command(
    "_shardsvrHoldColumnFamily",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("uuid", Type.UUID, required=True, internal=True),
        Parameter("options", Type.OBJECT, required=True, internal=True),
        Parameter("keyspace", Type.OBJECT, required=True, internal=True),
    ),
    help="make a column family of which this shard is to hold rows",
)
