"""splitVector: where a chunk of this shard should be cut; see `docstore.sharding.requests.split_vector`.

Without `openEnds` as in MongoDB: a point at every half of the size. With it, the rules of `docstore.sharding.split` for
chunks at the ends of the key space. Sizes are estimated from the number of keys and the average size of a document.
"""

from __future__ import annotations

from typing import Any

from docstore.bson import document_to_python
from docstore.collection.collection import Collection
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.catalog import SPLIT_VECTOR
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode, node_of
from docstore.node.slices import PAUSE, Steps, finish_steps
from docstore.sharding.key import KeyRange, ShardKey
from docstore.sharding.split import MIB, SplitScan, median_of, split_target
from mongod.migration.range_cloner import cloner_of
from mongod.migration.ranges import bound_at, shard_keys

_NO_LIMIT = 1 << 62


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    node = node_of(context)
    key = ShardKey.parse(document_to_python(arguments["keyPattern"]))
    low = key.min if arguments["min"] is None else key.prefix_bound(arguments["min"])
    high = key.max if arguments["max"] is None else key.prefix_bound(arguments["max"])
    if low.key >= high.key:
        raise CommandError(Code.BadValue, f"the range {KeyRange(low, high)} is empty")
    collection = node.store.collection(arguments.value)
    if collection is None:
        return {"splitKeys": []}
    bounds = KeyRange(low, high)
    cloner = cloner_of(node, collection)
    if cloner is not None:
        target = None if arguments["force"] else _target(arguments)
        split_bounds = await cloner.split_points(collection, key, bounds, target)
        return {"splitKeys": [bound.document() for bound in split_bounds[: arguments["maxSplitPoints"] or None]]}
    if arguments["force"]:
        steps = _median(node, collection, key, bounds)
    else:
        steps = _points(node, collection, key, bounds, _target(arguments), arguments["openEnds"])
    points = await finish_steps(context, steps)
    limit = arguments["maxSplitPoints"] or len(points)
    return {"splitKeys": [bound_at(node, collection, key, bounds, point).document() for point in points[:limit]]}


def _target(arguments: Arguments) -> int:
    """The size in bytes at which a chunk is to be cut."""
    if arguments["maxChunkSizeBytes"]:
        return int(arguments["maxChunkSizeBytes"])
    if arguments["maxChunkSize"]:
        return int(arguments["maxChunkSize"]) * MIB
    raise CommandError(Code.InvalidOptions, "need to specify the desired max chunk size (maxChunkSize or force)")


def _points(
    node: DataNode, collection: Collection, key: ShardKey, bounds: KeyRange, target: int, open_ends: bool
) -> Steps[list[bytes]]:
    low, high = bounds.min.key, bounds.max.key
    average = collection.size // collection.count if collection.count else 0
    criteria = split_target(open_ends and low == key.min.key, open_ends and high == key.max.key, target, average)
    if collection.count < criteria.keys_in_target:
        return []
    scan = SplitScan(low, criteria)
    snapshot = node.engine.snapshot()
    try:
        for count, point in enumerate(shard_keys(snapshot, collection, key, bounds)):
            if not scan.add(point):
                break
            if count % 512 == 511:
                yield PAUSE
        return scan.points(next(shard_keys(snapshot, collection, key, bounds, reverse=True), None))
    finally:
        snapshot.close()


def _median(node: DataNode, collection: Collection, key: ShardKey, bounds: KeyRange) -> Steps[list[bytes]]:
    snapshot = node.engine.snapshot()
    try:
        keys: list[bytes] = []
        for encoded in shard_keys(snapshot, collection, key, bounds):
            keys.append(encoded)
            if len(keys) % 512 == 0:
                yield PAUSE
    finally:
        snapshot.close()
    middle = median_of(keys)
    return [] if middle is None or middle <= bounds.min.key else [middle]


COMMAND = SPLIT_VECTOR.command(run)
