"""An index whose entries do not depend on the places that an update changes has the same entries after it."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest

from docstore.collection.collection import Index
from docstore.collection.index.spec import parse_index_spec
from docstore.errors import CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.projection.positions import Positions
from docstore.query.update.parse import parse_update
from docstore.query.update.update import OperatorUpdate
from docstore.query.value.places import changed_place, meet, read_place

INDEXES: list[dict[str, Any]] = [
    {"key": {"a": 1}},
    {"key": {"a.b": 1}},
    {"key": {"a.b": 1, "c": -1}},
    {"key": {"a.b.c": 1}, "sparse": True},
    {"key": {"a.0": 1}},
    {"key": {"a.1.b": 1}},
    {"key": {"b.a": "hashed"}},
    {"key": {"a.b": "2dsphere"}},
    {"key": {"c": 1}, "partialFilterExpression": {"a.b": {"$exists": True}}},
    {"key": {"$**": 1}},
    {"key": {"a.$**": 1}},
    {"key": {"$**": 1}, "wildcardProjection": {"a.b": 1, "c": 1}},
    {"key": {"$**": 1}, "wildcardProjection": {"a.b": 0}},
    {"key": {"b": 1, "a.$**": 1}},
    {"key": {"a.b": "text"}},
    {"key": {"a.b.c": "text", "b": 1}},
    {"key": {"c": "text"}, "language_override": "a"},
    {"key": {"$**": "text"}},
]
NAMES = ("a", "b", "c", "0", "1", "language")
LANGUAGES = ("english", "german", "some words of dogs and cats")


def value(random_: random.Random, depth: int) -> Any:
    kind = random_.randrange(8)
    if depth and kind < 3:
        return {name: value(random_, depth - 1) for name in random_.sample(NAMES, random_.randrange(4))}
    if depth and kind < 5:
        return [value(random_, depth - 1) for _ in range(random_.randrange(4))]
    return random_.choice((None, 1, 2.5, "dogs", [3.0, 4.0], random_.choice(LANGUAGES)))


def update(random_: random.Random) -> dict[str, Any]:
    parts = [random_.choice(NAMES)] + [
        random_.choice((*NAMES, "$[]", "$[e]")) for _ in range(random_.choice((0, 1, 1, 2, 2, 3)))
    ]
    path = ".".join(parts)
    operator = random_.choice(("$set", "$unset", "$rename", "$push", "$min"))
    return {operator: {path: random_.choice(("a.c", "b", "c.a")) if operator == "$rename" else value(random_, 2)}}


@pytest.mark.parametrize("seed", range(6))
def test_entries_stay_where_the_places_do_not_meet(seed: int) -> None:
    random_ = random.Random(seed)
    indexes = [
        Index(parse_index_spec(bson.encode({"v": 2, "name": str(place), **spec})), place)
        for place, spec in enumerate(INDEXES)
    ]
    left_alone = changed = 0
    for _ in range(3_000):
        written = update(random_)
        filters = [bson.encode({"e": {"$exists": True}})] if "$[e]" in next(iter(next(iter(written.values())))) else []
        before = bson.encode({"_id": 1, **{name: value(random_, 3) for name in random_.sample(NAMES, 3)}})
        try:
            made = parse_update(bson.encode(written), filters)
            after = made.apply(before, matched_index=None, now=0, timestamp=0)
        except CommandError:
            continue
        assert made.changed is not None
        for index in indexes:
            try:
                keys = index.marked_keys(before)
            except CommandError:
                continue
            if index.may_change(made.changed):
                changed += 1
            else:
                left_alone += 1
                assert index.marked_keys(after) == keys, (written, bson.decode(before), index.spec.raw)
    assert left_alone > 1_000
    assert changed > 1_000


@pytest.mark.parametrize("seed", range(4))
def test_entries_stay_where_the_places_do_not_meet_at_a_position(seed: int) -> None:
    random_ = random.Random(seed)
    indexes = [
        Index(parse_index_spec(bson.encode({"v": 2, "name": str(place), **spec})), place)
        for place, spec in enumerate(INDEXES)
    ]
    left_alone = 0
    for _ in range(6_000):
        path = ".".join([random_.choice(("a", "a", "b.a")), "$", *random_.sample(("b", "c"), random_.randrange(3))])
        made = parse_update(bson.encode({random_.choice(("$set", "$unset")): {path: value(random_, 1)}}))
        condition = {random_.choice(("a", "a.b", "a.c", "b.a", "b", "b.a.c")): {"$exists": True}}
        positions = Positions(parse_filter(bson.encode({**condition, "_id": 1})))
        before = bson.encode({"_id": 1, **{name: value(random_, 3) for name in random_.sample(("a", "b", "c"), 2)}})
        try:
            after = made.apply(before, matched_index=positions.of(before), now=0, timestamp=0)
        except CommandError:
            continue
        assert isinstance(made, OperatorUpdate)
        changed = made.changed_through(positions.paths)
        for index in indexes:
            try:
                keys = index.marked_keys(before)
            except CommandError:
                continue
            if not index.may_change(changed):
                left_alone += 1
                assert index.marked_keys(after) == keys, (path, condition, bson.decode(before), index.spec.raw)
    assert left_alone > 500


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a.b", b"a.b"),
        ("a.$[].b", b"a.b"),
        ("a.$[e].b.c", b"a.b.c"),
        ("a.$.b", b"a"),
        ("a.b.3.c", b"a.b"),
        ("0.a", b"0.a"),
        ("_id.a", b"_id"),
    ],
)
def test_places_of_updates(path: str, place: bytes) -> None:
    assert changed_place(path) == place


def test_places_meet_on_one_path() -> None:
    assert read_place("a.0.b") == b"a.b"
    assert meet([b"a.b"], [b"a"])
    assert meet([b"a"], [b"a.b"])
    assert meet([b"x", b"a.b"], [b"a.b"])
    assert not meet([b"a.b"], [b"a.c"])
    assert not meet([b"a.b"], [b"a.bc"])
