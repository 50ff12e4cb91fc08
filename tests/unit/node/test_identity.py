"""Filters for one `_id`, told without parsing."""

from __future__ import annotations

from random import Random

from docstore.bson import document_from
from docstore.errors import CommandError
from docstore.node.write.identity import identity_filter, identity_of
from docstore.query.filter.parse import parse_filter
from docstore.query.filter.tree import Filter
from tests.unit.kernel.samples import value

NAMES = ["_id", "_id", "_i", "_idx", "a", "$and"]


def parsed(raw: bytes) -> Filter | None:
    try:
        return parse_filter(raw)
    except CommandError:
        return None


def test_a_filter_for_an_identity_is_what_parsing_gives() -> None:
    rng = Random(3)
    told = 0
    for _ in range(2000):
        fields = [
            (rng.choice(["_id", "_id", "_i", "_idx", "a", "$and"]), *value(rng, 1)) for _ in range(rng.randint(0, 2))
        ]
        raw = document_from(fields)
        tree = identity_filter(raw)
        general = parsed(raw)
        if tree is None:
            assert general is None or identity_of(general) is None
        else:
            told += 1
            assert tree == general
            assert identity_of(tree) == fields[0][1:]
    assert told > 100
