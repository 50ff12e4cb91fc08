"""The form of a filter says all of it but the values that fields are compared with."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId, Regex, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from docstore.bson import elements
from docstore.errors import CommandError
from tests.unit.kernel.kernels import Kernel

FREE: list[Any] = [
    1, -7, 2.5, float("inf"), Int64(1 << 40), "", "a", "longer", True, False, ObjectId(b"a" * 12), b"x",
    datetime(2020, 1, 1, tzinfo=UTC), Timestamp(3, 4),
]  # fmt: skip
PATTERNS: list[Any] = [Regex("a"), Regex("b|c"), Regex("^a", "i"), Regex(""), Regex("a", "s"), Regex("^a", "is")]
BEGINNINGS: list[Any] = [Regex("^a"), Regex("^A 1_-")]
"""Regular expressions of which no index knows where strings begin, and those that say nothing else."""
FIXED: list[Any] = [
    None, float("nan"), Decimal128("1"), [1], {"x": 1}, {}, Regex("^"), Regex("^a.b"), Regex("^a", "s"), bson.MinKey(),
    bson.MaxKey(),
]  # fmt: skip
COMPARING = ["$eq", "$gt", "$gte", "$lt", "$lte"]
OTHERS: list[Any] = [
    {"$ne": 1}, {"$in": [1, None]}, {"$in": []}, {"$nin": [1]}, {"$exists": True}, {"$gt": None},
    {"$not": {"$gt": 1}}, {"$type": 2}, {"$elemMatch": {}}, {"$all": []}, {"$all": [1, None]}, {"$regex": "^a|b"},
    {"$regex": Regex("a"), "$options": "i"}, {"$regex": "^a", "$options": "s"}, {"$regex": "a", "$options": 1},
    {"$all": [{"$elemMatch": {"x": 1}}]}, {"$elemMatch": {"$or": [{"x": 1}]}}, {"$regexp": "a"}, {"$options": "a"},
    {"$gtx": 1}, {"$g": 1}, {"$": 1},
]  # fmt: skip
VALUES = st.sampled_from(FREE)
NESTED = st.one_of(
    st.dictionaries(st.sampled_from(["a", "b", "$or"]), VALUES, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(["$ne", *COMPARING]), VALUES, min_size=1, max_size=2),
)
CONDITIONS = st.one_of(
    VALUES,
    st.sampled_from([*PATTERNS, *BEGINNINGS]),
    st.sampled_from([*PATTERNS, *BEGINNINGS, "a", "^a", "^a."]).map(lambda pattern: {"$regex": pattern}),
    st.sampled_from(["a", "^a"]).map(lambda pattern: {"$regex": pattern, "$options": "i"}),
    st.lists(VALUES, min_size=1, max_size=3).map(lambda listed: {"$all": listed}),
    NESTED.map(lambda nested: {"$elemMatch": nested}),
    st.sampled_from(FIXED),
    st.sampled_from(OTHERS),
    st.lists(st.sampled_from([*FREE, None]), max_size=3).map(lambda listed: {"$in": listed}),
    st.dictionaries(st.sampled_from(COMPARING), VALUES, min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["$ne", *COMPARING]), VALUES, min_size=1, max_size=3),
)
BRANCHES = st.lists(st.dictionaries(st.sampled_from(["a", "b", "$or"]), CONDITIONS, max_size=2), max_size=3)
FILTERS = st.tuples(
    st.dictionaries(st.sampled_from(["a", "b", "a.b", "", "$and", "$or", "c"]), CONDITIONS, max_size=4),
    st.dictionaries(st.just("$or"), BRANCHES, max_size=1),
).map(lambda parts: {**parts[0], **parts[1]})


def free_values(wanted: dict[str, Any]) -> list[tuple[int, bytes]]:
    """The values that a form leaves out, by the rules as they are written down."""
    return [next(iter(elements(bson.encode({"v": value}))))[1:] for value in _free(wanted)]


def is_disjunction(name: str, condition: Any) -> bool:
    return name == "$or" and isinstance(condition, list) and all(isinstance(each, dict) for each in condition)


def is_free(value: Any) -> bool:
    return any(value is each for each in FREE)


def is_pattern(value: Any) -> bool:
    """Whether a regular expression is left out of a form, as the value of a field or of `$regex` alone."""
    return value in ("a", "^a") or any(value is each for each in [*PATTERNS, *BEGINNINGS])


def _free(wanted: dict[str, Any], *, nested: bool = False) -> list[Any]:
    found = []
    for name, condition in wanted.items():
        if name.startswith("$"):
            if is_disjunction(name, condition) and not nested:
                found += [value for branch in condition for value in _free(branch, nested=True)]
        elif isinstance(condition, dict) and next(iter(condition), "").startswith("$"):
            found += _asked(condition)
        elif is_free(condition) or (isinstance(condition, Regex) and is_pattern(condition)):
            found.append(condition)
    return found


def _asked(condition: dict[str, Any]) -> list[Any]:
    found = []
    for name, value in condition.items():
        if (name in COMPARING and is_free(value)) or (name == "$in" and value and all(map(is_free, value))):
            found.append(value)
        elif name == "$all" and all(map(is_free, value)):
            found += value
        elif name == "$regex" and is_pattern(value) and condition.get("$options", "i") == "i":
            found += [] if isinstance(value, Regex) and "$options" in condition else [value]
        elif name == "$elemMatch" and value:
            found += _asked(value) if next(iter(value)).startswith("$") else _free(value, nested=True)
    return found


@given(FILTERS)
def test_the_values_are_those_of_comparisons_of_fields(kernel: Kernel, wanted: dict[str, Any]) -> None:
    formed = kernel.match.form.form_of(bson.encode(wanted))
    assert formed is not None
    assert formed[1] == free_values(wanted)


@given(FILTERS, st.randoms(use_true_random=False))
def test_filters_with_other_values_of_the_same_types_have_one_form(
    kernel: Kernel, wanted: dict[str, Any], rng: Any
) -> None:
    def other(value: Any) -> Any:
        for alike in (PATTERNS, BEGINNINGS):
            if any(value is each for each in alike):
                return rng.choice(alike)
        alike = [each for each in FREE if type(each) is type(value)]
        return rng.choice(alike) if is_free(value) else value

    def with_others(conditions: dict[str, Any], *, nested: bool = False) -> dict[str, Any]:
        return {
            name: [with_others(branch, nested=True) for branch in condition]
            if is_disjunction(name, condition) and not nested
            else condition
            if name.startswith("$")
            else asked_of_others(condition)
            if isinstance(condition, dict) and next(iter(condition), "").startswith("$")
            else other(condition)
            for name, condition in conditions.items()
        }

    def asked_of_others(condition: dict[str, Any]) -> dict[str, Any]:
        changed = dict(condition)
        for name, value in condition.items():
            if name in COMPARING or (name == "$regex" and "$options" not in condition):
                changed[name] = other(value)
            elif name == "$all" and all(map(is_free, value)):
                changed[name] = list(map(other, value))
            elif name == "$elemMatch" and value:
                operators = next(iter(value)).startswith("$")
                changed[name] = asked_of_others(value) if operators else with_others(value, nested=True)
        return changed

    changed = with_others(wanted)
    one, two = kernel.match.form.form_of(bson.encode(wanted)), kernel.match.form.form_of(bson.encode(changed))
    assert one is not None
    assert two is not None
    assert one[0] == two[0]


@given(FILTERS, FILTERS)
def test_filters_of_one_form_differ_in_their_values_only(
    kernel: Kernel, one: dict[str, Any], other: dict[str, Any]
) -> None:
    first, second = kernel.match.form.form_of(bson.encode(one)), kernel.match.form.form_of(bson.encode(other))
    assert first is not None
    assert second is not None
    if first[0] == second[0]:
        assert list(one) == list(other)
        assert [code for code, _ in first[1]] == [code for code, _ in second[1]]
        assert (first[1] == second[1]) == (bson.encode(one) == bson.encode(other))


def test_types_make_other_forms(kernel: Kernel) -> None:
    forms = [kernel.match.form.form_of(bson.encode({"a": value})) for value in FREE + PATTERNS + BEGINNINGS + FIXED]
    assert len({formed[0] for formed in forms if formed}) == 8 + 1 + 1 + 1 + len(FIXED)


def test_long_filters_and_those_of_many_values_have_none(kernel: Kernel) -> None:
    assert kernel.match.form.form_of(bson.encode({"a": {"x": "x" * 1024}})) is None
    assert kernel.match.form.form_of(bson.encode({"a": "x" * 40_000})) is None
    assert kernel.match.form.form_of(bson.encode({"a": "x" * 10_000})) is not None
    assert kernel.match.form.form_of(bson.encode({"a": {"$in": list(range(1_000))}}))[1] != []
    assert kernel.match.form.form_of(bson.encode({"a": {"$in": list(range(1_001))}})) is None
    assert kernel.match.form.form_of(bson.encode({str(number): 1 for number in range(17)})) is None
    assert kernel.match.form.form_of(bson.encode({str(number): 1 for number in range(16)})) is not None


@pytest.mark.parametrize("size", [4, 5, 6, 20])
def test_a_nested_document_that_does_not_fit_is_refused_or_stays_inside(kernel: Kernel, size: int) -> None:
    raw = bytearray(bson.encode({"a": {"$gt": 1}}))
    raw[7] = size
    with suppress(CommandError):
        kernel.match.form.form_of(bytes(raw))


def test_searches_have_no_form(kernel: Kernel) -> None:
    point = {"$geometry": {"type": "Point", "coordinates": [1, 2]}}
    for condition in (
        {"$text": {"$search": "a"}}, {"a": {"$near": point}}, {"a": 1, "b": {"$geoWithin": {"$box": [[0, 0], [1, 1]]}}},
        {"a": {"$geoIntersects": point}}, {"$or": [{"a": {"$nearSphere": point}}]}, {"a": {"$near": [1, 2]}},
        {"a": {"$maxDistance": 1, "$near": [1, 2]}}, {"a": {"$within": {"$box": [[0, 0], [1, 1]]}}},
    ):  # fmt: skip
        assert kernel.match.form.form_of(bson.encode(condition)) is None, condition
    for constant in ({"$texts": 1}, {"a": {"$not": {"$gt": 1}}}, {"$expr": {"$gt": ["$a", 1]}}):
        assert kernel.match.form.form_of(bson.encode(constant)) is not None, constant


def test_a_search_is_one_value_for_those_who_ask(kernel: Kernel) -> None:
    def formed(condition: dict[str, Any]) -> Any:
        return kernel.match.form.form_of(bson.encode(condition), True)

    def circle(name: str, *centre: int) -> dict[str, Any]:
        return {name: {"$center": [list(centre), 1]}}

    form, values = formed({"n": 1, "a": circle("$geoWithin", 1, 2)})
    assert values == [(16, b"\1\0\0\0"), (3, bson.encode(circle("$geoWithin", 1, 2)))]
    assert formed({"n": 5, "a": circle("$geoWithin", 3, 4)})[0] == form
    others: list[dict[str, Any]] = [
        {"n": 1, "a": circle("$within", 1, 2)}, {"n": 1, "b": circle("$geoWithin", 1, 2)},
        {"n": 1, "a": {"$near": [1, 2]}},
        {"n": 1, "a": {"$geoWithin": {"$box": [[1, 2], [3, 4]]}}}, {"n": 1, "a": {"$near": [1, 2], "$maxDistance": 1}},
        {"n": 1, "$text": {"$search": "a"}}, {"n": 1, "$text": {"$search": "a", "$language": "none"}},
    ]  # fmt: skip
    assert len({form, *(formed(each)[0] for each in others)}) == len(others) + 1
    for refused in ({"$or": [{"$text": {"$search": "a"}}]}, {"a": {"$gt": 1, "$near": [1, 2]}}, {"$near": [1, 2]}):
        assert formed(refused) is None


def test_members_of_a_conjunction_are_taken_apart(kernel: Kernel) -> None:
    form_of = kernel.match.form.form_of

    def formed(number: int, text: str) -> tuple[bytes, list[Any]]:
        filters = [{"a": number}, {"$or": [{"b": {"$gt": number}}, {"c": text}]}, {"$and": [{"a": {"$lt": number}}]}]
        found = form_of(bson.encode({"$and": filters}))
        assert found is not None
        return found

    (one, values), (other, others) = formed(1, "x"), formed(2, "y")
    assert one == other
    assert [data[:1] for _, data in values] == [b"\1", b"\1", b"\2", b"\1"]
    assert values != others
    assert form_of(bson.encode({"$and": [1]}))[1] == []
