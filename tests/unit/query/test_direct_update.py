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
from docstore.kernel.compute.operators import field_changes
from docstore.query.filter.parse import parse_filter
from docstore.query.update.direct import DirectUpdate, direct_update
from docstore.query.update.parse import parse_update
from docstore.query.update.update import OperatorUpdate
from docstore.query.update.upsert import plain_seed, seed_document
from tests.unit.kernel import kernels
from tests.unit.kernel.samples import document, value

NAMES = ["a", "b", "c", "ab", "é", "z9", "_id", "0", "$x", ""]
USUAL = 6
PATHS = ["a", "b", "a.b", "a.c", "a.b.c", "b.0", "b.1", "b.1.a", "b.$", "b.$.a", "c.10", "c.9", "c.x.y.z", "ab.$.b.c",
         "b.0.c", "a._id", "a.b.1", "a.b.$.c", "b.$[]", "b.$[].a", "b.$[x].a", "b.$[x]", "ab.$[y].a.b"]  # fmt: skip
FILTERS_OF_ELEMENTS: list[dict[str, Any]] = [
    {"x": 1}, {"x.a": 1}, {"x.a": 0, "x.b": 1.5}, {"y.a": "text"}, {"y": 0}, {"x": {"$gt": 1}}, {"x.a.b": 1},
    {"X.a": 1}, {"x": None}, {"x.a": 1, "y.a": 1}, {}, {"x.": 1}, {"x.$a": 1},
]  # fmt: skip
ODD_PATHS = ["a.", ".a", "a..b", "b.$.$", "b.$[z].a", "a.$b", "_id.a", "_id", "0.a", "$.a", "b.01", "b.$.c.$",
             ".".join("a" * 20), "b.1000000", "c.2000", "é.é"]  # fmt: skip
NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), Int64(0), Int64(5), Int64(2**63 - 1), Int64(-(2**63)), Int64(2**62),
           0.0, -0.0, 1.5, 1e300, float("inf"), float("nan"), Decimal128("1.5"), "text", None]  # fmt: skip


Fields = list[tuple[str, int, bytes]]


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


def some_fields(rng: Random, most: int, usual: list[str] = NAMES[:USUAL], odd: list[str] = NAMES) -> Fields:
    names = usual if rng.random() < 0.9 else odd
    return [
        (rng.choice(names), *(some_array(rng) if rng.random() < 0.3 else some_value(rng)))
        for _ in range(rng.randint(0, most))
    ]


def some_nested(rng: Random, depth: int = 3) -> tuple[int, bytes]:
    """What the paths lead into, mostly."""
    chance = rng.random()
    if not depth or chance < 0.2:
        return some_array(rng) if rng.random() < 0.3 else some_value(rng)
    if chance < 0.6:
        return OBJECT, document_from(some_parts(rng, depth))
    first = rng.random() > 0.95
    members = [some_nested(rng, depth - 1) for _ in range(rng.randrange(12 if rng.random() < 0.2 else 4))]
    # Not numbered as arrays are, now and then.
    return ARRAY, document_from([(str(place), *member) for place, member in enumerate(members, first)])


def some_elements(rng: Random) -> tuple[int, bytes]:
    """An array of documents, mostly, some of which the array filters choose."""
    members = [document_from([("a", *some_number(rng)), ("b", *some_value(rng))]) for _ in range(rng.randint(1, 5))]
    return ARRAY, array_from([(OBJECT, raw) if rng.random() < 0.9 else some_value(rng) for raw in members])


def some_parts(rng: Random, depth: int = 4) -> Fields:
    names = ["a", "b", "c", "ab"] if rng.random() < 0.9 else ["a", "b", "$", "0", "1", "b"]
    return [(rng.choice(names), *some_nested(rng, depth - 1)) for _ in range(rng.randint(0, 4))]


OPERATORS = ["$set", "$inc", "$unset", "$push", "$addToSet", "$pull", "$setOnInsert", "$min", "$max", "$mul", "$pop",
             "$currentDate"]  # fmt: skip
ENDS = [(INT32, b"\1\0\0\0"), (INT32, b"\xff\xff\xff\xff"), (1, bson.encode({"": -1.0})[6:-1]), (INT32, bytes(4))]
KINDS_OF_DATES: list[dict[str, Any]] = [{"$type": "date"}, {"$type": "timestamp"}, {"x": 1}]
DATES = [(8, b"\1"), (8, b"\0"), *((OBJECT, bson.encode(each)) for each in KINDS_OF_DATES)]


def some_operand(rng: Random, operator: str, value: tuple[int, bytes]) -> tuple[int, bytes]:
    """The value, or what the operator takes; for operators on arrays now and then several values."""
    if operator in ("$pop", "$currentDate") and rng.random() < 0.95:
        return rng.choice(ENDS if operator == "$pop" else DATES)
    if operator == "$pull" and rng.random() < 0.5:
        names = ["a", "b", "c"] if rng.random() < 0.9 else ["a", "$gt", "a.b"]
        return OBJECT, document_from([(rng.choice(names), *some_number(rng)) for _ in range(rng.randint(1, 2))])
    if operator not in ("$push", "$addToSet") or rng.random() < 0.4:
        return value
    each = (ARRAY, array_from([some_value(rng) for _ in range(rng.randrange(3))]))
    clauses: list[tuple[str, int, bytes]] = [("$each", *(each if rng.random() < 0.95 else value))]
    if rng.random() < 0.4:
        kept = rng.choice([0, 1, 2, -1, -2, 5, -5])
        clauses.append(("$slice", INT32, kept.to_bytes(4, "little", signed=True)))
    if rng.random() < 0.3:
        place = rng.choice([0, 1, 2, -1, -2, 5, -5])
        clauses.append(("$position", INT32, place.to_bytes(4, "little", signed=True)))
    if rng.random() < 0.1:
        clauses.append(rng.choice([("$sort", INT32, b"\1\0\0\0"), ("x", *value)]))
    if rng.random() < 0.1:
        rng.shuffle(clauses)
    return OBJECT, document_from(clauses)


def some_specification(rng: Random, usual: list[str] = NAMES[:USUAL], odd: list[str] = NAMES) -> bytes:
    operators = OPERATORS if rng.random() < 0.9 else [*OPERATORS, "$bit", "$rename"]
    chosen = []
    for _ in range(rng.randint(1, 2)):
        operator = rng.choice(operators)
        fields = [(name, *some_operand(rng, operator, value)) for name, *value in some_fields(rng, 3, usual, odd)]
        chosen.append((operator, OBJECT, document_from(fields)))
    return document_from(chosen)


def some_array_filters(rng: Random, specification: bytes) -> tuple[bytes, ...]:
    """Mostly those that the paths want."""
    names = "".join(name for name in "xy" if f"$[{name}]".encode() in specification)
    if rng.random() < 0.1:
        names = rng.choice(["", "x", "y", "xy", "xx", "X"])
    given = [each for each in FILTERS_OF_ELEMENTS if rng.random() < 0.9 or len(each) != 1]
    chosen = [[each for each in given if all(path.startswith(name) for path in each)] for name in names]
    return tuple(bson.encode(rng.choice(each)) for each in chosen if each)


def general_update(specification: bytes, array_filters: tuple[bytes, ...]) -> OperatorUpdate | None:
    """None where it is refused."""
    try:
        found = parse_update(specification, array_filters)
    except CommandError:
        return None
    return found if isinstance(found, OperatorUpdate) else None


def outcome(update: Any, raw: bytes, position: str | None = None) -> Any:
    try:
        return update.apply(raw, matched_index=position, now=1, timestamp=1)
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
        changed = direct.change(raw, 1)
        decided += changed is not None
        general = outcome(parse_update(specification), raw)
        assert outcome(direct, raw) == general, (specification, raw)
        assert changed is None or changed == general
        assert changed is raw or changed != raw
    assert decided > 1000, "hardly any update was simple"


def test_updates_of_paths_give_what_the_general_way_gives() -> None:
    rng = Random(21)
    decided = chosen = 0
    for _ in range(30000):
        specification = some_specification(rng, PATHS, ODD_PATHS)
        array_filters = some_array_filters(rng, specification)
        raw = document_from([("b", *some_elements(rng))] if array_filters else some_parts(rng))
        direct = direct_update(specification, array_filters)
        if direct is None:
            continue
        position = rng.choice([None, "0", "1", "2"])
        general = general_update(specification, array_filters)
        assert general is not None, (specification, array_filters)
        assert outcome(direct, raw, position) == outcome(general, raw, position), (specification, raw, position)
        if not direct.needs_position:
            changed = direct.change(raw, 1)
            decided += changed is not None
            chosen += changed is not None and bool(array_filters)
            assert changed is raw or changed != raw
        else:
            assert general.needs_position
            inserts = b"$setOnInsert" in specification
            assert inserts or direct.changed_through(["b.x"]) == general.changed_through(["b.x"])
        assert direct.needs_position == general.needs_position
        # What is for inserted documents alone changes none.
        assert direct.changed == general.changed or b"$setOnInsert" in specification
        assert not direct.paths or direct.paths == general.paths, specification
        assert direct.paths or not any(isinstance(below, dict) or below for below in general.paths.values())
    assert decided > 1000, "hardly any update was simple"
    assert chosen > 100, "hardly any update chose elements"


@pytest.mark.parametrize("names", [(NAMES[:USUAL], NAMES), (PATHS, ODD_PATHS)], ids=["fields", "paths"])
def test_what_the_general_way_refuses_is_never_simple(names: tuple[list[str], list[str]]) -> None:
    rng = Random(18)
    refused = 0
    for _ in range(4000):
        specification = some_specification(rng, *names)
        array_filters = some_array_filters(rng, specification)
        if general_update(specification, array_filters) is None:
            refused += 1
            assert direct_update(specification, array_filters) is None, (specification, array_filters)
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


@pytest.mark.parametrize("names", [(NAMES[:USUAL], NAMES), (PATHS, ODD_PATHS)], ids=["fields", "paths"])
def test_an_upsert_makes_what_the_general_way_makes(names: tuple[list[str], list[str]]) -> None:
    rng = Random(20)
    made = 0
    for _ in range(4000):
        specification, wanted = some_specification(rng, *names), bson.encode(rng.choice(FILTERS))
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
    assert made > 300


@pytest.mark.parametrize("kernel", [kernels.installed(), kernels.interpreted()], ids=["installed", "interpreted"])
def test_both_kernels_change_fields_alike(kernel: kernels.Kernel) -> None:
    rng = Random(19)
    for _ in range(2000):
        plain = rng.random() < 0.4
        specification = some_specification(rng) if plain else some_specification(rng, PATHS, ODD_PATHS)
        raw = document_from(some_fields(rng, 5) if plain else some_parts(rng))
        array_filters = some_array_filters(rng, specification)
        mine = field_changes(specification, array_filters)
        theirs = kernel.compute.operators.field_changes(specification, array_filters)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert theirs.apply(raw, 1, 7) == mine.apply(raw, 1, 7)
            assert (theirs.names, theirs.paths, theirs.compares) == (mine.names, mine.paths, mine.compares)


def test_a_plain_filter_describes_the_document_that_its_tree_describes() -> None:
    rng = Random(22)
    plain = 0
    for _ in range(3000):
        filter_ = document_from(some_fields(rng, 4, ["a", "b", "Z", "_id", "é"]))
        seed = plain_seed(filter_)
        if seed is not None:
            plain += 1
            assert seed == seed_document(parse_filter(filter_)), filter_
    assert plain > 100


@pytest.mark.parametrize(
    ("count", "update", "decided"),
    [
        (200, {"$set": {"a.$[].y": 1}}, True),
        (20_000, {"$set": {"a.$[].y": 1}}, False),
        (20_000, {"$set": {"a.5.x": 2}}, True),
        (20_000, {"$push": {"a": 1}}, True),
        (20_000, {"$pop": {"a": 1}}, True),
        (200_000, {"$pop": {"a": 1}}, False),
        (5_000, {"$addToSet": {"a": {"$each": [{"x": place} for place in range(20)]}}}, False),
        (200_000, {"$set": {"a.5.x": 2}}, False),
    ],
)
def test_long_arrays_are_left_to_the_way_that_pauses(count: int, update: dict[str, Any], decided: bool) -> None:
    direct = direct_update(bson.encode(update))
    assert direct is not None
    assert (direct.change(bson.encode({"a": [{"x": 1}] * count}), 1) is not None) is decided


def _change_of_a_list(rng: Random) -> dict[str, Any]:
    def one() -> Any:
        return rng.choice([rng.randrange(30), float(rng.randrange(30)), None, "text", {"x": rng.randrange(3)}, [1]])

    operator = rng.choice(["$push", "$addToSet", "$pull", "$pop"])
    if operator == "$pop":
        return {operator: {"a": rng.choice([1, -1])}}
    if operator == "$pull":
        return {operator: {"a": rng.choice([rng.randrange(30), "text", {"x": rng.randrange(3)}])}}
    clauses: dict[str, Any] = {"$each": [one() for _ in range(rng.choice([0, 1, 3, 12]))]}
    if operator == "$push" and rng.random() < 0.7:
        clauses["$slice"] = rng.randrange(-60, 60)
    if operator == "$push" and rng.random() < 0.5:
        clauses["$position"] = rng.randrange(-60, 60)
    return {operator: {"a": clauses}}


def test_lists_of_any_length_are_changed_as_the_general_way_changes_them() -> None:
    rng = Random(31)
    decided = 0
    for _ in range(3_000):
        members = [value(rng, 1) if rng.random() < 0.2 else some_number(rng) for _ in range(rng.randrange(50))]
        raw = document_from([("_id", INT32, bytes(4)), ("a", ARRAY, array_from(members)), ("b", INT32, bytes(4))])
        change = _change_of_a_list(rng)
        specification = bson.encode(change)
        direct = direct_update(specification)
        if direct is None or direct.change(raw, 1) is None:
            continue
        decided += 1
        assert outcome(direct, raw) == outcome(parse_update(specification), raw), (change, raw)
    assert decided > 1_500
