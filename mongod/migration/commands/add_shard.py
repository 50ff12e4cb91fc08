"""_addShard: the config servers make this replica set a shard.

    {_addShard: 1, shardIdentity: {_id: "shardIdentity", shardName, clusterId, configsvrConnectionString}}

A shard keeps its name and cluster for good. The same identity again is accepted, once this shard has no holds and no
undecided ranges.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.errors import Code, CommandError
from mongod.migration.identity import SYSTEM_VERSION, ShardIdentity
from mongod.migration.shard import shard_of
from mongod.migration.upkeep.removal import undecided


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    try:
        identity = ShardIdentity.from_raw(arguments["shardIdentity"])
    except KeyError as error:
        raise CommandError(Code.BadValue, f"a shard identity has the field {error}") from None
    shard.load_identity()
    current = shard.identity
    if current is not None and (current.name, current.cluster) != (identity.name, identity.cluster):
        raise CommandError(
            Code.IllegalOperation, f"this is already the shard {current.name} of the cluster {current.cluster}"
        )
    if current is not None and (shard.shard_filter.holds.any or undecided(shard)):
        text = "an operation of the cluster that it was removed from still holds something here: try again in a while"
        raise CommandError(Code.ConflictingOperationInProgress, text)
    document = document_to_python(arguments["shardIdentity"])
    await shard.records.committed(shard.records.write((SYSTEM_VERSION, document)))
    return {}


COMMAND = Command(
    "_addShard",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    admin_only=True,
    parameters=(Parameter("shardIdentity", Type.OBJECT, required=True, internal=True),),
    help="become a shard",
)
