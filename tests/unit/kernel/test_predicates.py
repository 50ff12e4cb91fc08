"""Which documents a predicate holds for. Every row was checked against a real server (see test_reference)."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import bson
import pytest
from bson.decimal128 import Decimal128

from tests.unit.kernel import samples
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import double

UNDEFINED = b"\x08\0\0\0\x06a\0\0"
SYMBOL = b"\x0f\0\0\0\x0ea\0\3\0\0\0ab\0\0"
NAN = float("nan")

COMPARISONS: list[tuple[str, str, Any, list[Any], list[Any]]] = [
    (
        "a",
        "eq",
        1,
        [{"a": 1}, {"a": 1.0}, {"a": Decimal128("1")}, {"a": [2, 1]}],
        [{"a": 2}, {"a": "1"}, {"a": [[1]]}, {}],
    ),
    (
        "a",
        "gt",
        1,
        [{"a": 2}, {"a": [0, 5]}, {"a": Decimal128("1.1")}],
        [{"a": 1}, {"a": "x"}, {"a": None}, {"a": []}, {}],
    ),
    ("a", "lte", "b", [{"a": "b"}, {"a": ["z", "a"]}], [{"a": 1}, {"a": "c"}, {"a": None}]),
    ("a", "eq", None, [{"a": None}, {}, {"a": [1, None]}, UNDEFINED], [{"a": 0}, {"a": []}, {"a": [1]}]),
    ("a", "gte", None, [{"a": None}, {}, UNDEFINED], [{"a": 0}, {"a": bson.MinKey()}]),
    ("a", "gt", None, [], [{"a": None}, {}, {"a": 0}]),
    ("a.b", "eq", None, [{"a": {}}, {"a": 1}, {}, {"a": [{"b": 1}, {}]}], [{"a": {"b": 1}}, {"a": []}, {"a": [1, 2]}]),
    ("a", "lt", NAN, [], [{"a": 1}, {"a": NAN}]),
    ("a", "lte", NAN, [{"a": NAN}, {"a": Decimal128("NaN")}], [{"a": 1}]),
    ("a", "lt", 5, [{"a": 1}, {"a": float("-inf")}], [{"a": NAN}, {"a": Decimal128("NaN")}]),
    ("a", "eq", [1, 2], [{"a": [1, 2]}, {"a": [[1, 2]]}, {"a": [1.0, 2]}], [{"a": [2, 1]}, {"a": [1]}, {"a": 1}]),
    ("a", "eq", [], [{"a": []}, {"a": [[]]}], [{"a": None}, {"a": [1]}, {}]),
    ("a", "lt", [2], [{"a": [1, 9]}, {"a": []}], [{"a": [2]}, {"a": 1}]),
    ("a", "eq", {"b": 1}, [{"a": {"b": 1}}, {"a": [{"b": 1}]}], [{"a": {"b": 1, "c": 2}}, {"a": {"c": 1}}]),
    ("a", "eq", {"b": 1, "c": 2}, [{"a": {"b": 1, "c": 2}}], [{"a": {"c": 2, "b": 1}}]),
    ("a", "gt", bson.MinKey(), [{"a": 1}, {"a": None}, {}, {"a": bson.MaxKey()}], [{"a": bson.MinKey()}]),
    ("a", "lt", bson.MaxKey(), [{"a": 1}, {}], [{"a": bson.MaxKey()}]),
    ("a", "eq", "ab", [{"a": "ab"}, {"a": ["x", "ab"]}, SYMBOL], [{"a": "ac"}, {"a": "abc"}, {"a": "a"}, {"a": 1}, {}]),
    ("a", "eq", 2**40, [{"a": 2**40}, {"a": 2.0**40}], [{"a": 2**40 + 1}, {"a": 1}, {"a": "x"}]),
    ("a", "eq", b"ab", [{"a": b"ab"}], [{"a": bson.Binary(b"ab", 5)}, {"a": b"ac"}, {"a": "ab"}]),
    ("a", "lt", True, [{"a": False}], [{"a": True}, {"a": 0}]),
    (
        "a.b",
        "eq",
        1,
        [{"a": {"b": 1}}, {"a": [{"b": 2}, {"b": 1}]}, {"a": [{"b": [0, 1]}]}],
        [{"a": [[{"b": 1}]]}, {"a": 1}],
    ),
    ("a.0", "eq", 1, [{"a": [1, 2]}, {"a": {"0": 1}}, {"a": [{"0": 1}]}], [{"a": [2, 1]}, {"a": [[1]]}, {"a": 1}]),
    ("a.0", "eq", [1], [{"a": [[1]]}], [{"a": [1]}]),
    ("a.1.b", "eq", 1, [{"a": [0, {"b": 1}]}], [{"a": [{"b": 1}, 0]}]),
    ("a.0.b", "eq", None, [{"a": [{"c": 1}]}, {}], [{"a": [5]}, {"a": [{"b": 1, "0": {"b": 1}}]}]),
    ("a.00", "eq", 1, [{"a": {"00": 1}}], [{"a": [1]}]),
    ("", "eq", 1, [{"": 1}], [{"a": 1}]),
]


def raw_of(thing: Any) -> bytes:
    return thing if isinstance(thing, bytes) else bson.encode(thing)


@pytest.mark.parametrize(("path", "op", "operand", "holds", "fails"), COMPARISONS)
def test_compare(kernel: Kernel, path: str, op: str, operand: Any, holds: list[Any], fails: list[Any]) -> None:
    predicate = kernel.Compare(path, op, kernel.from_python(operand))
    negated = kernel.Not(predicate)
    for thing in holds:
        assert predicate.matches(raw_of(thing)) is True, thing
        assert negated.matches(raw_of(thing)) is False, thing
    for thing in fails:
        assert predicate.matches(raw_of(thing)) is False, thing


def test_in_is_any_of_the_equalities(kernel: Kernel) -> None:
    operands = [1, "x", [2], None, Decimal128("2.5")]
    values = [kernel.from_python(operand) for operand in operands]
    predicate = kernel.In("a", values)
    either = kernel.Or([kernel.Compare("a", "eq", value) for value in values])
    for thing in (
        {"a": 1.0},
        {"a": ["y", "x"]},
        {"a": [2]},
        {"a": [[2]]},
        {},
        {"a": 2.5},
        {"a": 2},
        {"a": []},
        {"a": NAN},
    ):
        assert predicate.matches(bson.encode(thing)) == either.matches(bson.encode(thing)), thing
    assert predicate.matches(UNDEFINED)
    assert not kernel.In("a", []).matches(bson.encode({"a": 1}))


def test_exists_tells_missing_from_null(kernel: Kernel) -> None:
    there, absent = kernel.Exists("a.b", True), kernel.Exists("a.b", False)
    for thing, exists in (
        ({"a": {"b": None}}, True),
        ({"a": [{"b": 1}, {}]}, True),
        ({"a": {"b": []}}, True),
        ({"a": []}, False),
        ({"a": 1}, False),
        ({}, False),
    ):
        assert there.matches(bson.encode(thing)) is exists, thing
        assert absent.matches(bson.encode(thing)) is not exists, thing


def test_type_sees_arrays_and_their_members(kernel: Kernel) -> None:
    raw = bson.encode({"a": [1, "x"], "b": []})
    assert kernel.Type("a", {0x04}).matches(raw)
    assert kernel.Type("a", {0x10}).matches(raw)
    assert not kernel.Type("a", {0x01}).matches(raw)
    assert kernel.Type("b", {0x04}).matches(raw)
    assert kernel.Type("c", {-1, 0x7F}).matches(bson.encode({"c": bson.MinKey()}))


@pytest.mark.parametrize(
    ("divisor", "remainder", "number", "holds"),
    [
        (3, 1, 4, True),
        (3, 1, 4.9, True),
        (3, -1, -4, True),
        (3, 2, -4, False),
        (-3, 1, 4, True),
        (3, 1, Decimal128("4.9"), True),
        (3, 0, NAN, False),
        (3, 0, float("inf"), False),
        (3, 0, 1e300, False),
        (2, 0, "4", False),
        (2, 0, [1, 4], True),
        (-1, 0, -(2**63), True),
        (-1, 1, 5, False),
        (10, 7, 2**63 - 1, True),
        (-(2**63), -1, -1, True),
        (2**63 - 1, -1, -(2**63), True),
    ],
)
def test_mod_cuts_fractions_off_and_keeps_the_sign(
    kernel: Kernel, divisor: int, remainder: int, number: Any, holds: bool
) -> None:
    assert kernel.Mod("a", divisor, remainder).matches(bson.encode({"a": number})) is holds


def test_size_counts_the_array_itself(kernel: Kernel) -> None:
    assert kernel.Size("a", 2).matches(bson.encode({"a": [1, [2]]}))
    assert not kernel.Size("a", 1).matches(bson.encode({"a": [1, [2]]}))
    assert kernel.Size("a", 0).matches(bson.encode({"a": []}))
    assert not kernel.Size("a", 0).matches(bson.encode({}))
    assert kernel.Size("a.b", 1).matches(bson.encode({"a": [{"b": [1]}]}))


def test_all_needs_every_operand(kernel: Kernel) -> None:
    one, two = kernel.from_python(1), kernel.from_python(2)
    assert kernel.All("a", [one, two]).matches(bson.encode({"a": [2, 3, 1]}))
    assert not kernel.All("a", [one, two]).matches(bson.encode({"a": [2, 3]}))
    assert kernel.All("a", [one]).matches(bson.encode({"a": 1}))
    assert not kernel.All("a", []).matches(bson.encode({"a": []}))


def test_elem_match_on_values_needs_one_element_that_passes_all(kernel: Kernel) -> None:
    between = kernel.And(
        [kernel.Compare("", "gt", kernel.from_python(1)), kernel.Compare("", "lt", kernel.from_python(4))]
    )
    predicate = kernel.ElemMatch("a", between, True)
    assert predicate.matches(bson.encode({"a": [0, 3]}))
    for thing in ({"a": [0, 9]}, {"a": 3}, {"a": [[3]]}, {"a": []}, {}):
        assert not predicate.matches(bson.encode(thing)), thing
    nested = kernel.ElemMatch("a", kernel.ElemMatch("", between, True), True)
    assert nested.matches(bson.encode({"a": [[3]]}))
    absent = kernel.ElemMatch("a", kernel.Exists("", False), True)
    assert not absent.matches(bson.encode({"a": [1]}))


def test_elem_match_on_documents_needs_one_document_that_passes_all(kernel: Kernel) -> None:
    both = kernel.And(
        [kernel.Compare("b", "eq", kernel.from_python(1)), kernel.Compare("c", "eq", kernel.from_python(2))]
    )
    predicate = kernel.ElemMatch("a", both)
    assert predicate.matches(bson.encode({"a": [{"b": 1}, {"b": 1, "c": 2}]}))
    for thing in ({"a": [{"b": 1}, {"c": 2}]}, {"a": {"b": 1, "c": 2}}, {"a": [1]}):
        assert not predicate.matches(bson.encode(thing)), thing
    by_place = kernel.ElemMatch("a", kernel.Compare("1", "eq", kernel.from_python(5)))
    assert by_place.matches(bson.encode({"a": [[4, 5]]}))


def test_regex_sees_strings_and_members(kernel: Kernel) -> None:
    predicate = kernel.Regex("a", lambda text: re.search("^é", text) is not None)
    assert predicate.matches(bson.encode({"a": "été"}))
    assert predicate.matches(bson.encode({"a": [1, "été"]}))
    assert not predicate.matches(bson.encode({"a": "tété"}))
    assert not predicate.matches(bson.encode({"a": bson.Code("été")}))
    assert not predicate.matches(bson.encode({}))


def test_regex_of_a_text_looks_for_it_without_a_search(kernel: Kernel) -> None:
    def fail(_: str) -> bool:
        raise AssertionError("nothing is searched")

    subjects = [
        "ab",
        "abab",
        "xab",
        "ab\n",
        "xab\n",
        "ab\n\n",
        "a",
        "",
        "\n",
        "aab",
        "x" * 200 + "ab",
        "ab" + "x" * 200,
    ]

    def found(at_start: bool, at_end: bool) -> list[str]:
        predicate = kernel.Regex("a", fail, None, b"ab", at_start, at_end)
        return [subject for subject in subjects if predicate.matches(bson.encode({"a": subject}))]

    assert found(False, False) == [subject for subject in subjects if "ab" in subject]
    assert found(True, False) == [subject for subject in subjects if subject.startswith("ab")]
    assert found(False, True) == [subject for subject in subjects if subject.endswith(("ab", "ab\n"))]
    assert found(True, True) == ["ab", "ab\n"]


def test_regex_knows_itself(kernel: Kernel) -> None:
    predicate = kernel.Regex("a", lambda _: False, b"x\0i\0")
    assert predicate.matches(bson.encode({"a": bson.Regex("x", "i")}))
    assert predicate.matches(bson.encode({"a": [1, bson.Regex("x", "i")]}))
    for thing in ({"a": bson.Regex("x")}, {"a": bson.Regex("y", "i")}, {"a": "x"}, {}):
        assert not predicate.matches(bson.encode(thing)), thing
    assert not kernel.Regex("a", lambda _: True).matches(bson.encode({"a": bson.Regex("x")}))


def test_call_gets_the_whole_document_and_errors_come_through(kernel: Kernel) -> None:
    raw = bson.encode({"a": [{"b": 1}]})
    seen: list[bytes] = []
    assert kernel.Call(lambda document: seen.append(document) is None).matches(raw)
    assert seen == [raw]
    inner = kernel.ElemMatch("a", kernel.Call(lambda document: document == bson.encode({"b": 1})))
    assert inner.matches(raw)
    with pytest.raises(ZeroDivisionError):
        kernel.And([kernel.Call(lambda document: 1 / 0 > 1)]).matches(raw)


def test_logic(kernel: Kernel) -> None:
    yes, no = kernel.Always(True), kernel.Always(False)
    raw = kernel.EMPTY_DOCUMENT
    assert kernel.And([yes, yes]).matches(raw)
    assert not kernel.And([yes, no]).matches(raw)
    assert kernel.And([]).matches(raw)
    assert kernel.Or([no, yes]).matches(raw)
    assert not kernel.Or([]).matches(raw)
    assert kernel.Nor([no, no]).matches(raw)
    assert not kernel.Nor([no, yes]).matches(raw)


def test_ranges_are_half_open_and_own_no_arrays(kernel: Kernel) -> None:
    pattern = kernel.KeyPattern([("a", 1)])

    def key(number: float) -> bytes:
        encoded: bytes = pattern.encode([double(number)])
        return encoded

    predicate = kernel.Ranges(pattern, [(key(10), key(20)), (key(0), key(5))])
    held = [n for n in range(-1, 22) if predicate.matches(bson.encode({"a": n}))]
    assert held == [*range(5), *range(10, 20)]
    assert not predicate.matches(bson.encode({"a": [1]}))
    assert not predicate.matches(bson.encode({}))
    assert not kernel.Ranges(pattern, []).matches(bson.encode({"a": 1}))


@pytest.mark.parametrize("op", ["eq", "lt", "gte"])
def test_an_array_passes_when_a_member_does(kernel: Kernel, op: str) -> None:
    rnd = Random(op)
    few = [each for each in (samples.value(rnd, 1) for _ in range(150)) if each[0] not in (0x04, 0x7F, 0xFF)]
    alone = [kernel.document_from([("a", *each)]) for each in few]
    for _ in range(400):
        compares = kernel.Compare("a", op, rnd.choice(few))
        places = rnd.choices(range(len(few)), k=rnd.randrange(14))
        whole = kernel.document_from([("a", 0x04, kernel.array_from([few[place] for place in places]))])
        assert compares.matches(whole) == any(compares.matches(alone[place]) for place in places)
