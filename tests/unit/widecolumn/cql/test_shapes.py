"""Statements that differ in their literals only are prepared once, and nothing else is different for it."""

from __future__ import annotations

import asyncio

import pytest

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.run.prepare import Prepared
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.cql.run.shapes import shape_of
from docstore.widecolumn.cql.statements import Constant, ConstantKind
from tests.unit.widecolumn.cql.running import Cql

TABLE = "CREATE TABLE t (a int, b text, v double, u uuid, x blob, PRIMARY KEY (a, b))"


def test_a_shape_has_markers_where_literals_stood() -> None:
    uuid = "123e4567-e89b-12d3-a456-426614174000"
    text = f"INSERT INTO t1 (a1, b) VALUES (-12, 'it''s 5', 1.5, {uuid}, 0xCAFE) -- 7 '"
    assert shape_of(text) == (
        "INSERT INTO t1 (a1, b) VALUES (?, ?, ?, ?, ?) -- 7 '",
        [
            Constant(ConstantKind.INTEGER, "-12"),
            Constant(ConstantKind.STRING, "it's 5"),
            Constant(ConstantKind.FLOAT, "1.5"),
            Constant(ConstantKind.UUID, uuid),
            Constant(ConstantKind.HEX, "0xCAFE"),
        ],
    )


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t2 (a int PRIMARY KEY) WITH comment = 'x'",
        "SELECT * FROM t",
        "SELECT * FROM t WHERE a = ? AND b = 5",
        "SELECT * FROM t WHERE a = :name AND b = 5",
        "SELECT * FROM t WHERE a = 1e5",
        "SELECT * FROM t WHERE a = 1h30m",
        "SELECT * FROM t WHERE a = $$x$$",
        "SELECT * FROM t WHERE a = {'k': 5}",
        "SELECT * FROM t WHERE a = 'x",
    ],
)
def test_what_has_no_shape(text: str) -> None:
    found = shape_of(text)
    assert found is None or "'" in found[0]


class Kept:
    """What is prepared on a table with columns of several types."""

    def __init__(self) -> None:
        self.cql, self.statements = Cql(), PreparedCache()
        self.cql.run(TABLE)

    def prepare(self, text: str) -> Prepared:
        return asyncio.run(self.statements.prepare(self.cql.executor, text, "k"))

    def refusal(self, text: str) -> str:
        with pytest.raises(CqlError) as caught:
            self.prepare(text)
        return caught.value.message


def test_one_plan_serves_all_literals() -> None:
    kept = Kept()
    plans = [kept.prepare(f"INSERT INTO t (a, b, v) VALUES ({n}, 'b{n}', {n}.5)").plan for n in range(3)]
    assert plans[0] is plans[1] is plans[2]
    cql = kept.cql
    for number in (1, -2):
        cql.run(f"INSERT INTO t (a, b, v) VALUES ({number}, 'it''s', {number}.5)")
        cql.run(f"UPDATE t USING TTL 100 SET x = 0x0{abs(number)} WHERE a = {number} AND b = 'it''s'")
    assert cql.rows("SELECT a, b, v, x FROM t WHERE a = -2") == [(-2, "it's", -2.5, b"\2")]
    assert len(cql.rows("SELECT a FROM t WHERE a IN (1, -2) LIMIT 1")) == 1
    assert sorted(cql.rows("SELECT a, v FROM t WHERE a IN (1, -2, 1) LIMIT 5")) == [(-2, -2.5), (1, 1.5)]


def test_a_literal_that_is_refused_is_refused_as_it_would_be_alone() -> None:
    kept = Kept()
    kept.prepare("INSERT INTO t (a, b) VALUES (1, 'x')")
    assert kept.refusal("INSERT INTO t (a, b) VALUES ('1', 'x')") == (
        'Invalid STRING constant (1) for "a" of type int'
    )  # fmt: skip
    assert kept.refusal("INSERT INTO t (a, b) VALUES (1, 2)") == 'Invalid INTEGER constant (2) for "b" of type text'
    kept.prepare("SELECT * FROM t LIMIT 1")
    assert kept.refusal("SELECT * FROM t LIMIT 'x'").startswith("line 1:22 no viable alternative")
    assert kept.refusal("SELECT * FROM t WHERE a IN 5").startswith("line 1:27 no viable alternative")


def test_statements_whose_shape_is_no_statement_are_prepared_by_themselves() -> None:
    kept = Kept()
    for number in (1, 1, 2):
        assert kept.prepare(f"SELECT count({number}) FROM t").columns[0].name == "count"
    assert kept.cql.rows("SELECT count(1) FROM t") == [(0,)]


def test_the_client_has_no_markers_to_bind() -> None:
    kept = Kept()
    assert kept.prepare("SELECT * FROM t WHERE a = 1").variables == ()
    refusal = kept.cql.refusal("SELECT * FROM t WHERE a = 1", b"\0\0\0\1")
    assert refusal.message == "Invalid amount of bind variables"


def test_pages_go_on_for_the_same_text_only() -> None:
    cql = Cql()
    cql.run(TABLE)
    for number in range(5):
        cql.run(f"INSERT INTO t (a, b) VALUES (1, 'b{number}')")
    assert cql.paged("SELECT b FROM t WHERE a = 1", 2) == [[("b0",), ("b1",)], [("b2",), ("b3",)], [("b4",)]]
    state = cql.found("SELECT b FROM t WHERE a = 1", page_size=2).paging_state
    assert "paging state" in cql.refusal("SELECT b FROM t WHERE a = 2", page_size=2, paging_state=state).message


def test_a_shape_is_prepared_anew_when_its_table_has_changed() -> None:
    kept = Kept()
    first = kept.prepare("SELECT * FROM t WHERE a = 1")
    kept.cql.run("ALTER TABLE t ADD w int")
    second = kept.prepare("SELECT * FROM t WHERE a = 2")
    assert len(second.columns) == len(first.columns) + 1
