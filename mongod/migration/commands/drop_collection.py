"""_shardsvrDropCollection: the config servers drop a sharded collection here.

    {_shardsvrDropCollection: ns, uuid, epoch}

Only the collection with that uuid is dropped, so a late request does not meet a newer one of the same name.
"""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.sharding.migration import RANGE_DELETIONS
from mongod.migration.records import ROUTING_SIGNALS
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    namespace: str = arguments.value
    store = shard.node.store
    uuid = Binary(arguments["uuid"], 4)
    shard.node.replication.check_write()
    collection = store.collection(namespace)
    if collection is not None and collection.uuid == uuid.as_uuid():
        with store.unit() as unit:
            store.drop_collection(unit, namespace)
            unit.commit()
    shard.shard_filter.dropped(namespace, arguments["epoch"])
    gone = [each.id for each in shard.records.deletions() if each.uuid == uuid and not each.pending]
    changes = [(ROUTING_SIGNALS, namespace), *((RANGE_DELETIONS, identity) for identity in gone)]
    await shard.records.committed(shard.records.write(*changes))
    return {}


COMMAND = Command(
    "_shardsvrDropCollection",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("uuid", Type.UUID, required=True, internal=True),
        Parameter("epoch", Type.OBJECT_ID, required=True, internal=True),
    ),
    help="drop a sharded collection on this shard",
)
