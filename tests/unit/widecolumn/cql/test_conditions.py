"""Conditional writes: what is applied, what is told where it is not, and what cannot be asked."""

from __future__ import annotations

from typing import Any

import pytest

from docstore.widecolumn.cql.run.results import Rows
from docstore.widecolumn.cql.types.native import INT
from docstore.widecolumn.model.consistency import Level
from tests.unit.widecolumn.cql.running import Cql, shown


@pytest.fixture
def cql() -> Cql:
    made = Cql()
    made.run("CREATE TABLE t (a int, b int, s int STATIC, v int, w text, PRIMARY KEY (a, b))")
    made.run("CREATE TABLE plain (a int PRIMARY KEY, v int)")
    return made


def result(cql: Cql, text: str, *values: bytes | None) -> dict[str, Any]:
    found = cql.run(text, *values)
    assert isinstance(found, Rows)
    (row,) = shown(found)
    return dict(zip([column.name for column in found.columns], row, strict=True))


APPLIED = {"[applied]": True}
NOT_APPLIED = {"[applied]": False}


def test_an_insert_of_a_row_that_is_there(cql: Cql) -> None:
    insert = "INSERT INTO t (a, b, v) VALUES (1, 2, 3) IF NOT EXISTS"
    assert result(cql, insert) == APPLIED
    assert result(cql, insert) == {"[applied]": False, "a": 1, "b": 2, "s": None, "v": 3, "w": None}
    cql.run("DELETE FROM t WHERE a = 1 AND b = 2")
    assert result(cql, insert) == APPLIED
    assert cql.rows("SELECT v FROM t") == [(3,)]


def test_if_exists(cql: Cql) -> None:
    assert result(cql, "UPDATE t SET v = 5 WHERE a = 1 AND b = 2 IF EXISTS") == NOT_APPLIED
    assert cql.rows("SELECT * FROM t") == []
    cql.run("INSERT INTO t (a, b, v) VALUES (1, 2, 3)")
    assert result(cql, "UPDATE t SET v = 5 WHERE a = 1 AND b = 2 IF EXISTS") == APPLIED
    assert cql.rows("SELECT v FROM t") == [(5,)]
    assert result(cql, "DELETE FROM t WHERE a = 1 AND b = 2 IF EXISTS") == APPLIED
    assert result(cql, "DELETE FROM t WHERE a = 1 AND b = 2 IF EXISTS") == NOT_APPLIED
    assert cql.rows("SELECT v FROM t") == []


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ("v = 3", True), ("v = 4", False), ("v != 4", True), ("v != 3", False), ("v < 4", True), ("v <= 2", False),
        ("v > 2", True), ("v >= 4", False), ("v IN (1, 3)", True), ("v IN (1, 2)", False), ("w = null", True),
        ("w != null", False), ("v = null", False), ("v = 3 AND w = null", True), ("v = 3 AND w = 'x'", False),
        ("w < 'x'", False), ("w IN ('x', null)", True),
    ],
)  # fmt: skip
def test_conditions_on_columns(cql: Cql, condition: str, met: bool) -> None:
    cql.run("INSERT INTO t (a, b, v) VALUES (1, 2, 3)")
    found = result(cql, f"UPDATE t SET v = 9 WHERE a = 1 AND b = 2 IF {condition}")
    assert found["[applied]"] is met
    assert cql.rows("SELECT v FROM t") == [(9 if met else 3,)]
    if not met:
        shown_columns = {name: value for name, value in (("v", 3), ("w", None)) if f"{name} " in condition}
        assert found == {"[applied]": False, **shown_columns}


def test_a_row_that_is_not_there_has_nulls(cql: Cql) -> None:
    assert result(cql, "UPDATE plain SET v = 1 WHERE a = 1 IF v = 0") == NOT_APPLIED
    assert result(cql, "UPDATE plain SET v = 1 WHERE a = 1 IF v = null") == APPLIED
    assert result(cql, "DELETE v FROM plain WHERE a = 1 IF v = 1") == APPLIED
    assert cql.rows("SELECT * FROM plain") == []


def test_static_columns(cql: Cql) -> None:
    assert result(cql, "UPDATE t SET s = 1 WHERE a = 1 IF s = null") == APPLIED
    assert result(cql, "UPDATE t SET v = 2 WHERE a = 1 AND b = 1 IF s = 2") == {"[applied]": False, "s": 1}
    assert result(cql, "UPDATE t SET v = 2 WHERE a = 1 AND b = 1 IF s = 1") == APPLIED
    assert result(cql, "UPDATE t SET s = 3 WHERE a = 1 IF EXISTS") == APPLIED
    assert result(cql, "INSERT INTO t (a, s) VALUES (1, 9) IF NOT EXISTS")["s"] == 3
    assert result(cql, "INSERT INTO t (a, s) VALUES (2, 9) IF NOT EXISTS") == APPLIED
    assert cql.rows("SELECT a, s, v FROM t") == [(1, 3, 2), (2, 9, None)]


def test_what_is_written_stands_before_what_was_there(cql: Cql) -> None:
    late = (1 << 62) + 5
    cql.run(f"INSERT INTO plain (a, v) VALUES (1, 1) USING TIMESTAMP {late}")
    assert result(cql, "UPDATE plain SET v = 2 WHERE a = 1 IF v = 1") == APPLIED
    assert cql.rows("SELECT v, writetime(v) FROM plain") == [(2, late + 1)]
    cql.run(f"DELETE FROM plain USING TIMESTAMP {late + 10} WHERE a = 1")
    assert result(cql, "INSERT INTO plain (a, v) VALUES (1, 3) IF NOT EXISTS") == APPLIED
    assert cql.rows("SELECT v FROM plain") == [(3,)]


def test_values_are_bound_in_the_order_of_the_text(cql: Cql) -> None:
    cql.run("INSERT INTO plain (a, v) VALUES (7, 1)")
    five, one, seven = (INT.serialise(number) for number in (5, 1, 7))
    assert result(cql, "UPDATE plain SET v = ? WHERE a = ? IF v = ?", five, seven, one) == APPLIED
    assert cql.rows("SELECT v FROM plain") == [(5,)]


def test_a_row_that_changes_meanwhile_is_looked_at_again(cql: Cql) -> None:
    cql.run("INSERT INTO plain (a, v) VALUES (1, 1)")
    before = cql.executor.apply_if
    disturbed = []

    async def disturbing(writes: Any, seen: Any, level: Level) -> list[str] | None:
        if not disturbed:
            disturbed.append(True)
            await cql.run_inside("UPDATE plain SET v = 2 WHERE a = 1")
        return await before(writes, seen, level)

    cql.executor.apply_if = disturbing  # type: ignore[method-assign]
    assert result(cql, "UPDATE plain SET v = 9 WHERE a = 1 IF v = 1") == {"[applied]": False, "v": 2}
    assert disturbed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("INSERT INTO plain (a) VALUES (1) IF NOT EXISTS USING TIMESTAMP 5",
         "Cannot provide custom timestamp for conditional updates"),
        ("UPDATE plain SET v = 1 WHERE a = 1 IF a = 1", "PRIMARY KEY column 'a' cannot have IF conditions"),
        ("UPDATE plain SET v = 1 WHERE a = 1 IF nope = 1", "Undefined column name nope in table k.plain"),
        ("UPDATE plain SET v = 1 WHERE a IN (1, 2) IF EXISTS",
         "IN on the partition key is not supported with conditional updates"),
        ("UPDATE t SET v = 1 WHERE a = 1 AND b IN (1, 2) IF EXISTS",
         "IN on the clustering key columns is not supported with conditional updates"),
        ("DELETE FROM t WHERE a = 1 IF EXISTS",
         "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to use IF "
         "conditions, but column 'b' is not restricted"),
        ("UPDATE plain SET v = 1 WHERE a = 1 IF v > null", 'Invalid comparison with null for operator ">"'),
        ("BEGIN BATCH INSERT INTO plain (a) VALUES (1) IF NOT EXISTS APPLY BATCH",
         "Conditional updates in a batch are not supported"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(cql: Cql, text: str, why: str) -> None:
    assert cql.refusal(text).message == why


def test_serial_is_for_conditions(cql: Cql) -> None:
    found = cql.refusal("INSERT INTO plain (a) VALUES (1)", level=Level.SERIAL)
    assert found.message == "You must use conditional updates for serializable writes"
