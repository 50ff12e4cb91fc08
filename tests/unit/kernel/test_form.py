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
FIXED: list[Any] = [None, float("nan"), Decimal128("1"), [1], {"x": 1}, {}, Regex("a"), bson.MinKey(), bson.MaxKey()]
COMPARING = ["$eq", "$gt", "$gte", "$lt", "$lte"]
OTHERS: list[Any] = [
    {"$ne": 1}, {"$in": [1, None]}, {"$in": []}, {"$nin": [1]}, {"$exists": True}, {"$gt": None},
    {"$regex": "a", "$options": "i"}, {"$not": {"$gt": 1}}, {"$type": 2}, {"$elemMatch": {"$gt": 1}},
    {"$gtx": 1}, {"$g": 1}, {"$": 1},
]  # fmt: skip
VALUES = st.sampled_from(FREE)
CONDITIONS = st.one_of(
    VALUES,
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


def _free(wanted: dict[str, Any], *, in_branch: bool = False) -> list[Any]:
    found = []
    for name, condition in wanted.items():
        if name.startswith("$"):
            if is_disjunction(name, condition) and not in_branch:
                found += [value for branch in condition for value in _free(branch, in_branch=True)]
            continue
        operators = isinstance(condition, dict) and next(iter(condition), "").startswith("$")
        asked = [value for key, value in condition.items() if key in COMPARING] if operators else [condition]
        found += [value for value in asked if any(value is each for each in FREE)]
        if operators and condition.get("$in") and all(any(one is each for each in FREE) for one in condition["$in"]):
            found.append(condition["$in"])
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
        alike = [each for each in FREE if type(each) is type(value)]
        return rng.choice(alike) if any(value is each for each in FREE) else value

    def with_others(conditions: dict[str, Any], *, in_branch: bool = False) -> dict[str, Any]:
        return {
            name: [with_others(branch, in_branch=True) for branch in condition]
            if is_disjunction(name, condition) and not in_branch
            else condition
            if name.startswith("$")
            else {key: other(value) if key in COMPARING else value for key, value in condition.items()}
            if isinstance(condition, dict) and next(iter(condition), "").startswith("$")
            else other(condition)
            for name, condition in conditions.items()
        }

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
    forms = [kernel.match.form.form_of(bson.encode({"a": value})) for value in FREE + FIXED]
    assert len({formed[0] for formed in forms if formed}) == 8 + 1 + len(FIXED)


def test_long_filters_and_those_of_many_values_have_none(kernel: Kernel) -> None:
    assert kernel.match.form.form_of(bson.encode({"a": {"x": "x" * 1024}})) is None
    assert kernel.match.form.form_of(bson.encode({"a": "x" * 20_000})) is None
    assert kernel.match.form.form_of(bson.encode({"a": "x" * 10_000})) is not None
    assert kernel.match.form.form_of(bson.encode({"a": {"$in": list(range(256))}}))[1] != []
    assert kernel.match.form.form_of(bson.encode({"a": {"$in": list(range(300))}})) is None
    assert kernel.match.form.form_of(bson.encode({str(number): 1 for number in range(17)})) is None
    assert kernel.match.form.form_of(bson.encode({str(number): 1 for number in range(16)})) is not None


@pytest.mark.parametrize("size", [4, 5, 6, 20])
def test_a_nested_document_that_does_not_fit_is_refused_or_stays_inside(kernel: Kernel, size: int) -> None:
    raw = bytearray(bson.encode({"a": {"$gt": 1}}))
    raw[7] = size
    with suppress(CommandError):
        kernel.match.form.form_of(bytes(raw))
