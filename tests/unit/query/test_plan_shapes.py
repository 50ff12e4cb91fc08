"""A plan that is kept for a shape is the one that would be chosen: random filters, indexes, orders and values."""

from __future__ import annotations

import bson
from bson import Int64, ObjectId
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from docstore.collection.collection import Index
from docstore.query.context import QueryContext
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter, In, Or
from docstore.query.plan.access import Eof, Plan
from docstore.query.plan.plan import choose
from docstore.query.plan.shapes import conjuncts, has_free_list, has_free_patterns, prepared, shape_of
from docstore.query.sort import UNSORTED, Sort
from docstore.query.value.collation import Collation, parse_collation
from tests.unit.query.strategies import DOCUMENTS, FILTERS, PATHS, SORTS
from tests.unit.query.test_plan_is_sound import KINDS, build_index

NUMBERS = st.sampled_from([-3, -1, 0, 1, 2, 2.5, Int64(7), Int64(-(1 << 40)), float("inf"), float("-inf"), 1e300])
KINDS_OF_VALUES = [
    NUMBERS,
    st.sampled_from(["", "a", "b", "ba"]),
    st.booleans(),
    st.builds(lambda n: ObjectId(bytes([n] * 12)), st.integers(0, 3)),
]
CONSTANTS: list[object] = [
    None, {"$in": [1, 2]}, {"$in": ["a", None]}, {"$exists": True}, {"$exists": False}, {"$ne": 1}, {"$nin": [1, "a"]},
    {"$type": "string"}, {"$ne": None}, [1], {"x": 1}, bson.Regex("^a"), {"$not": {"$gt": 1}}, {"$lte": None},
    {"$gt": 0, "$ne": 2}, {"$size": 1}, {"$mod": [2, 1]}, bson.Regex("^a.b"), {"$elemMatch": {"$gt": 0, "$lt": 2}},
    {"$not": bson.Regex("a")},
]  # fmt: skip
NEITHER: list[list[dict[str, object]]] = [[{"a": 1}], [{"b": {"$gt": 2}}, {"a": "b"}], [{"c": None}, {"a.b": [1]}]]
"""Members of a $nor, which is part of a shape as it stands."""
"""Conditions that are part of a shape as they stand."""
PATTERNS = (("^a", "^b", "^ba"), ("a", "b$", "a.b", "^(a|b)"), ("^a.b", "^ba?b"))
"""Regular expressions by what they say of the beginning of strings: all of it, nothing, a part."""
SPECIAL: list[tuple[dict[str, object], dict[str, object]]] = [
    ({"a": "text"}, {}), ({"a": 1, "b": "text"}, {}), ({"a": "2dsphere"}, {}), ({"a": 1, "b": "2dsphere"}, {}),
    ({"a": 1, "b": 1}, {"collation": {"locale": "en"}}), ({"a": 1}, {"collation": {"locale": "en", "strength": 2}}),
    ({"$**": 1}, {"collation": {"locale": "en"}}), ({"b": "hashed"}, {"collation": {"locale": "en"}}),
    ({"b": 1}, {"collation": {"locale": "en"}, "partialFilterExpression": {"a": {"$gt": "a"}}}),
]  # fmt: skip
COLLATIONS = st.sampled_from([None, *(
    parse_collation(bson.encode({"locale": "en", **more})) for more in ({}, {"strength": 2})
)])  # fmt: skip
ALL_KINDS = KINDS | st.sampled_from(SPECIAL)
OPERATORS = st.lists(st.sampled_from(["$eq", "$gt", "$gte", "$lt", "$lte"]), min_size=1, max_size=3, unique=True)


@st.composite
def alike(draw: st.DrawFn) -> tuple[Filter, Filter, Collation | None]:
    """Two filters of one shape, and what they compare strings under."""
    one, other = draw(conditions())
    if draw(st.integers(0, 3)) == 0:
        branches = draw(st.lists(conditions(), min_size=1, max_size=3))
        one["$or"], other["$or"] = [first for first, _ in branches], [second for _, second in branches]
    if draw(st.integers(0, 5)) == 0:
        one["$nor"] = other["$nor"] = draw(st.sampled_from(NEITHER))
    if draw(st.integers(0, 3)) == 0:
        members = draw(st.lists(conditions(), min_size=1, max_size=2))
        one["$and"], other["$and"] = [first for first, _ in members], [second for _, second in members]
    rules = draw(COLLATIONS)
    context = QueryContext(collation=rules)
    trees = (
        parse_filter(bson.encode(one), query_context=context),
        parse_filter(bson.encode(other), query_context=context),
    )
    # Equalities of one path are a list, unless all are of one value.
    assume(sum(isinstance(each, Or) for tree in trees for each in conjuncts(tree)) != 1)
    # Where a null or the like is among them, the whole list is part of the shape.
    one_lists, other_lists = (
        [
            each
            for each in conjuncts(tree)
            if isinstance(each, In) and not has_free_list(each) and not has_free_patterns(each)
        ]
        for tree in trees
    )
    assume(one_lists == other_lists)
    return trees[0], trees[1], rules


@st.composite
def conditions(draw: st.DrawFn) -> tuple[dict[str, object], dict[str, object]]:
    one: dict[str, object] = {}
    other: dict[str, object] = {}
    for path in draw(st.lists(st.sampled_from(PATHS), min_size=1, max_size=3, unique=True)):
        if draw(st.integers(0, 3)) == 0:
            one[path] = other[path] = draw(st.sampled_from(CONSTANTS))
            continue
        values = draw(st.sampled_from(KINDS_OF_VALUES))
        if draw(st.integers(0, 5)) == 0:
            texts = draw(st.sampled_from(PATTERNS))
            one[path], other[path] = (bson.Regex(draw(st.sampled_from(texts))) for _ in range(2))
            continue
        if draw(st.integers(0, 5)) == 0:
            # What an element has once more would be tested in vain.
            several = st.lists(values, min_size=1, max_size=3, unique_by=lambda value: (str(value), value))
            listed = draw(several)
            others = draw(st.permutations(listed))
            one[path], other[path] = {"$all": listed}, {"$all": others}
            continue
        if draw(st.integers(0, 5)) == 0:
            name = draw(st.sampled_from(["", "b", "x"]))
            names = draw(OPERATORS)
            parts = [{key: draw(values) for key in names} for _ in range(2)]
            one[path], other[path] = ({"$elemMatch": {name: part} if name else part} for part in parts)
            continue
        if draw(st.integers(0, 7)) == 0:
            texts = st.lists(st.sampled_from(PATTERNS[1]).map(bson.Regex), min_size=1, max_size=2)
            one[path], other[path] = ({"$in": [*draw(st.lists(values, max_size=2)), *draw(texts)]} for _ in range(2))
            continue
        if draw(st.integers(0, 3)) == 0:
            one[path], other[path] = ({"$in": draw(st.lists(values, min_size=1, max_size=4))} for _ in range(2))
            continue
        names = draw(OPERATORS)
        one[path] = {name: draw(values) for name in names}
        other[path] = {name: draw(values) for name in names}
    return one, other


def has_list(tree: Filter) -> bool:
    """Whether a condition, or one of a branch, is a list of free values."""
    return any(
        any(map(has_list, each.children)) if isinstance(each, Or) else has_free_list(each) for each in conjuncts(tree)
    )


def built(kinds: list[tuple[dict[str, object], dict[str, object]]], contents: list[dict[str, object]]) -> list[Index]:
    documents = [bson.encode({"_id": number, **content}) for number, content in enumerate(contents)]
    made = [build_index(number, *kind, documents) for number, kind in enumerate(kinds)]
    return [index for index in made if index is not None]


def offered(plan: Plan) -> list[Plan]:
    """The plan and those that it was chosen before."""
    return [Plan(each.access, each.residual, each.provides_sort) for each in (plan, *plan.rejected)]


@settings(max_examples=800, deadline=None)
@given(alike(), st.lists(ALL_KINDS, min_size=1, max_size=3), st.lists(DOCUMENTS, max_size=6), SORTS)
def test_what_is_kept_for_one_filter_is_chosen_for_another_of_its_shape(
    filters: tuple[Filter, Filter, Collation | None],
    kinds: list[tuple[dict[str, object], dict[str, object]]],
    contents: list[dict[str, object]],
    order: list[tuple[str, int]],
) -> None:
    one, other, rules = filters
    # Lists are planned alike only where no order is asked for.
    sort = Sort(collation=rules) if has_list(one) or has_list(other) else Sort(tuple(order), collation=rules)
    indexes = built(kinds, contents)
    assert shape_of(one, sort, ()) is not None
    # A collation has a say in the strings that stand beside patterns in a list.
    assume(rules is None or shape_of(one, sort, ()) == shape_of(other, sort, ()))
    assert shape_of(one, sort, ()) == shape_of(other, sort, ())
    # Which of the partial indexes may serve them is decided by their values.
    assume(shape_of(one, sort, indexes) == shape_of(other, sort, indexes))
    chosen, expected = choose(one, indexes, sort=sort), choose(other, indexes, sort=sort)
    for plan in offered(chosen):
        kept = prepared(one, sort, plan, indexes)
        bound = None if kept is None else kept.bind(other)
        if kept is not None and bound not in offered(expected):
            assert any(isinstance(each.access, Eof) for each in offered(expected)), "conditions contradict each other"


@settings(max_examples=300, deadline=None)
@given(FILTERS, st.lists(ALL_KINDS, min_size=1, max_size=2), st.lists(DOCUMENTS, max_size=6), SORTS, COLLATIONS)
def test_what_is_kept_of_any_filter_gives_its_own_plan(
    condition: dict[str, object],
    kinds: list[tuple[dict[str, object], dict[str, object]]],
    contents: list[dict[str, object]],
    order: list[tuple[str, int]],
    rules: Collation | None,
) -> None:
    tree = parse_filter(bson.encode(condition), query_context=QueryContext(collation=rules))
    sort = Sort(tuple(order), collation=rules)
    if shape_of(tree, sort, ()) is None:
        return
    indexes = built(kinds, contents)
    for plan in offered(choose(tree, indexes, sort=sort)):
        kept = prepared(tree, sort, plan, indexes)
        assert kept is None or kept.bind(tree) == plan


def test_plans_are_kept_beside_indexes_that_have_nothing_to_offer() -> None:
    plain: tuple[dict[str, object], dict[str, object]] = ({"a": 1}, {})
    beside: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"t": "text"}, {}), ({"a": 1, "g": "2dsphere"}, {}), ({"h": "hashed"}, {}),
        ({"p": 1}, {"partialFilterExpression": {"p": 1}}), ({"c": 1}, {"collation": {"locale": "en"}}),
    ]  # fmt: skip
    tree = parse_filter(bson.encode({"a": 1, "b": 2}))
    indexes = built([plain, *beside], [])
    assert len(indexes) == 1 + len(beside)
    assert prepared(tree, UNSORTED, choose(tree, indexes), indexes) is not None
    order = Sort((("p", 1),))
    assert prepared(tree, order, choose(tree, indexes, sort=order), indexes) is not None
    collated: tuple[dict[str, object], dict[str, object]] = ({"b": 1}, {"collation": {"locale": "en"}})
    # What these have to offer is the same for all values.
    for each in (collated, ({"b": "hashed"}, {}), ({"$**": 1}, {}), ({"$**": 1}, collated[1])):
        several = built([plain, each], [])
        assert prepared(tree, UNSORTED, choose(tree, several), several) is not None


def test_partial_indexes_that_a_filter_implies_are_part_of_its_shape() -> None:
    index = ({"b": 1}, {"partialFilterExpression": {"b": {"$lt": 10}}})
    indexes = built([({"a": 1}, {}), index], [])

    def shape(**conditions: object) -> object:
        tree = parse_filter(bson.encode(conditions))
        plan = choose(tree, indexes)
        assert prepared(tree, UNSORTED, plan, indexes) is not None
        return shape_of(tree, UNSORTED, indexes)

    assert shape(b={"$lt": 10}) == shape(b={"$lt": 3})
    assert shape(a=1, b={"$lt": 11}) == shape(a=2, b={"$lt": 50})
    assert shape(a=1, b={"$lt": 3}) != shape(a=1, b={"$lt": 11})


def test_shapes_tell_apart_what_is_planned_in_another_way() -> None:
    conditions: list[dict[str, object]] = [
        {"a": 1}, {"a": "x"}, {"a": {"$gt": 1}}, {"a": {"$gte": 1}}, {"a": 1, "b": 1}, {"b": 1, "a": 1}, {"b": 1},
        {"a": {"$gt": 1, "$lt": 2}}, {"a": True},
    ]  # fmt: skip
    shapes = [shape_of(parse_filter(bson.encode(each)), UNSORTED, ()) for each in conditions]
    assert None not in shapes
    assert len(set(shapes)) == len(shapes)
    assert shape_of(parse_filter(bson.encode({"a": 1})), Sort((("b", 1),)), ()) not in shapes


def test_conditions_that_mean_more_than_their_values_are_part_of_the_shape() -> None:
    values: list[object] = [None, [1], [2], {"x": 1}, {"x": 2}, bson.MinKey(), bson.MaxKey()]
    conditions: list[dict[str, object]] = [
        *({"a": {"$gte": value}} for value in values), *({"a": value} for value in values), {"a": bson.Regex("^a")},
        {"a": bson.Regex("^a.b")}, {"a": bson.Regex("a")}, {"a": {"$size": 1}}, {"a": {"$size": 2}},
        {"a": {"$mod": [2, 1]}}, {"a": {"$mod": [3, 1]}}, {"a": {"$elemMatch": {"b": 1}}},
        {"a": {"$elemMatch": {"b": "x"}}}, {"a": {"$elemMatch": {"$gt": 1}}}, {"a": {"$ne": 1}},
        {"a": {"$ne": 2}}, {"a": {"$exists": True}}, {"a": {"$in": [1, 2]}},
        {"a": {"$exists": False}}, {"a": {"$in": [1, None]}}, {"a": {"$in": [2, None]}},
        {"a": {"$type": "int"}}, {"a": {"$type": "string"}},
    ]  # fmt: skip
    shapes = [shape_of(parse_filter(bson.encode(each)), UNSORTED, ()) for each in conditions]
    assert None not in shapes
    assert len(set(shapes)) == len(shapes)


def test_conditions_that_are_planned_by_their_values_have_no_shape() -> None:
    conditions: list[dict[str, object]] = [
        {"a": float("nan")}, {"a": {"$gt": float("nan")}}, {"a": bson.Decimal128("1")}, {"_id": 1}, {"_id": None},
        {"_id": {"$in": [None]}}, {"$or": [{"a": float("nan")}, {"b": 1}]}, {"a": {"$in": [None, *range(9)]}},
        {"a": "x" * 2000}, {"a": {"$in": [None, "x" * 2000]}}, {f"a{number}": 1 for number in range(33)},
        {"a": [1] * 2000}, {"a": {"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}}, {"a": {"$bitsAllSet": 1}},
        {"a": {"$elemMatch": {"b": {"$elemMatch": {"x": 1}}}}},
    ]  # fmt: skip
    for condition in conditions:
        assert shape_of(parse_filter(bson.encode(condition)), UNSORTED, ()) is None, condition
