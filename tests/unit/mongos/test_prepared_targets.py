"""Targets that are prepared for a form: those that are found by reading each filter, under any key and any chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import bson
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson import document_from, elements
from docstore.errors import CommandError
from docstore.query.context import PLAIN, QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import MATCH_ALL
from docstore.sharding.chunks import ChunkMap, first_chunks, move_chunk
from docstore.sharding.key import Bound, ShardKey
from docstore.sharding.routing import CollectionRouting, Routing
from mongos.relay.targets import Language, NamespaceTargets, PreparedTargets
from mongos.routing.targeting import Target, delete_target, exact_shard, filter_shards, update_target

NAMESPACE = "test.c"
SHARDS = ("s0", "s1", "s2")
KEYS = [("k",), ("_id",), ("k", "m"), ("m", "k"), ("k.a",), ("k.a", "m"), ("k.a", "k.b")]
_FIELDS = ("k", "m", "_id", "k.a", "k.b", "x")
_PLAIN = [
    -1, 0, 3, Int64(3), 3.0, 3.5, -0.0, 12, 2**53, Int64(2**53 + 1), 1e300, "", "a", "b", "a\0b", True, False,
    ObjectId(bytes(12)), ObjectId(b"\1" * 12), datetime(2020, 1, 1), Timestamp(1, 1), b"", b"b", Binary(b"b", 5),
]  # fmt: skip
_SPECIAL = [
    None, float("nan"), float("inf"), float("-inf"), Decimal128("3"), Decimal128("NaN"), Regex("^a"), Regex("a", "i"),
    MinKey(), MaxKey(), Code("f"), [], [3], [[3]], {}, {"a": 3}, {"a": 3, "b": 3}, {"b": 3, "a": 3}, {"a": None},
]  # fmt: skip
plain = st.sampled_from(_PLAIN)
values = st.one_of(plain, plain, st.sampled_from(_SPECIAL))
_COMPARISONS = ["$eq", "$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]
_LISTS = ["$in", "$nin", "$all"]
conditions = st.one_of(
    values,
    values,
    st.builds(lambda op, value: {op: value}, st.sampled_from(_COMPARISONS), values),
    st.builds(lambda low, high: {"$gte": low, "$lte": high}, values, values),
    st.builds(lambda one, other: {"$eq": one, "$gt": other}, values, values),
    st.builds(lambda op, several: {op: several}, st.sampled_from(_LISTS), st.lists(values, max_size=2)),
    st.builds(lambda value: {"$not": {"$eq": value}}, values),
    st.builds(lambda value: {"$elemMatch": {"$eq": value}}, values),
    st.sampled_from([{"$exists": True}, {"$exists": False}, {"$type": "int"}, {"$size": 1}, {"$regex": "^a"},
                     {"$mod": [3, 0]}, {"$unknown": 1}, {"$in": 1}]),
)  # fmt: skip


INFINITE = float("inf")


def _fields(among: st.SearchStrategy[Any], **options: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(st.tuples(st.sampled_from(_FIELDS), among), max_size=4, **options).map(dict)


simple = st.one_of(_fields(plain, min_size=2), _fields(conditions))
filters = st.one_of(
    simple.map(bson.encode),
    simple.map(bson.encode),
    st.builds(
        lambda op, several, more: bson.encode({**more, op: several}),
        st.sampled_from(["$and", "$or", "$nor"]), st.lists(simple, min_size=1, max_size=2), simple,
    ),
    st.builds(lambda one: bson.encode({**one, "$expr": {"$eq": ["$k", 3]}}), simple),
    st.builds(lambda one: bson.encode({"$comment": "c", **one}), simple),
    # A field may be given twice.
    st.builds(
        lambda one, other: document_from([*elements(bson.encode(one)), *elements(bson.encode(other))]), simple, simple
    ),
)  # fmt: skip


def _bounds(key: ShardKey) -> list[Bound]:
    """At keys that requests name."""
    found = [*_PLAIN, None, float("inf"), {"a": 3}, Decimal128("3.1")]
    return [key.bound(bson.encode(dict.fromkeys(key.fields, value))) for value in found]


@st.composite
def chunk_maps(draw: st.DrawFn) -> ChunkMap:
    """A key, and chunks that begin at keys which requests name, on any shards."""
    key = ShardKey(draw(st.sampled_from(KEYS)))
    points = draw(st.lists(st.sampled_from(_bounds(key)), max_size=8, unique_by=_encoded))
    chunks = first_chunks(key, sorted(points, key=_encoded), SHARDS[:1])
    return ChunkMap(key, ObjectId(), [replace(chunk, shard=draw(st.sampled_from(SHARDS))) for chunk in chunks])


def _encoded(bound: Bound) -> bytes:
    return bound.key


class Known:
    """What a router knows of one collection."""

    def __init__(self, chunks: ChunkMap | None) -> None:
        self.chunks = chunks
        self.routing = self._routing()

    def _routing(self) -> Routing:
        collection = None
        if self.chunks is not None:
            collection = CollectionRouting(NAMESPACE, Binary(bytes(16), 4), False, self.chunks)
        return Routing(NAMESPACE, "s0", collection)

    def known(self, _namespace: str) -> Routing:
        return self.routing

    def read_with(self, _db: str, names: frozenset[str]) -> frozenset[str]:
        return names

    def move(self, number: int, to: str) -> None:
        """A chunk goes to another shard, and the router hears of it."""
        assert self.chunks is not None
        chunk = list(self.chunks)[number % len(self.chunks)]
        if chunk.shard == to:
            return
        kept = next((each for each in self.chunks.of(chunk.shard) if each.min.key != chunk.min.key), None)
        moved, bumped = move_chunk(chunk, to, kept, self.chunks.version.lastmod)
        self.chunks = self.chunks.updated([moved] if bumped is None else [bumped, moved])
        self.routing = self._routing()


def _outcome(target: Callable[[], Target]) -> Target | tuple[int, str]:
    """The target, or (code, message) of the refusal."""
    try:
        return target()
    except CommandError as error:
        return error.code, error.message


def check_filter(targets: NamespaceTargets, raw: bytes) -> int:
    """What is found by a form must be what reading the filter gives, refusals too; how many requests by it were not
    read the second time.
    """
    routing = targets.routing
    query = RawBSONDocument(raw)
    update = bson.encode({"q": query, "u": {"$set": {"x": 1}}, "upsert": True})
    delete = bson.encode({"q": query, "limit": 0})

    def one() -> Target:
        tree = MATCH_ALL if routing.collection is None else parse_filter(raw)
        return Target((exact_shard(routing, tree, "findAndModify"),))

    expected: list[tuple[Callable[[Language], Target], Callable[[], Target]]] = [
        (partial(targets.of_filter, raw), lambda: Target(tuple(filter_shards(routing, parse_filter(raw))))),
        (partial(targets.of_one, raw), one),
        (partial(targets.of_update, update), partial(update_target, routing, update)),
        (partial(targets.of_delete, delete), partial(delete_target, routing, delete)),
    ]
    unread = 0
    for prepared, routed in expected:
        reads: list[QueryContext] = []

        def language(reads: list[QueryContext] = reads) -> QueryContext:
            reads.append(PLAIN)
            return PLAIN

        wanted = _outcome(routed)
        for _ in range(2):
            reads.clear()
            assert _outcome(partial(prepared, language)) == wanted, bson.decode(raw)
        unread += not reads
    return unread


def targets_of(known: Known) -> NamespaceTargets:
    return NamespaceTargets(known.routing, known)


moves = st.tuples(st.integers(0, 8), st.sampled_from(SHARDS))
steps = st.one_of(filters, filters, filters, filters, moves)


@settings(max_examples=400, deadline=None)
@given(chunk_maps(), st.lists(steps, min_size=1, max_size=30))
def test_what_is_prepared_is_what_is_found_by_reading(chunks: ChunkMap, asked: list[bytes | tuple[int, str]]) -> None:
    known = Known(chunks)
    prepared = PreparedTargets(known)
    for step in asked:
        if isinstance(step, tuple):
            known.move(*step)
            continue
        targets = prepared.known(NAMESPACE)
        assert targets is not None
        assert targets.routing is known.routing
        check_filter(targets, step)


def test_every_value_of_every_key_has_its_shard() -> None:
    """Of values that compare value by value; the others are left to whoever reads them."""
    for fields in KEYS:
        key = ShardKey(fields)
        points = sorted({bound.key: bound for bound in _bounds(key)}.values(), key=_encoded)
        chunks = first_chunks(key, points, SHARDS)
        targets = targets_of(Known(ChunkMap(key, ObjectId(), chunks)))
        for value in [*_PLAIN, *_SPECIAL]:
            for spelled in (value, {"$eq": value}):
                found = check_filter(targets, bson.encode(dict.fromkeys(fields, spelled) | {"x": {"$gt": 1}}))
                # Of the others, reads are for the shards that reading the filter gives.
                fixed = value in _PLAIN or value in (INFINITE, -INFINITE)
                assert found == 4 if fixed else found <= 1, (fields, spelled)


def test_what_is_not_sharded_is_on_the_primary_shard() -> None:
    targets = targets_of(Known(None))
    for value in [*_PLAIN, *_SPECIAL]:
        for condition in (value, {"$eq": value}):
            assert check_filter(targets, bson.encode({"k": condition})) == 4
