"""Columns of types with parameters: one value each, frozen."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import pytest

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.types.collections import MAX_COLLECTION_BYTES, ListType, MapType, SetType, TupleType
from docstore.widecolumn.cql.types.names import stored_type
from docstore.widecolumn.cql.types.native import DECIMAL, INT, TEXT, CqlType
from docstore.widecolumn.model.errors import MarshalError
from tests.unit.widecolumn.cql.running import Cql

DEEP = "frozen<map<int, frozen<map<text, frozen<list<frozen<set<int>>>>>>>>"

WRITTEN: list[tuple[str, str, str, Any]] = [
    ("frozen<list<int>>", "frozen<list<int>>", "[3, 1, 3]", [3, 1, 3]),
    ("frozen<list<int>>", "frozen<list<int>>", "[]", []),
    ("frozen<set<text>>", "frozen<set<text>>", "{'b', 'a', 'b'}", ["a", "b"]),
    ("frozen<set<decimal>>", "frozen<set<decimal>>", "{10, 9.5, 10.0}", [Decimal("9.5"), Decimal(10)]),
    ("frozen<map<text, int>>", "frozen<map<text, int>>", "{'b': 1, 'a': 2}", {"a": 2, "b": 1}),
    ("frozen<map<text, int>>", "frozen<map<text, int>>", "{}", {}),
    ("tuple<int, text>", "frozen<tuple<int, text>>", "(1, null)", (1, None)),
    ("frozen<tuple<int, text>>", "frozen<tuple<int, text>>", "(1)", (1, None)),
    ("frozen<map<int, map<text, list<set<int>>>>>", DEEP, "{1: {'x': [{2, 1}, {}]}}", {1: {"x": [[1, 2], []]}}),
]


@pytest.mark.parametrize(("written", "named", "literal", "value"), WRITTEN)
def test_a_literal_is_read_as_it_was_written(written: str, named: str, literal: str, value: Any) -> None:
    cql = Cql()
    cql.run(f"CREATE TABLE t (a int PRIMARY KEY, v {written})")
    [(_, _, _, statement)] = cql.rows("DESCRIBE TABLE t")
    assert f" v {named}," in statement
    assert stored_type(named, "k").name == named
    cql.run(f"INSERT INTO t (a, v) VALUES (1, {literal})")
    assert cql.rows("SELECT v FROM t") == [(value,)]
    assert cql.rows(f"SELECT a FROM t WHERE v = {literal} ALLOW FILTERING") == [(1,)]
    assert cql.rows(f"UPDATE t SET v = null WHERE a = 1 IF v = {literal}") == [(True,)]
    assert cql.rows("SELECT v FROM t") == [(None,)]


REFUSED = [
    ("frozen<int>", r"frozen<> is only allowed on collections, tuples, and user-defined types \(got int\)"),
    ("frozen<set<duration>>", "Durations are not allowed inside sets: set<duration>"),
    ("frozen<map<duration, int>>", "Durations are not allowed as map keys: map<duration, int>"),
    ("frozen<list<counter>>", "Counters are not allowed inside collections"),
    ("frozen<list<nope>>", "Unknown type k.nope"),
    ("frozen<map<int>>", "Unknown type k.map"),
]


@pytest.mark.parametrize(("written", "message"), REFUSED)
def test_what_is_no_frozen_type(written: str, message: str) -> None:
    with pytest.raises(CqlError, match=message):
        Cql().run(f"CREATE TABLE t (a int PRIMARY KEY, v {written})")


MISFITS = [
    ("[null]", "null is not supported inside collections"),
    ("['x']", r'Invalid STRING constant \(x\) for "value\(v\)" of type int'),
    ("{1}", 'Invalid set literal for "v" of type frozen<list<int>>'),
    ("5", r'Invalid INTEGER constant \(5\) for "v" of type frozen<list<int>>'),
]


@pytest.mark.parametrize(("literal", "message"), MISFITS)
def test_what_does_not_fit(literal: str, message: str) -> None:
    cql = Cql()
    cql.run("CREATE TABLE t (a int PRIMARY KEY, v frozen<list<int>>, w tuple<int>)")
    with pytest.raises(CqlError, match=message):
        cql.run(f"INSERT INTO t (a, v) VALUES (1, {literal})")
    with pytest.raises(CqlError, match=r"too many elements\. Type frozen<tuple<int>> expects 1 but got 2"):
        cql.run("INSERT INTO t (a, w) VALUES (1, (1, 2))")


def test_bound_sets_and_maps_are_put_in_order() -> None:
    """Clients send them as they have them."""
    parts = [struct.pack(">i", 4) + INT.serialise(number) for number in (3, -1, 3)]
    sent = struct.pack(">i", 3) + b"".join(parts)
    kind = SetType(INT)
    assert kind.canonical(sent) == kind.serialise([-1, 3])
    nested = ListType(MapType(INT, kind))
    pairs = struct.pack(">i", 2) + parts[0] + struct.pack(">i", len(sent)) + sent + parts[1] + struct.pack(">ii", 4, 0)
    assert nested.parse(nested.canonical(struct.pack(">ii", 1, len(pairs)) + pairs)) == [{-1: [], 3: [-1, 3]}]
    long = struct.pack(">i", 1) + struct.pack(">i", MAX_COLLECTION_BYTES) + bytes(MAX_COLLECTION_BYTES)
    for broken in (struct.pack(">i", -1), sent[:-1], long):
        with pytest.raises(MarshalError):
            kind.canonical(broken)


ORDERS: list[tuple[CqlType, list[Any]]] = [
    (DECIMAL, [Decimal("-2"), Decimal("-1.5"), Decimal("0.10"), Decimal("9"), Decimal("1E+1")]),
    (ListType(INT), [[], [-1], [1], [1, 0], [2]]),
    (MapType(TEXT, INT), [{}, {"a": 1}, {"a": 1, "b": 0}, {"a": 2}, {"b": 0}]),
    (TupleType((INT, TEXT)), [(None, "x"), (1, None), (1, "a"), (2, None)]),
]


@pytest.mark.parametrize(("kind", "values"), ORDERS, ids=[kind.name for kind, _ in ORDERS])
def test_values_are_compared_as_what_they_are(kind: CqlType, values: list[Any]) -> None:
    written = list(map(kind.serialise, values))
    for at, first in enumerate(written):
        for other, second in enumerate(written):
            order = kind.order(first, second)
            assert (order > 0) - (order < 0) == (at > other) - (at < other)


def test_conditions_on_decimals_go_by_their_numbers() -> None:
    """Their bytes begin with the scale."""
    cql = Cql()
    cql.run("CREATE TABLE t (a int PRIMARY KEY, d decimal, p duration)")
    cql.run("INSERT INTO t (a, d, p) VALUES (1, 1.50, 1d)")
    for condition, is_met in (("> 2", False), ("< 10", True), ("= 1.5", True), ("!= 1.500", False), (">= 1.5", True)):
        assert cql.rows(f"UPDATE t SET d = 1.50 WHERE a = 1 IF d {condition}")[0][0] is is_met
    assert cql.rows("SELECT a FROM t WHERE d = 1.5 ALLOW FILTERING") == [(1,)]
    assert cql.rows("SELECT a FROM t WHERE d > 1 AND d < 1E+1 ALLOW FILTERING") == [(1,)]
    with pytest.raises(CqlError, match=r"Slice conditions \( > \) are not supported on duration columns"):
        cql.run("UPDATE t SET d = 1 WHERE a = 1 IF p > 1d")
