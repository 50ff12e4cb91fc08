"""Random documents and filters over few names and few values, so that they meet."""

from __future__ import annotations

from datetime import datetime

from bson.decimal128 import Decimal128
from bson.int64 import Int64
from bson.max_key import MaxKey
from bson.min_key import MinKey
from bson.objectid import ObjectId
from bson.regex import Regex
from hypothesis import strategies as st

NAMES = ("a", "b", "c")
PATHS = ("a", "b", "c", "a.b", "a.c", "b.a", "a.b.c", "a.0", "a.0.b")

SCALARS = st.sampled_from(
    [
        None,
        0,
        1,
        2,
        1.5,
        2.0,
        Int64(1),
        Decimal128("1.5"),
        float("nan"),
        float("inf"),
        -2,
        -3,
        -3.25,
        Int64(-4),
        "",
        "a",
        "ab",
        "b",
        True,
        False,
        datetime(2020, 1, 1),
        ObjectId("5f0000000000000000000000"),
        MinKey(),
        MaxKey(),
        Regex("^a"),
        b"x",
    ]
)


def _containers(children: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.lists(children, max_size=3) | st.dictionaries(st.sampled_from(NAMES), children, max_size=3)


VALUES = st.recursive(SCALARS, _containers, max_leaves=5)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3)

_ORDERED = VALUES.filter(lambda value: not isinstance(value, Regex))
_CONDITIONS = st.one_of(
    _ORDERED.map(lambda value: {"$eq": value}),
    st.builds(lambda op, value: {op: value}, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), _ORDERED),
    st.builds(lambda low, high: {"$gte": low, "$lt": high}, _ORDERED, _ORDERED),
    st.lists(VALUES.filter(lambda value: not isinstance(value, dict)), max_size=3).map(lambda values: {"$in": values}),
    st.sampled_from(
        [
            {"$exists": True},
            {"$exists": False},
            {"$ne": 1},
            {"$type": "string"},
            {"$type": ["number", "null"]},
            {"$type": "array"},
            {"$regex": "^a"},
            {"$regex": "b"},
            {"$mod": [2, 0]},
            {"$size": 2},
            {"$all": [1, 2]},
            {"$not": {"$gt": 1}},
            {"$elemMatch": {"$gt": 0, "$lt": 2}},
            {"$elemMatch": {"b": 1, "c": {"$gt": 0}}},
            {"$elemMatch": {"b": {"$gt": 0, "$lt": 2}}},
        ]
    ),
)
_FIELD = st.builds(lambda path, condition: {path: condition}, st.sampled_from(PATHS), _CONDITIONS)


def _logical(children: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    clauses = st.lists(children, min_size=1, max_size=3)
    return st.builds(lambda name, given: {name: given}, st.sampled_from(["$and", "$or", "$nor"]), clauses)


FILTERS = st.recursive(_FIELD, _logical, max_leaves=4)

KEY_FIELDS = st.lists(
    st.tuples(st.sampled_from(PATHS[:7]), st.sampled_from([1, -1])),
    min_size=1,
    max_size=3,
    unique_by=lambda item: item[0],
)
SORTS = st.lists(
    st.tuples(st.sampled_from(PATHS[:6]), st.sampled_from([1, -1])), max_size=2, unique_by=lambda item: item[0]
)

_SMALL = st.integers(0, 2)
_MEMBERS = st.dictionaries(st.sampled_from(["b", "c"]), _SMALL | st.lists(_SMALL, max_size=2), max_size=2)
ARRAY_DOCUMENTS = st.fixed_dictionaries({"a": st.lists(_MEMBERS, max_size=3) | _MEMBERS, "x": _SMALL})
_BETWEEN = st.just({"$gt": 0, "$lt": 2})
_TESTS = _SMALL | _SMALL.map(lambda number: {"$gt": number}) | _BETWEEN
ELEMENT_FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.dictionaries(st.sampled_from(["b", "c"]), _TESTS, min_size=1).map(lambda inner: {"$elemMatch": inner}),
        "a.b": _TESTS | _BETWEEN.map(lambda test: {"$elemMatch": test}),
        "a.c": _TESTS,
        "x": _TESTS,
    },
)
ELEMENT_KEYS = st.permutations([("a.b", 1), ("a.c", -1), ("x", 1)]).flatmap(
    lambda fields: st.integers(1, 3).map(lambda count: fields[:count])
)
