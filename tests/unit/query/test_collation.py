"""Specifications of collations are judged as the real server judges them, and folded values compare by their rules."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.bson import from_python
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.value.collation import Collation, holds_strings, parse_collation


def collation(**fields: Any) -> Collation:
    found = parse_collation(bson.encode(fields))
    assert found is not None
    return found


def order(rules: Collation, *texts: str) -> list[str]:
    return sorted(texts, key=lambda text: encode_key(rules.fold(from_python(text))))


def test_a_full_specification_is_shown() -> None:
    assert bson.decode(collation(locale="fr_CA").raw) == {
        "locale": "fr_CA",
        "caseLevel": False,
        "caseFirst": "off",
        "strength": 3,
        "numericOrdering": False,
        "alternate": "non-ignorable",
        "maxVariable": "punct",
        "normalization": False,
        "backwards": True,
        "version": "57.1",
    }
    assert parse_collation(bson.encode({"locale": "simple", "strength": 1})) is None
    assert collation(locale="en", strength=2.5) == collation(locale="en", strength=2)


@pytest.mark.parametrize(
    ("specification", "code"),
    [
        ({}, 40414),
        ({"locale": 5}, 14),
        ({"locale": ""}, 2),
        ({"locale": "xx"}, 2),
        ({"locale": "en-US"}, 2),
        ({"locale": "root"}, 2),
        ({"locale": "de@collation=nope"}, 2),
        ({"locale": "en", "strength": 0}, 2),
        ({"locale": "en", "strength": 6}, 51024),
        ({"locale": "en", "strength": "2"}, 14),
        ({"locale": "en", "caseLevel": 1}, 14),
        ({"locale": "en", "caseFirst": "x"}, 2),
        ({"locale": "en", "maxVariable": "currency"}, 2),
        ({"locale": "en", "version": "1"}, 161),
        ({"locale": "en", "foo": 1}, 40415),
        ({"locale": "en", "caseFirst": "upper", "strength": 1}, 2),
        ({"locale": "fr_CA", "strength": 1}, 2),
    ],
)
def test_what_no_collation_can_be_is_refused(specification: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as refused:
        parse_collation(bson.encode(specification))
    assert refused.value.code == code


def test_strings_are_ordered_by_the_rules_of_the_language() -> None:
    assert order(collation(locale="en"), "b", "A", "a", "B") == ["a", "A", "b", "B"]
    assert order(collation(locale="sv"), "z", "ö", "o") == ["o", "z", "ö"]
    assert order(collation(locale="de"), "z", "ö", "o") == ["o", "ö", "z"]
    assert order(collation(locale="en", numericOrdering=True), "a10", "a9") == ["a9", "a10"]


def test_strings_are_folded_at_any_depth_and_nothing_else_is() -> None:
    rules = collation(locale="en", strength=1)
    upper, lower = from_python({"A": ["X", {"y": "Ö"}], "n": 1}), from_python({"A": ["x", {"y": "o"}], "n": 1})
    assert rules.fold(upper) == rules.fold(lower) != upper
    assert rules.fold(from_python({"a": "x"})) != rules.fold(from_python({"A": "x"}))
    assert rules.fold(from_python(5)) == from_python(5)
    assert holds_strings(upper)
    assert not holds_strings(from_python({"a": [1, None]}))
