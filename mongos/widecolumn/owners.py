"""The owners of the rows of a column family, by the routing of its namespace.

An unsharded column family is on the primary shard of its keyspace. Of a sharded one each row is on the shard that
owns the chunk with its token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from docstore.sharding.chunk import Chunk
from docstore.sharding.partitioners import Partitioner
from docstore.sharding.routing import Routing
from docstore.sharding.token_ring import SHARD_KEY_FIELD, ring_document
from docstore.widecolumn.model.errors import keyspace_absent
from docstore.widecolumn.model.requests import RowRange, rows_between
from mongos.routing.targeting import Target


def home_of(routing: Routing) -> str:
    """The shard that has the keyspace's definitions. NamespaceNotFound."""
    if routing.primary is None:
        raise keyspace_absent(routing.namespace.partition(".")[0])
    return routing.primary


def owner_of(routing: Routing, key: bytes | None) -> Target:
    """Return the shard of a row, and its chunk if there are chunks. NamespaceNotFound.

    A `key` of None is malformed: the shard of the definitions reports the error.
    """
    collection = routing.collection
    if key is None or collection is None or collection.partitioner is None:
        return Target((home_of(routing),))
    chunk = collection.chunks.chunk_at(collection.key.key_of(ring_document(collection.partitioner, key)))
    return Target((chunk.shard,), chunk)


def parts_of(routing: Routing, wanted: Iterable[RowRange]) -> Iterator[tuple[str, RowRange]]:
    """The shards that own rows of these ranges, in the order of the ranges and then of the ring, each with its part:
    the chunks of one shard that lie side by side are one.
    """
    collection = routing.collection
    if collection is None or collection.partitioner is None:
        home = home_of(routing)
        yield from ((home, rows) for rows in wanted)
        return
    record_ranges = _record_ranges(collection.partitioner, collection.chunks)
    for rows in wanted:
        for shard, (start, end) in record_ranges:
            low = max(start, rows.start)
            high = min(end, rows.end) if end and rows.end else end or rows.end
            if not high or low < high:
                yield shard, RowRange(low, high)


def _record_ranges(partitioner: Partitioner, chunks: Iterable[Chunk]) -> list[tuple[str, RowRange]]:
    """The ring from its beginning to its end, in parts of one shard each."""
    ranges: list[tuple[str, RowRange]] = []
    for chunk in chunks:
        low, high = (bound.document()[SHARD_KEY_FIELD] for bound in (chunk.min, chunk.max))
        rows = rows_between(partitioner, low, high)
        if ranges and ranges[-1][0] == chunk.shard:
            ranges[-1] = chunk.shard, RowRange(ranges[-1][1].start, rows.end)
        else:
            ranges.append((chunk.shard, rows))
    return ranges


def owners_of(routing: Routing) -> list[str]:
    """Return every shard that may have rows or the definitions, the keyspace's first."""
    home = home_of(routing)
    shards = set() if routing.collection is None else routing.collection.chunks.shards - {home}
    return [home, *sorted(shards)]
