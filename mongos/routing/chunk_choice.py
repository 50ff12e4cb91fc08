"""The chunk that a split or a move names: by a filter (`find`, by shard key), or by its exact bounds."""

from __future__ import annotations

from docstore.bson import elements, to_python
from docstore.commands.arguments import Arguments
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.sharding.chunk import Chunk
from docstore.sharding.key import Bound
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.targeting import exact_key
from docstore.sharding.token_ring import SHARD_KEY_FIELD, checked_place, place_document


def sharded(routing: Routing) -> CollectionRouting:
    """The sharded collection. Errors: NamespaceNotSharded."""
    if routing.collection is None:
        raise CommandError(Code.NamespaceNotSharded, f"Collection {routing.namespace} is not sharded.")
    return routing.collection


def chosen_chunk(collection: CollectionRouting, args: Arguments) -> Chunk:
    """The chunk that a command's `find` or `bounds` names."""
    if "find" in args:
        return _of_document(collection, args["find"])
    return _of_bounds(collection, args["bounds"])


def _of_document(collection: CollectionRouting, filter_raw: bytes) -> Chunk:
    """The chunk of the shard key that the filter pins. Errors: ShardKeyNotFound."""
    tree = parse_filter(filter_raw)
    key = exact_key(collection.key, tree)
    if key is None:
        raise CommandError(Code.ShardKeyNotFound, f"no shard key {collection.key.document()} found in the query")
    return collection.chunks.chunk_at(key)


def _of_bounds(collection: CollectionRouting, bounds: list[bytes]) -> Chunk:
    """The chunk with exactly these bounds. Errors: BadValue."""
    if len(bounds) != 2:
        raise CommandError(Code.BadValue, "bounds must be an array of two documents: the lower and the upper bound")
    chunk = collection.chunks.exact(collection.key.range(*bounds))
    if chunk is None:
        raise CommandError(Code.BadValue, "no chunk has exactly these bounds")
    return chunk


def split_point(collection: CollectionRouting, raw: bytes) -> tuple[Chunk, Bound]:
    """The chunk that a given split point lies in, and the point. Errors: BadValue at a chunk's own bound."""
    fields = {name: (code, data) for name, code, data in elements(raw)}
    missing = [name for name in collection.key.fields if name not in fields]
    if missing:
        raise CommandError(Code.ShardKeyNotFound, f"the split point lacks {missing} of the shard key")
    if collection.partitioner is not None:
        ring_position = checked_place(collection.partitioner, to_python(fields[SHARD_KEY_FIELD]))
        raw = place_document(ring_position)
    point = collection.key.prefix_bound(raw)
    chunk = collection.chunks.chunk_at(point.key)
    if chunk.min.key == point.key:
        raise CommandError(Code.BadValue, f"cannot split at {point}: it is the lower bound of a chunk already")
    return chunk, point
