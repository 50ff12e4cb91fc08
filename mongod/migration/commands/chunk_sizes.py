"""_shardsvrChunkSizes: see `docstore.sharding.requests.chunk_sizes`.

Orphaned documents, in ranges to be deleted, do not count.
"""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.node.slices import finish_steps
from docstore.sharding.key import ShardKey, raw_field
from mongod.migration.range_operations import range_bytes
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    shard = shard_of(context)
    node = shard.node
    collection = node.store.collection(arguments.value)
    if collection is None:
        return {"size": Int64(0), "sizes": [Int64(0) for _ in arguments["ranges"]]}
    key = ShardKey.parse(document_to_python(arguments["keyPattern"]))
    ranges = [key.range(raw_field(raw, "min"), raw_field(raw, "max")) for raw in arguments["ranges"]]
    sizes: list[int] = []
    for bounds in ranges:
        sizes.append(await finish_steps(context, range_bytes(node, collection, key, bounds)))
        if arguments["enough"] and sizes[-1] >= arguments["enough"]:
            break
    metadata = await shard.shard_filter.ownership_of(arguments.value)
    routed = None if metadata is None else metadata.routing.collection
    orphans = 0
    for deletion in shard.records.deletions():
        owned = routed is not None and routed.chunks.owns_any(shard.name, deletion.range)
        if deletion.uuid.as_uuid() == collection.uuid and not owned:
            orphans += await finish_steps(context, range_bytes(node, collection, key, deletion.range))
    return {"size": Int64(max(collection.size - orphans, 0)), "sizes": [Int64(size) for size in sizes]}


COMMAND = Command(
    "_shardsvrChunkSizes",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("keyPattern", Type.OBJECT, required=True, internal=True),
        Parameter("ranges", Type.DOCUMENTS, required=True, internal=True),
        Parameter("enough", Type.LONG, default=0, minimum=0, internal=True),
    ),
    help="how much data of a collection is here",
)
