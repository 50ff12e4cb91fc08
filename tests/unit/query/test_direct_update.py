"""Updates that the kernel applies by itself give what the general way gives, or leave it to that."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64

from docstore.bson import array_from, document_from
from docstore.bson.walk import ARRAY, INT32, OBJECT
from docstore.errors import CommandError
from docstore.query.filter.parse import parse_filter
from docstore.query.update.direct import DirectUpdate, direct_update
from docstore.query.update.parse import parse_update
from tests.unit.kernel import kernels
from tests.unit.kernel.samples import document, value

NAMES = ["a", "b", "c", "ab", "é", "z9", "_id", "0", "a.b", "$x", ""]
USUAL = 6
NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), Int64(0), Int64(5), Int64(2**63 - 1), Int64(-(2**63)), Int64(2**62),
           0.0, -0.0, 1.5, 1e300, float("inf"), float("nan"), Decimal128("1.5"), "text", None]  # fmt: skip


def some_number(rng: Random) -> tuple[int, bytes]:
    raw = bson.encode({"": rng.choice(NUMBERS)})
    return raw[4], raw[6:-1]


def some_value(rng: Random) -> tuple[int, bytes]:
    made: tuple[int, bytes] = value(rng, 1) if rng.random() < 0.4 else some_number(rng)
    return made


def some_array(rng: Random) -> tuple[int, bytes]:
    members = array_from([some_number(rng) for _ in range(rng.randrange(4))])
    # Not numbered as arrays are, now and then.
    return ARRAY, members if rng.random() < 0.9 else members.replace(b"0\0", b"7\0")


def some_fields(rng: Random, most: int) -> list[tuple[str, int, bytes]]:
    names = NAMES[:USUAL] if rng.random() < 0.9 else NAMES
    return [
        (rng.choice(names), *(some_array(rng) if rng.random() < 0.3 else some_value(rng)))
        for _ in range(rng.randint(0, most))
    ]


OPERATORS = ["$set", "$inc", "$unset", "$push", "$addToSet", "$pull", "$setOnInsert", "$min", "$max"]


def some_operand(rng: Random, operator: str, value: tuple[int, bytes]) -> tuple[int, bytes]:
    """The value, or for operators on arrays now and then several."""
    if operator not in ("$push", "$addToSet") or rng.random() < 0.4:
        return value
    each = (ARRAY, array_from([some_value(rng) for _ in range(rng.randrange(3))]))
    clauses: list[tuple[str, int, bytes]] = [("$each", *(each if rng.random() < 0.95 else value))]
    if rng.random() < 0.4:
        kept = rng.choice([0, 1, 2, -1, -2, 5, -5])
        clauses.append(("$slice", INT32, kept.to_bytes(4, "little", signed=True)))
    if rng.random() < 0.1:
        clauses.append(rng.choice([("$position", INT32, bytes(4)), ("$sort", INT32, b"\1\0\0\0"), ("x", *value)]))
    if rng.random() < 0.1:
        rng.shuffle(clauses)
    return OBJECT, document_from(clauses)


def some_specification(rng: Random) -> bytes:
    operators = OPERATORS if rng.random() < 0.9 else [*OPERATORS, "$mul", "$pop"]
    chosen = []
    for _ in range(rng.randint(1, 2)):
        operator = rng.choice(operators)
        fields = [(name, *some_operand(rng, operator, value)) for name, *value in some_fields(rng, 3)]
        chosen.append((operator, OBJECT, document_from(fields)))
    return document_from(chosen)


def outcome(update: Any, raw: bytes) -> Any:
    try:
        return update.apply(raw, matched_index=None, now=1, timestamp=1)
    except CommandError as error:
        return error.code, error.message


def test_simple_updates_give_what_the_general_way_gives() -> None:
    rng = Random(17)
    decided = 0
    for _ in range(6000):
        specification = some_specification(rng)
        raw = document_from(some_fields(rng, 5)) if rng.random() < 0.7 else document(rng, 2)
        direct = direct_update(specification)
        if direct is None:
            continue
        changed = direct.change(raw)
        decided += changed is not None
        general = outcome(parse_update(specification), raw)
        assert outcome(direct, raw) == general, (specification, raw)
        assert changed is None or changed == general
        assert changed is raw or changed != raw
    assert decided > 1000, "hardly any update was simple"


def test_what_the_general_way_refuses_is_never_simple() -> None:
    rng = Random(18)
    refused = 0
    for _ in range(4000):
        specification = some_specification(rng)
        try:
            parse_update(specification)
        except CommandError:
            refused += 1
            assert direct_update(specification) is None, specification
    assert refused > 100


@pytest.mark.parametrize(("stored", "added"), [(2**63 - 1, 1), (2**62, 2**62), (-(2**62) - 1, -(2**62))])
def test_a_long_that_overflows_is_refused_as_ever(stored: int, added: int) -> None:
    direct = direct_update(bson.encode({"$inc": {"n": Int64(added)}}))
    assert isinstance(direct, DirectUpdate)
    with pytest.raises(CommandError, match="Failed to apply"):
        direct.apply(bson.encode({"n": Int64(stored)}), matched_index=None, now=1, timestamp=1)


FILTERS: tuple[dict[str, Any], ...] = (
    {"_id": 5}, {"_id": {"$eq": "x"}}, {"_id": {"$in": [4]}}, {"a": 1}, {"a": 1, "b": 2}, {"a.b": 1}, {"": 1},
    {"a": []}, {"a": {"$gt": 1}}, {"_id": None}, {"_id": [1]}, {"$or": [{"a": 3}]}, {},
)  # fmt: skip


def test_an_upsert_makes_what_the_general_way_makes() -> None:
    rng = Random(20)
    made = 0
    for _ in range(4000):
        specification, wanted = some_specification(rng), bson.encode(rng.choice(FILTERS))
        direct = direct_update(specification)
        if direct is None:
            continue
        given: list[Any] = []
        for each in (direct, parse_update(specification)):
            try:
                given.append(each.upsert(parse_filter(wanted), (7, bytes(12)), now=1, timestamp=1))
            except CommandError as error:
                given.append((error.code, error.message))
        assert given[0] == given[1], (specification, wanted)
        made += isinstance(given[0], bytes)
    assert made > 500


@pytest.mark.parametrize("kernel", [kernels.installed(), kernels.interpreted()], ids=["installed", "interpreted"])
def test_both_kernels_change_fields_alike(kernel: kernels.Kernel) -> None:
    rng = Random(19)
    for _ in range(1000):
        specification = some_specification(rng)
        raw = document_from(some_fields(rng, 5))
        mine, theirs = direct_update(specification), kernel.compute.field_updates.field_changes(specification)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert theirs.apply(raw) == mine.change(raw)
