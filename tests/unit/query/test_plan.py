"""Which access path is chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from bson import Regex

from docstore.aggregation.expression_context import FULL
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.pattern import KeyPattern, array_places
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter, Or
from docstore.query.find import Hint, parse_hint
from docstore.query.geo.cell_keys import GeoKeys
from docstore.query.plan.access import CollectionScan, Eof, IdLookup, IndexScan, Merge, Plan, Union
from docstore.query.plan.index_bounds import usable_bounds
from docstore.query.plan.plan import choose
from docstore.query.plan.wildcard import WildcardPaths
from docstore.query.sort import parse_sort
from docstore.query.text.terms import TextKeys
from docstore.query.value.collation import Collation
from tests.unit.query.raw import raw, value


@dataclass(frozen=True)
class Index:
    name: str
    key_pattern: KeyPattern
    unique: bool = False
    sparse: bool = False
    array_bits: int = 0
    partial: Filter | None = None
    wildcard: WildcardPaths | None = None
    geometry: GeoKeys | None = None
    text: TextKeys | None = None
    collation: Collation | None = None

    @property
    def is_id(self) -> bool:
        return self.name == "_id_"

    @property
    def multikey(self) -> bool:
        return self.array_bits != 0

    @property
    def arrays(self) -> frozenset[str]:
        return array_places([path for path, _ in self.fields], self.array_bits)

    @property
    def fields(self) -> tuple[tuple[str, int], ...]:
        return self.key_pattern.fields

    @property
    def key_id(self) -> bytes:
        return encode_key(value(dict(self.fields)))


def index(name: str, *fields: tuple[str, int], **traits: int) -> Index:
    return Index(name, KeyPattern(list(fields)), **traits)


ID = index("_id_", ("_id", 1), unique=True)


def plan(
    condition: dict[str, Any], *indexes: Index, sort: dict[str, int] | None = None, hint: Hint | None = None
) -> Plan:
    return choose(parse_filter(raw(condition)), [ID, *indexes], sort=parse_sort(raw(sort or {})), hint=hint)


def used(chosen: Plan) -> str:
    assert isinstance(chosen.access, IndexScan)
    return chosen.access.index.name


def test_an_id_is_looked_up() -> None:
    assert plan({"_id": 5}) == Plan(IdLookup(value(5)), None, True)


def test_what_else_the_filter_says_is_left_to_it_after_a_lookup() -> None:
    chosen = plan({"_id": 5, "a": 1}, index("a_1", ("a", 1)))

    assert chosen.access == IdLookup(value(5))
    assert chosen.residual is not None


def test_no_condition_is_a_collection_scan_without_a_residual() -> None:
    assert plan({}) == Plan(CollectionScan(1), None, True)


def test_bounds_that_say_all_need_no_residual() -> None:
    chosen = plan({"a": {"$gt": 5, "$lt": 9}}, index("a_1", ("a", 1)))

    assert used(chosen) == "a_1"
    assert chosen.residual is None


@pytest.mark.parametrize("condition", [{"a": None}, {"a": [1]}, {"a": 5, "b": 1}, {"a": {"$regex": "x"}}])
def test_bounds_that_say_less_leave_the_filter_to_be_applied(condition: dict[str, Any]) -> None:
    chosen = plan(condition, index("a_1", ("a", 1)))

    assert used(chosen) == "a_1"
    assert chosen.residual is not None


def test_a_multikey_index_says_all_of_one_condition_and_not_of_two() -> None:
    multikey = index("a_1", ("a", 1), array_bits=1)

    assert plan({"a": 5}, multikey).residual is None
    assert plan({"a": {"$gt": 5, "$lt": 9}}, multikey).residual is not None


def test_a_long_list_of_values_is_all_that_its_bounds_hold() -> None:
    chosen = plan({"a": {"$in": list(range(0, 10_000, 2))}}, index("a_1", ("a", 1)))

    assert used(chosen) == "a_1"
    assert chosen.residual is None


def test_what_the_bounds_say_already_is_not_asked_again() -> None:
    chosen = plan({"a": 5, "b": 1}, index("a_1", ("a", 1)))

    assert chosen.residual == parse_filter(raw({"b": 1}))


def test_two_conditions_on_an_array_are_not_intersected() -> None:
    chosen = plan({"a": {"$gt": 5, "$lt": 3}}, index("a_1", ("a", 1), array_bits=1))

    assert used(chosen) == "a_1"


def test_two_conditions_on_one_element_are_intersected() -> None:
    chosen = plan({"a": {"$elemMatch": {"$gt": 5, "$lt": 3}}}, index("a_1", ("a", 1), array_bits=1))

    assert chosen.access == Eof()


def test_the_longest_run_of_equalities_wins() -> None:
    assert used(plan({"a": 1, "b": 2}, index("a_1", ("a", 1)), index("a_b", ("a", 1), ("b", 1)))) == "a_b"


def test_an_equality_beats_a_range() -> None:
    assert used(plan({"a": {"$gt": 1}, "b": 2}, index("a_1", ("a", 1)), index("b_1", ("b", 1)))) == "b_1"


def test_a_closed_range_beats_an_open_one() -> None:
    chosen = plan({"a": {"$gt": 1}, "b": {"$gt": 1, "$lt": 3}}, index("a_1", ("a", 1)), index("b_1", ("b", 1)))

    assert used(chosen) == "b_1"


def test_an_index_provides_the_order_behind_an_equality() -> None:
    chosen = plan({"a": 1}, index("a_b", ("a", 1), ("b", 1)), sort={"b": -1})

    assert isinstance(chosen.access, IndexScan)
    assert (chosen.provides_sort, chosen.access.direction) == (True, -1)


def test_an_order_alone_is_worth_an_index() -> None:
    chosen = plan({}, index("a_b", ("a", 1), ("b", -1)), sort={"a": -1, "b": 1})

    assert isinstance(chosen.access, IndexScan)
    assert (chosen.provides_sort, chosen.access.direction) == (True, -1)


def test_a_sparse_index_serves_no_order_alone() -> None:
    assert plan({}, index("a_1", ("a", 1), sparse=True), sort={"a": 1}) == Plan(CollectionScan(1), None, False)


def test_a_multikey_index_serves_an_order_as_a_whole_and_not_within_bounds() -> None:
    whole = plan({}, index("a_1", ("a", 1), array_bits=1), sort={"a": 1})
    bounded = plan({"a": {"$gt": 1}}, index("a_1", ("a", 1), array_bits=1), sort={"a": 1})

    assert used(whole) == "a_1"
    assert whole.provides_sort
    assert not bounded.provides_sort


def test_mixed_directions_are_not_the_order_of_an_index() -> None:
    assert not plan({}, index("a_b", ("a", 1), ("b", 1)), sort={"a": 1, "b": -1}).provides_sort


def test_several_points_before_the_sorted_field_are_merged_into_the_order() -> None:
    chosen = plan({"a": {"$in": [1, 2]}}, index("a_b", ("a", 1), ("b", 1)), sort={"b": 1})

    assert isinstance(chosen.access, Merge)
    assert (len(chosen.access.branches), chosen.access.fixed, chosen.provides_sort) == (2, (1, 1), True)


def test_points_too_many_to_merge_break_the_order() -> None:
    chosen = plan({"a": {"$in": list(range(300))}}, index("a_b", ("a", 1), ("b", 1)), sort={"b": 1})

    assert not chosen.provides_sort


def test_branches_of_a_disjunction_are_merged_into_the_order() -> None:
    indexes = index("a_b", ("a", 1), ("b", 1)), index("c_b", ("c", 1), ("b", 1))

    chosen = plan({"$or": [{"a": 1}, {"c": 2}]}, *indexes, sort={"b": 1})

    assert isinstance(chosen.access, Merge)
    assert [branch.index.name for branch in chosen.access.branches] == ["a_b", "c_b"]


def test_branches_on_one_field_are_one_scan() -> None:
    chosen = plan({"$or": [{"a": 1}, {"a": {"$gt": 5}}]}, index("a_b", ("a", 1), ("b", 1)))

    assert isinstance(chosen.access, IndexScan)
    assert len(chosen.access.bounds[0].ranges) == 2


def test_fields_behind_a_range_are_checked_in_the_index() -> None:
    chosen = plan({"a": {"$gt": 1}, "b": 2}, index("a_b", ("a", 1), ("b", 1)))

    assert isinstance(chosen.access, IndexScan)
    assert (chosen.access.checked, chosen.residual) == (True, None)


def test_arrays_in_one_field_leave_the_bounds_of_others_tight() -> None:
    second = index("a_b", ("a", 1), ("b", 1), array_bits=2)

    assert plan({"a": {"$gt": 1, "$lt": 5}, "b": 3}, second).residual is None
    assert plan({"a": 1}, second, sort={"b": 1}).provides_sort
    assert not plan({"a": 1, "b": {"$gt": 1}}, second, sort={"b": 1}).provides_sort


@pytest.mark.parametrize(
    "condition",
    [{"a": {"$ne": 1}}, {"a": {"$nin": [1, 2]}}, {"a": {"$not": {"$gt": 1}}}, {"$nor": [{"a": 1}]}],
)
def test_a_negation_is_all_that_its_bounds_hold_without_arrays(condition: dict[str, Any]) -> None:
    plain, arrays = index("a_1", ("a", 1)), index("a_1", ("a", 1), array_bits=1)

    assert plan(condition, plain).residual is None
    assert plan(condition, arrays).residual is not None


def test_a_sparse_index_does_not_answer_for_missing_fields() -> None:
    assert isinstance(plan({"a": None}, index("a_1", ("a", 1), sparse=True)).access, CollectionScan)


def test_a_sparse_index_does_not_answer_for_fields_missing_in_arrays() -> None:
    nested = index("a.b_1", ("a.b", 1), sparse=True)

    assert isinstance(plan({"a.b": {"$ne": None}}, nested).access, CollectionScan)
    assert used(plan({"a": {"$ne": None}}, index("a_1", ("a", 1), sparse=True))) == "a_1"
    # In an expression a.b of {a: [1]} is an empty array, which is greater than any number.
    bounds = usable_bounds(parse_filter(raw({"$expr": {"$gt": ["$a.b", 1]}}), query_context=FULL), nested)
    assert bounds == []


def test_a_disjunction_is_a_union_when_every_branch_has_an_index() -> None:
    a, b = index("a_1", ("a", 1)), index("b_1", ("b", 1))

    assert isinstance(plan({"$or": [{"a": 1}, {"b": 2}, {"_id": 3}]}, a, b).access, Union)
    assert isinstance(plan({"$or": [{"a": 1}, {"c": 2}]}, a, b).access, CollectionScan)


def test_a_hint_is_followed_by_name_and_by_key() -> None:
    a = index("by_a", ("a", 1))

    assert used(plan({"b": 1}, a, hint=parse_hint(value("by_a")))) == "by_a"
    assert used(plan({"b": 1}, a, hint=parse_hint(value({"a": 1.0})))) == "by_a"
    assert plan({"_id": 1}, hint=parse_hint(value({"$natural": -1}))).access == CollectionScan(-1)


@pytest.mark.parametrize("hint", ["nope", {"a": -1}, {"a": "x"}, ""])
def test_a_hint_that_names_no_index_is_refused(hint: object) -> None:
    with pytest.raises(CommandError) as refused:
        plan({}, index("a_1", ("a", 1)), hint=parse_hint(value(hint)))
    assert refused.value.code == Code.BadValue


def test_a_hint_is_a_name_or_a_document() -> None:
    with pytest.raises(CommandError) as refused:
        parse_hint(value(5))
    assert refused.value.code == Code.FailedToParse
    assert parse_hint(value({})) is None


def test_the_natural_order_is_a_scan_and_admits_no_index() -> None:
    assert plan({"_id": 1}, sort={"$natural": -1}).access == CollectionScan(-1)
    with pytest.raises(CommandError):
        plan({}, sort={"$natural": 1}, hint=Hint(name="_id_"))


def test_values_of_one_path_in_a_disjunction_are_one_condition() -> None:
    chosen = plan({"b": 1, "$or": [{"a": 2}, {"a": None}, {"a": [1]}]}, index("a_1", ("a", 1)))

    assert used(chosen) == "a_1"
    assert parse_filter(raw({"$or": [{"a": 2}, {"a": 1}]})) == parse_filter(raw({"a": {"$in": [2, 1]}}))


@pytest.mark.parametrize(
    "clauses",
    [
        [{"a": 1}, {"a": 1}],
        [{"a": 1}, {"b": 2}],
        [{"a": 1}, {"a": {"$gt": 2}}],
        [{"a": 1}, {"a": Regex("x")}],
        [{"a": 1}, {"a": {"$eq": Regex("x")}}],
        [{"a": 1}, {"a": 2, "b": 3}],
    ],
)
def test_other_disjunctions_stay_what_they_are(clauses: list[dict[str, Any]]) -> None:
    assert isinstance(parse_filter(raw({"$or": clauses})), Or)


def test_many_negations_leave_the_rest_of_the_keys() -> None:
    bounded = usable_bounds(parse_filter(raw({"$nor": [{"a": n} for n in range(1000)]})), index("a_1", ("a", 1)))

    assert len(bounded[0].ranges) == 1001
    assert list(bounded[0].ranges) == sorted(bounded[0].ranges)
