"""Indexes of geometry: ordinary indexes, whose keys are cells."""

from __future__ import annotations

import random
from typing import Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.collection.collection import Collection
from docstore.collection.index.duplicates import index_values
from docstore.collection.read.execute import open_find
from docstore.collection.read.planning import plan_query
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.special_conditions import nearness
from docstore.query.find import FindQuery, Hint
from docstore.query.geo.distances import nearest
from docstore.query.plan.access import IndexScan, NearScan
from docstore.query.projection.parse import parse_projection
from docstore.query.sort import Sort
from tests.unit.collection.building import check, doc, insert, make, plain, remove, spec, store_on, update

NEVER = float("inf")


def point(x: float, y: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [x, y]}


PLACES = st.tuples(st.floats(-180, 180), st.floats(-90, 90)).map(list)
NEARBY = st.tuples(st.floats(-3, 3), st.floats(-3, 3)).map(list)
LINES = st.lists(NEARBY, min_size=2, max_size=4, unique_by=tuple).map(
    lambda positions: {"type": "LineString", "coordinates": positions}
)
SHAPES = st.one_of(PLACES, NEARBY, NEARBY.map(lambda at: point(*at)), LINES)
FILTERS = st.sampled_from(
    [
        {"g": {"$geoWithin": {"$centerSphere": [[0.5, 0.5], 0.03]}}},
        {"g": {"$geoWithin": {"$centerSphere": [[170, 80], 1.0]}}},
        {
            "g": {
                "$geoWithin": {"$geometry": {"type": "Polygon", "coordinates": [[[-2, -2], [2, -1], [1, 2], [-2, -2]]]}}
            }
        },
        {"g": {"$geoIntersects": {"$geometry": {"type": "LineString", "coordinates": [[-3, -3], [3, 2.5]]}}}},
        {"g": {"$geoWithin": {"$box": [[-1, -1], [2, 2]]}}},
        {"g": {"$geoWithin": {"$polygon": [[-1, -1], [2, 0], [0, 2]]}}},
        {"a": 1, "g": {"$geoWithin": {"$center": [[0, 0], 2]}}},
        {"a": {"$gte": 1}, "g": {"$geoIntersects": {"$geometry": point(0, 0)}}},
    ]
)
NEAR = st.sampled_from(
    [
        {"g": {"$near": {"$geometry": point(0.5, 0.5)}}},
        {"g": {"$near": {"$geometry": point(170, 85), "$maxDistance": 5_000_000, "$minDistance": 1000}}},
        {"g": {"$nearSphere": [1, 1], "$maxDistance": 0.5}},
        {"a": {"$gte": 1}, "g": {"$nearSphere": [-179, 0]}},
    ]
)
SPHERE_KEYS = st.sampled_from([(("g", "2dsphere"),), (("a", 1), ("g", "2dsphere")), (("g", "2dsphere"), ("a", -1))])


def geometry(*keys: tuple[str, Any], **options: Any) -> Any:
    return spec(*keys, name="geometry", **options)


def find(coll: Collection, store: Store, condition: dict[str, Any], **rest: Any) -> list[dict[str, Any]]:
    query = FindQuery(filter=parse_filter(bson.encode(condition)), **rest)
    source = open_find(coll, query, store.engine, clock=lambda: 0.0)
    found: list[bytes] = []
    while True:
        step = source.next_batch(7, 1 << 24, NEVER)
        found += step.documents
        if step.exhausted:
            return [plain(raw) for raw in found]


def ids(found: list[dict[str, Any]]) -> list[Any]:
    return [each["_id"] for each in found]


@settings(max_examples=60, deadline=None)
@given(st.lists(SHAPES, max_size=12), SPHERE_KEYS, FILTERS, st.integers(0, 30))
def test_an_index_of_the_sphere_never_changes_what_is_found(
    shapes: list[Any], keys: Any, condition: dict[str, Any], finest: int
) -> None:
    store = store_on()
    documents = [doc(n, g=shape, a=[n % 3, 5] if n % 4 == 0 else n % 3) for n, shape in enumerate(shapes)]
    expected = ids(find(make(store, "db.plain", *documents), store, condition))
    coll = make(store, "db.c", *documents, indexes=(geometry(*keys, finestIndexedLevel=finest),))
    assert sorted(ids(find(coll, store, condition))) == expected
    check(store)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(NEARBY, st.lists(NEARBY, max_size=3)), max_size=12), FILTERS, st.integers(1, 32))
def test_an_index_of_the_plane_never_changes_what_is_found(
    pairs: list[Any], condition: dict[str, Any], bits: int
) -> None:
    store = store_on()
    documents = [doc(n, g=pair, a=[n % 3, 5] if n % 4 == 0 else n % 3) for n, pair in enumerate(pairs)]
    expected = ids(find(make(store, "db.plain", *documents), store, condition))
    coll = make(store, "db.c", *documents, indexes=(geometry(("g", "2d"), ("a", 1), bits=bits, min=-5, max=5),))
    assert sorted(ids(find(coll, store, condition))) == expected
    check(store)


def by_distance(documents: list[bytes], condition: dict[str, Any]) -> list[float]:
    near = nearness(parse_filter(bson.encode(condition)))
    assert near is not None
    found = [nearest(near, raw) for raw in documents]
    return sorted(each[0] for each in found if each is not None and near.least <= each[0] <= near.greatest)


@settings(max_examples=40, deadline=None)
@given(st.lists(SHAPES, max_size=12), SPHERE_KEYS, NEAR)
def test_the_nearest_come_first(shapes: list[Any], keys: Any, condition: dict[str, Any]) -> None:
    store = store_on()
    condition = {"a": {"$gte": 1}, **condition}
    documents = [doc(n, g=shape, a=n % 3) for n, shape in enumerate(shapes)]
    coll = make(store, "db.c", *documents, indexes=(geometry(*keys),))
    wanted = [raw for raw in documents if plain(raw)["a"] >= 1]
    measured = parse_projection(
        bson.encode({"d": {"$meta": "geoNearDistance"}}), tree=parse_filter(bson.encode(condition))
    )
    found = find(coll, store, condition, projection=measured)
    assert [each["d"] for each in found] == by_distance(wanted, condition)


@pytest.mark.parametrize("key", ["2d", "2dsphere"])
def test_a_large_collection_is_read_ring_by_ring(key: str) -> None:
    store = store_on()
    documents = [doc(n, g=[(n * 37 % 101) / 10 - 5, (n * 53 % 97) / 10 - 5]) for n in range(1500)]
    coll = make(store, "db.c", *documents, doc("far", g=[150, 60]), indexes=(geometry(("g", key)),))
    condition = {"g": {"$nearSphere": [0.01, 0.02]}}
    query = FindQuery(filter=parse_filter(bson.encode(condition)), limit=20)
    source = open_find(coll, query, store.engine, clock=lambda: 0.0)
    first = source.next_batch(20, 1 << 24, NEVER).documents
    near = nearness(query.filter)
    assert near is not None
    distances = [found[0] for raw in first if (found := nearest(near, raw))]
    assert distances == by_distance(documents, condition)[:20]
    assert source.plan_stats().docs_examined < 1000
    found = find(coll, store, condition)
    assert len(found) == len(documents) + 1 == len(set(ids(found)))
    assert found[-1]["_id"] == "far"


@pytest.mark.parametrize("keys", [(("g", "2dsphere"),), (("a", -1), ("g", "2dsphere")), (("g", "2dsphere"), ("a", 1))])
def test_neighbours_in_the_index_may_be_far_and_many(keys: Any) -> None:
    """The point lies at the border of faces: what stands beside it in the index is a crowd, far away."""
    store = store_on()
    crowd = [doc(n, a=1, g=point(41 + n % 40 / 1000, 0.2 + n % 7 / 1000)) for n in range(900)]
    others = [doc(1000 + n, a=1, g=point(45.0001 + n / 10, -0.1)) for n in range(30)]
    lines = [doc(2000 + n, a=1, g={"type": "LineString", "coordinates": [[45, n], [46, n]]}) for n in range(1, 5)]
    documents = [*crowd, *others, *lines]
    coll = make(store, "db.c", *documents, indexes=(geometry(*keys),))
    for limits in ({}, {"$maxDistance": 300_000}, {"$minDistance": 440_000}):
        condition = {"a": 1, "g": {"$near": {"$geometry": point(44.9999, 0.2), **limits}}}
        near = nearness(parse_filter(bson.encode(condition)))
        assert near is not None
        at_once = {raw: found[0] for raw in documents if (found := nearest(near, raw))}
        wanted = sorted(apart for apart in at_once.values() if near.least <= apart <= near.greatest)
        found = find(coll, store, condition)
        assert [at_once[bson.encode(each)] for each in found] == wanted
        assert len(set(ids(found))) == len(found)


@pytest.mark.parametrize("keys", [(("g", "2d"),), (("g", "2d"), ("a", 1))])
@pytest.mark.parametrize("seed", [1, 2])
def test_nearness_by_cells_of_the_plane_is_that_of_all_documents(seed: int, keys: Any) -> None:
    """Crowds and lone points, several places of one document, in the plane and on the sphere."""
    dice = random.Random(seed)
    store = store_on()
    documents: list[bytes] = []
    for number in range(900):
        middle = dice.choice(((0, 0), (30, 30), (-120, 60), (dice.uniform(-179, 179), dice.uniform(-89, 89))))
        at = [middle[0] + dice.uniform(-0.5, 0.5), middle[1] + dice.uniform(-0.5, 0.5)]
        place: Any = dice.choice((at, at, at, {"x": at[0], "y": at[1]}, [at, [dice.randrange(9), dice.randrange(9)]]))
        documents.append(doc(number, a=number % 2, g=place))
    coll = make(store, "db.c", *documents, indexes=(geometry(*keys),))
    for _ in range(40):
        at = dice.choice(([0, 0], [29.6, 30], [dice.uniform(-180, 180), dice.uniform(-90, 90)], [180, 90]))
        limits: dict[str, Any] = {}
        spherical = dice.random() < 0.4
        if dice.random() < 0.5:
            limits["$maxDistance"] = dice.choice((0.001, 0.01, 1)) * (1 if spherical else 57)
        if dice.random() < 0.3:
            limits["$minDistance"] = dice.choice((0.001, 0.3)) * (1 if spherical else 57)
        condition: dict[str, Any] = {"g": {"$nearSphere" if spherical else "$near": at, **limits}}
        if dice.random() < 0.3:
            condition["a"] = 1
        near = nearness(parse_filter(bson.encode(condition)))
        assert near is not None
        apart = {raw: found[0] for raw in documents if (found := nearest(near, raw))}
        wanted = sorted(
            far
            for raw, far in apart.items()
            if near.least <= far <= near.greatest and bson.decode(raw)["a"] >= condition.get("a", 0)
        )
        found = find(coll, store, condition)
        assert [apart[bson.encode(each)] for each in found] == wanted
        assert len(set(ids(found))) == len(found)


def test_entries_follow_the_documents() -> None:
    store = store_on()
    indexes = (
        spec(("g", "2dsphere"), ("a", 1), name="sphere"),
        spec(("h", "2d"), ("a", -1), ("b.c", 1), name="plane", min=0, max=10),
        spec(("g", "2dsphere"), name="first", **{"2dsphereIndexVersion": 1, "partialFilterExpression": {"a": 1}}),
    )
    coll = make(store, "db.c", indexes=indexes)
    insert(
        store, coll, doc(1, g=point(1, 2), h=[[1, 2], [3, 4]], a=[1, 2], b=[{"c": 1}, {"c": 2}]), doc(2), doc(3, a=1)
    )
    check(store)
    held = {name: index.multikey for name, index in coll.indexes.items()}
    assert held == {"_id_": False, "sphere": True, "plane": True, "first": False}
    update(store, coll, doc(1, g={"type": "LineString", "coordinates": [[0, 0], [5, 5]]}, a=1, h=[9, 9]))
    update(store, coll, doc(2, g=[1, 1], h={"x": 1, "y": 1}))
    check(store)
    remove(store, coll, 1)
    check(store)
    assert len(find(coll, store, {"g": {"$near": {"$geometry": point(0, 0)}}})) == 1
    build = store.build_index(coll, [spec(("g", "2dsphere"), name="again")])
    assert build.step(NEVER)
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()
    check(store)


@pytest.mark.parametrize(
    ("key", "stored", "code"),
    [
        ("2dsphere", 5, 16755),
        ("2dsphere", [1], 16755),
        ("2dsphere", [[1, 2]], 16755),
        ("2dsphere", point(200, 0), 16755),
        ("2dsphere", [200, 0], 16755),
        ("2d", [200, 0], 13027),
        ("2d", [1], 13068),
        ("2d", [1, "x"], 13026),
        ("2d", point(1, 1), 16804),
        ("2d", ["x", 1], 16804),
    ],
)
def test_documents_that_an_index_cannot_hold(key: str, stored: Any, code: int) -> None:
    store = store_on()
    coll = make(store, "db.c", indexes=(geometry(("g", key)),))
    with pytest.raises(CommandError) as refused:
        insert(store, coll, doc(1, g=stored))
    assert refused.value.code == code
    assert coll.count == 0
    other = make(store, "db.d", doc(1, g=stored))
    with pytest.raises(CommandError) as refused:
        store.build_index(other, [geometry(("g", key))]).step(NEVER)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("key", "stored"), [("2d", 5), ("2d", "x"), ("2d", None), ("2dsphere", None), ("2dsphere", [])]
)
def test_documents_without_geometry_have_no_entry(key: str, stored: Any) -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, g=stored, a=1), doc(2, a=1), indexes=(geometry(("g", key), ("a", 1)),))
    assert [coll.indexes["geometry"].keys(raw)[0] for raw in coll.documents(store.engine)] == [[], []]
    check(store)


def test_an_index_with_a_collation_folds_its_other_fields() -> None:
    store = store_on()
    index = geometry(("g", "2dsphere"), ("s", 1), collation={"locale": "en", "strength": 1}, unique=True)
    coll = make(store, "db.c", doc(1, g=[1, 1], s="a"), indexes=(index,))
    with pytest.raises(CommandError) as refused:
        insert(store, coll, doc(2, g=[1, 1], s="A"))
    assert refused.value.code == Code.DuplicateKey
    check(store)


def test_the_key_of_an_entry_is_shown_as_a_cell() -> None:
    store = store_on()
    coll = make(store, "db.c", indexes=(geometry(("g", "2d"), ("l.x", -1), unique=True),))
    raw = doc(1, g=[1, 1], l=[{"x": 1}, {"x": 2}])
    index = coll.indexes["geometry"]
    shown = index_values(index, raw, index.keys(raw)[0][0])
    assert shown[0] == (5, (8).to_bytes(4, "little") + b"\x80" + bytes.fromhex("C000CF3C00CF3000"))
    insert(store, coll, raw)
    with pytest.raises(CommandError, match=r"dup key: \{ g: BinData\(128, C000CF3C00CF3000\), l.x: \[ 1, 2 \] \}"):
        insert(store, coll, doc(2, g=[1, 1], l=[{"x": 1}, {"x": 2}]))


def test_what_serves_a_filter() -> None:
    store = store_on()
    indexes = (
        spec(("g", "2dsphere"), name="sphere"),
        spec(("g", "2d"), name="plane"),
        spec(("a", 1), ("h", "2dsphere"), name="behind"),
        spec(("k", "2dsphere"), name="hidden", hidden=True),
        spec(("p", "2dsphere"), name="partial", partialFilterExpression={"a": 1}),
    )
    coll = make(store, "db.c", indexes=indexes)

    def index(condition: dict[str, Any], **rest: Any) -> str:
        access = plan_query(coll, FindQuery(filter=parse_filter(bson.encode(condition)), **rest)).access
        return access.index.name if isinstance(access, IndexScan | NearScan) else type(access).__name__

    sphere, flat = {"$near": {"$geometry": point(1, 1)}}, {"$near": [1, 1]}
    area = {"$geoIntersects": {"$geometry": point(1, 1)}}
    assert index({"g": sphere}) == "sphere"
    assert [index({"g": flat}), index({"g": {"$nearSphere": [1, 1]}})] == ["plane", "plane"]
    assert index({"g": {"$nearSphere": [1, 1]}}, hint=Hint(name="sphere")) == "sphere"
    assert [index({"a": 1, "h": sphere}), index({"a": 1, "h": area})] == ["behind", "behind"]
    assert [index({"h": area}), index({"a": 1}), index({"g": {"$exists": True}})] == ["CollectionScan"] * 3
    assert [index({"p": sphere, "a": 1}), index({"_id": 1, "g": sphere})] == ["partial", "sphere"]
    for condition in ({"h": sphere}, {"h": flat}, {"k": sphere}, {"p": sphere}, {"nosuch": sphere}):
        with pytest.raises(CommandError) as refused:
            index(condition)
        assert refused.value.code == Code.NoQueryExecutionPlans
    for condition, rest in (
        ({"g": sphere}, {"hint": Hint(natural=1)}),
        ({"g": sphere}, {"sort": Sort(natural=1)}),
        ({"$or": [{"g": sphere}, {"a": 1}]}, {}),
        ({"$and": [{"g": sphere}, {"g": flat}]}, {}),
    ):
        with pytest.raises(CommandError) as refused:
            index(condition, **rest)
        assert refused.value.code == Code.BadValue


def test_a_point_outside_the_square_is_refused_when_it_is_looked_for() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, g=[1, 1]), indexes=(geometry(("g", "2d"), min=0, max=10),))
    with pytest.raises(CommandError) as refused:
        find(coll, store, {"g": {"$near": [11, 1]}})
    assert refused.value.code == 16433
