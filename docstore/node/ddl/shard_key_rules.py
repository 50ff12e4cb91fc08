"""What a sharded collection asks of its indexes, on the shard itself, so that any way to change them obeys.

Always true of a sharded collection: no unique index but one that begins with the shard key, or with `_id`, because each
shard sees to uniqueness among its own documents only; an index that serves the shard key, by which chunks are split and
moved, and which queries may use.
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
    """The shard key of a collection; None where that is not sharded. Errors: those of reading its routing."""
    owned = None if node.shard_filter is None else await node.shard_filter.known(namespace)
    return None if owned is None else owned.shard_key


def serves(index: Index, key: ShardKey) -> bool:
    """Whether the index begins with the shard key, holds every document exactly once and compares bytes."""
    return (
        key.is_prefix_of(index.fields) and not index.multikey and index.holds_every_document and index.collation is None
    )


def check_new_indexes(key: ShardKey | None, specs: Iterable[IndexSpec]) -> None:
    """Errors: CannotCreateIndex for a unique one that does not begin with the shard key."""
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
    """Those of the chosen indexes that are to be dropped: of `every` one those stay that serve the shard key.

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
    """Errors: InvalidOptions where hiding the index would leave none that serves the shard key."""
    if key is not None and serves(index, key) and not _served(key, collection, without=[index]):
        raise CommandError(Code.InvalidOptions, "can't hide shard key index")


def _served(key: ShardKey, collection: Collection, *, without: Sequence[Index]) -> bool:
    return any(
        serves(index, key) and not index.hidden and index not in without for index in collection.indexes.values()
    )
