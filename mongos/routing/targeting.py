"""The shards that one statement must reach, from its filter, its update or its document.

Single-document writes must name the whole shard key (or, where the real server allows it, the `_id`); everything else
goes to the shards that may hold a match.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from docstore.aggregation.expression_context import with_constants
from docstore.bson import OBJECT, elements, get_field, get_path
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.namespace import wrong_mode
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter
from docstore.query.plan.bounds import equalities
from docstore.sharding.chunk import Chunk
from docstore.sharding.key import ShardKey
from docstore.sharding.routing import CollectionRouting, Routing
from docstore.sharding.targeting import KeyRanges, exact_key, key_ranges, shards_for, shards_for_filter
from mongos.routing.query_context import under

_ARRAY = 0x04


class Reach(Enum):
    """The extent of a statement that goes to several shards."""

    ONE = auto()
    """One document, wherever it is: the statement is done once a shard has found it."""
    EACH = auto()
    """All matches: the statement is done once each range of keys has been covered."""


@dataclass(frozen=True, slots=True)
class Target:
    """The shards to reach; `chunk` when the statement writes to exactly one chunk. `keys`: those that a statement over
    many documents admits, where the collection is sharded. `likely`: the one that has the document unless the
    statement changes its shard key; it is asked alone first.
    """

    shards: tuple[str, ...]
    chunk: Chunk | None = None
    reach: Reach = Reach.ONE
    keys: KeyRanges = ()
    likely: str | None = None


def primary_of(routing: Routing) -> str:
    """The shard of everything unsharded in the namespace's database. Errors: NamespaceNotFound without a database."""
    if routing.primary is None:
        raise CommandError(Code.NamespaceNotFound, f"database of {routing.namespace} not found")
    return routing.primary


def documents_only(context: Context, routing: Routing) -> None:
    """CommandNotSupported where the namespace is a sharded column family; of others a shard says so."""
    if routing.collection is not None and routing.collection.partitioner is not None:
        raise wrong_mode(context.db, context.command.name, wide=True)


def unsharded_only(routing: Routing, what: str) -> str:
    """The primary shard of an unsharded namespace. Errors: IllegalOperation when it is sharded."""
    if routing.collection is not None:
        raise CommandError(
            Code.IllegalOperation, f"{what} is not supported on the sharded collection {routing.namespace}"
        )
    return primary_of(routing)


def filter_shards(routing: Routing, tree: Filter) -> list[str]:
    """The shards that may hold a document that the filter matches."""
    if routing.collection is None:
        return [primary_of(routing)]
    return shards_for_filter(routing.collection.chunks, tree)


def insert_target(routing: Routing, document: bytes) -> Target:
    """Return the target of a new document. Errors: ShardKeyNotFound for an array in the key."""
    if routing.collection is None:
        return Target((primary_of(routing),))
    chunk = routing.collection.chunks.chunk_at(_key_of(routing.collection.key, document))
    return Target((chunk.shard,), chunk)


def update_target(routing: Routing, statement: bytes, query_context: QueryContext = PLAIN) -> Target:
    """Return the target of one update statement, `{q, u, multi, upsert, ...}`.

    An upsert goes to the chunk of its filter, or it might insert beside a document on another shard. A replacement
    targets the chunk of the new document, which is right if its shard key stays. With an `_id` in the filter the
    other shards are asked if it is not found there. The first document of a `sort` may be anywhere, so a replacement
    with `sort` targets all.
    """
    collection = routing.collection
    if collection is None:
        return Target((primary_of(routing),))
    query_context = _under(query_context, statement)
    constants = get_field(statement, "c")
    if constants is not None and constants[0] == OBJECT:
        query_context = with_constants(query_context, constants[1])
    tree = parse_filter(_document(statement, "q"), query_context=query_context)
    chunk = _single_chunk(collection, tree)
    if chunk is not None:
        return Target((chunk.shard,), chunk)
    if _flag(statement, "upsert"):
        raise CommandError(
            Code.ShardKeyNotFound, "Failed to target upsert by query :: could not extract exact shard key"
        )
    if _flag(statement, "multi"):
        return _each(collection, tree)
    sort = get_field(statement, "sort")
    chunk = _chunk_of_replacement(collection, get_field(statement, "u")) if sort is None else None
    if chunk is None:
        _require_exact_id(tree, "update")
        return Target(tuple(filter_shards(routing, tree)))
    if "_id" not in equalities(tree):
        return Target((chunk.shard,), chunk)
    return Target(tuple(filter_shards(routing, tree)), chunk, likely=chunk.shard)


def delete_target(routing: Routing, statement: bytes, query_context: QueryContext = PLAIN) -> Target:
    """Return the target of one delete statement, `{q, limit, ...}`."""
    if routing.collection is None:
        return Target((primary_of(routing),))
    tree = parse_filter(_document(statement, "q"), query_context=_under(query_context, statement))
    chunk = _single_chunk(routing.collection, tree)
    if chunk is not None:
        return Target((chunk.shard,))
    if not _flag(statement, "limit"):
        return _each(routing.collection, tree)
    _require_exact_id(tree, "delete")
    return Target(tuple(filter_shards(routing, tree)))


def _each(collection: CollectionRouting, tree: Filter) -> Target:
    ranges = key_ranges(collection.key, tree)
    return Target(tuple(shards_for(collection.chunks, ranges)), reach=Reach.EACH, keys=ranges)


def exact_shard(routing: Routing, tree: Filter, what: str) -> str:
    """The one shard of an operation whose query must hold the shard key. Errors: ShardKeyNotFound."""
    if routing.collection is None:
        return primary_of(routing)
    chunk = _single_chunk(routing.collection, tree)
    if chunk is None:
        raise CommandError(Code.ShardKeyNotFound, f"Query for sharded {what} must contain the shard key")
    return chunk.shard


def is_replacement(code: int, data: bytes) -> bool:
    """True if an update's `u` is a whole document: no pipeline, no operators."""
    if code == _ARRAY:
        return False
    fields = elements(data)
    return not fields or not fields[0][0].startswith("$")


def _single_chunk(collection: CollectionRouting, tree: Filter) -> Chunk | None:
    key = exact_key(collection.key, tree)
    return None if key is None else collection.chunks.chunk_at(key)


def _chunk_of_replacement(collection: CollectionRouting, update: tuple[int, bytes] | None) -> Chunk | None:
    """Return the chunk of the new document of a replacement; None for other updates."""
    if update is None or not is_replacement(*update):
        return None
    if not all(get_path(update[1], field) for field in collection.key.fields):
        return None
    return collection.chunks.chunk_at(_key_of(collection.key, update[1]))


def _key_of(key: ShardKey, document: bytes) -> bytes:
    try:
        return key.key_of(document)
    except CommandError as error:
        raise CommandError(Code.ShardKeyNotFound, f"the shard key {key}: {error.message}") from None


def _require_exact_id(tree: Filter, what: str) -> None:
    if "_id" not in equalities(tree):
        raise CommandError(
            Code.InvalidOptions,
            f"A {{multi:false}} {what} on a sharded collection must contain an exact match on _id or contain the shard "
            "key",
        )


def _under(query_context: QueryContext, statement: bytes) -> QueryContext:
    collation = get_field(statement, "collation")
    return query_context if collation is None or collation[0] != OBJECT else under(query_context, collation[1])


def _document(statement: bytes, name: str) -> bytes:
    value = get_field(statement, name)
    if value is None or value[0] != 0x03:
        raise CommandError(Code.TypeMismatch if value else 40414, f"'{name}' must be a document")
    return value[1]


def _flag(statement: bytes, name: str) -> bool:
    value = get_field(statement, name)
    return value is not None and any(value[1])
