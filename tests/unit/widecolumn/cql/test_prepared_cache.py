"""Prepared statements are kept until a table they name changes."""

from __future__ import annotations

import asyncio

from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from tests.unit.widecolumn.cql.running import Cql

TEXT = "SELECT * FROM t"


def test_a_statement_is_prepared_anew_when_its_table_has_changed() -> None:
    cql, statements = Cql(), PreparedCache()

    def prepared() -> object:
        return asyncio.run(statements.prepare(cql.executor, TEXT, "k"))

    cql.run("CREATE TABLE t (a int PRIMARY KEY)")
    first = prepared()
    assert prepared() is first
    cql.run("CREATE TABLE u (a int PRIMARY KEY)")
    assert prepared() is first
    cql.run("ALTER TABLE t ADD v int")
    second = prepared()
    assert second is not first
    cql.run("DROP TABLE t")
    cql.run("CREATE TABLE t (a int PRIMARY KEY, v int)")
    assert prepared() is not second
    assert cql.rows(TEXT) == []


def test_the_statement_longest_unused_is_given_up() -> None:
    cql, statements = Cql(), PreparedCache(limit=2)
    cql.run("CREATE TABLE t (a int PRIMARY KEY)")

    def prepared(number: int) -> object:
        return asyncio.run(statements.prepare(cql.executor, f"SELECT a AS a{number} FROM t", "k"))

    first, second = prepared(1), prepared(2)
    assert prepared(1) is first
    prepared(3)
    assert prepared(1) is first
    assert prepared(2) is not second
