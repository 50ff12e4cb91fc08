"""Specifications of collations are judged as the real server judges them, and folded values compare by their rules."""

from __future__ import annotations

from typing import Any

import bson
import icu
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


@pytest.mark.parametrize("locale", ["en", "de", "cs", "ru", "en_US_POSIX", "es", "ja", "zh", "pt"])
@pytest.mark.parametrize("strength", [1, 2, 3])
@given(texts=st.lists(st.text(st.characters(max_codepoint=0x17F), max_size=150), max_size=3), rng=st.randoms())
def test_keys_by_the_table_are_those_of_the_library(locale: str, strength: int, texts: list[str], rng: Any) -> None:
    rules = collation(locale=locale, strength=strength)
    library = icu.Collator.createInstance(icu.Locale(locale))
    library.setStrength(strength - 1)
    printable = "".join(map(chr, range(32, 127)))
    texts += ["".join(rng.choices(printable, k=rng.randrange(200))), rng.choice("aAW ") * rng.randrange(250), printable]
    for text in texts:
        key = library.getSortKey(text)
        assert rules.fold(from_python(text))[1] == len(key).to_bytes(4, "little") + key
