"""Index rules of a sharded collection, enforced on the shard, so that they hold for every way to change indexes.

* A unique index must begin with the shard key or with `_id`, because a shard checks uniqueness only among its own
  documents.
* An index must support the shard key: splits, migrations and queries use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docstore.bson import from_python
from docstore.bson.walk import OBJECT
from docstore.collection.collection import Collection, Index
from docstore.collection.index.spec import IndexSpec
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode
from docstore.query.value.notation import display
from docstore.sharding.key import ShardKey


async def shard_key_of(node: DataNode, namespace: str) -> ShardKey | None:
    """Return the shard key of a collection; None if unsharded. Errors: those of reading its routing."""
    owned = None if node.shard_filter is None else await node.shard_filter.ownership_of(namespace)
    return None if owned is None else owned.shard_key


def serves(index: Index, key: ShardKey) -> bool:
    """Return True if the index begins with the shard key, has one entry per document and no collation."""
    return (
        key.is_prefix_of(index.fields) and not index.multikey and index.holds_every_document and index.collation is None
    )


def check_new_indexes(key: ShardKey | None, specs: Iterable[IndexSpec]) -> None:
    """Check new indexes. Errors: CannotCreateIndex for a unique one that does not begin with the shard key."""
    for spec in specs:
        if key is not None and spec.unique and not _unique_over_shards(key, [path for path, _ in spec.fields]):
            pattern = display(from_python(key.document()))
            raise CommandError(
                Code.CannotCreateIndex,
                f"cannot create unique index over {display((OBJECT, spec.key))} with shard key pattern {pattern}",
            )


def _unique_over_shards(key: ShardKey, paths: Sequence[str]) -> bool:
    return paths[:1] == ["_id"] or tuple(paths[: len(key.fields)]) == key.fields


def droppable(key: ShardKey | None, collection: Collection, chosen: list[Index], *, every: bool) -> list[Index]:
    """Return the chosen indexes that may be dropped; with `every`, those that support the shard key are kept.

    Errors: CannotDropShardKeyIndex.
    """
    if key is None:
        return chosen
    if every:
        return [index for index in chosen if not serves(index, key)]
    if any(serves(index, key) for index in chosen) and not _served(key, collection, without=chosen):
        raise CommandError(
            Code.CannotDropShardKeyIndex, "Cannot drop the only compatible index for this collection's shard key"
        )
    return chosen


def check_hidden(key: ShardKey | None, collection: Collection, index: Index) -> None:
    """Check that an index may be hidden. Errors: InvalidOptions if none that supports the shard key would remain."""
    if key is not None and serves(index, key) and not _served(key, collection, without=[index]):
        raise CommandError(Code.InvalidOptions, "can't hide shard key index")


def _served(key: ShardKey, collection: Collection, *, without: Sequence[Index]) -> bool:
    return any(
        serves(index, key) and not index.hidden and index not in without for index in collection.indexes.values()
    )
