from __future__ import annotations

import bson
import pytest
from bson.decimal128 import Decimal128

from docstore.errors import Code, CommandError
from docstore.query.sort import UNSORTED, Sort, parse_sort, parse_sort_fields
from tests.unit.query.raw import raw


def test_a_sort_is_a_list_of_paths_with_directions() -> None:
    assert parse_sort(raw({"a": 1, "b.c": -1.0, "d": Decimal128("1")})).fields == (("a", 1), ("b.c", -1), ("d", 1))
    assert parse_sort(raw({})) == UNSORTED
    assert not UNSORTED


def test_the_natural_order_has_a_direction() -> None:
    assert parse_sort(raw({"$natural": -1})) == Sort(natural=-1)
    assert parse_sort(raw({"$natural": "x"})) == Sort(natural=1)


def test_fractions_are_cut_off() -> None:
    assert parse_sort(raw({"a": 1.5, "b": -1.9})).fields == (("a", 1), ("b", -1))


def test_a_reversed_sort_turns_every_direction() -> None:
    assert Sort((("a", 1), ("b", -1))).reversed() == Sort((("a", -1), ("b", 1)))


def test_the_pattern_of_a_sort_orders_documents() -> None:
    key = parse_sort(raw({"a": -1})).pattern().sort_key
    documents = [bson.encode({"a": value}) for value in (1, [0, 9], "x", None)]

    assert sorted(documents, key=key) == [documents[2], documents[1], documents[0], documents[3]]


@pytest.mark.parametrize(
    ("specification", "code"),
    [
        ({"a": 0}, 15975),
        ({"a": 2}, 15975),
        ({"a": "x"}, 15974),
        ({"a": None}, 15974),
        ({"": 1}, 40352),
        ({"a.": 1}, 40353),
        ({"a..b": 1}, 15998),
        ({"a.$b": 1}, 16410),
        ({"a": {"x": 1}}, 17312),
        ({"a": {"$meta": "textScore"}}, 40218),
        ({"a": {"$meta": "foo"}}, 31138),
        ({f"f{number}": 1 for number in range(33)}, 13103),
    ],
)
def test_refusals(specification: dict[str, object], code: int) -> None:
    with pytest.raises(CommandError) as refused:
        parse_sort_fields(raw(specification))
    assert refused.value.code == code


def test_the_natural_order_stands_alone() -> None:
    with pytest.raises(CommandError) as refused:
        parse_sort(raw({"a": 1, "$natural": 1}))
    assert refused.value.code == Code.BadValue
