"""DESCRIBE: what is there, and the statements that make it anew."""

from __future__ import annotations

import pytest

from tests.unit.widecolumn.cql.running import Cql


@pytest.fixture
def cql() -> Cql:
    made = Cql()
    made.run("CREATE TABLE plain (a int PRIMARY KEY, v text) WITH comment = 'it''s' AND gc_grace_seconds = 5")
    made.run(
        'CREATE TABLE big (a int, "B" text, c timestamp, d int, s int STATIC, "select" blob, '
        'PRIMARY KEY ((a, "B"), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) '
        "AND compaction = {'class': 'LeveledCompactionStrategy'}"
    )
    return made


def test_lists(cql: Cql) -> None:
    assert cql.rows("DESCRIBE KEYSPACES") == [("k", "keyspace", "k")]
    assert cql.rows("DESC TABLES") == [("k", "table", "big"), ("k", "table", "plain")]
    assert cql.rows("DESCRIBE TYPES;") == []
    assert [column.name for column in cql.found("DESCRIBE FUNCTIONS").columns] == ["keyspace_name", "type", "name"]
    assert len(cql.rows("DESCRIBE CLUSTER")) == 1


def test_what_is_described_can_be_made_again(cql: Cql) -> None:
    described = cql.rows("DESCRIBE KEYSPACE")
    assert [row[:3] for row in described] == [("k", "keyspace", "k"), ("k", "table", "big"), ("k", "table", "plain")]
    assert cql.rows("DESCRIBE k") == cql.rows("DESCRIBE KEYSPACE k") == cql.rows("DESCRIBE FULL SCHEMA") == described
    cql.run("DROP KEYSPACE k")
    for row in described:
        cql.run(row[3])
    assert cql.rows("DESC SCHEMA") == described
    (table,) = cql.rows("DESCRIBE TABLE plain")
    assert table[3] == (
        "CREATE TABLE k.plain (\n    a int,\n    v text,\n    PRIMARY KEY (a)\n) WITH comment = 'it''s'\n"
        "    AND default_time_to_live = 0\n    AND gc_grace_seconds = 5;"
    )
    assert cql.rows("DESCRIBE plain") == cql.rows("DESCRIBE COLUMNFAMILY k.plain") == [table]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("DESCRIBE KEYSPACE nope", "'nope' not found in keyspaces"),
        ("DESCRIBE TABLE nope", "Table 'nope' not found in keyspace 'k'"),
        ("DESCRIBE nope", "'nope' not found in keyspace 'k'"),
        ("DESCRIBE TYPE nope", "'nope' not found in keyspace 'k'"),
        ("DESCRIBE TABLE nope.t", "'nope' not found in keyspaces"),
    ],
)
def test_what_is_not_there(cql: Cql, text: str, why: str) -> None:
    assert cql.refusal(text).message == why


def test_without_a_keyspace(cql: Cql) -> None:
    cql.keyspace = None
    assert cql.rows("DESCRIBE TABLES") == [("k", "table", "big"), ("k", "table", "plain")]
    assert cql.refusal("DESCRIBE nope").message == "'nope' not found in keyspaces"
    assert cql.refusal("DESCRIBE KEYSPACE").message == "No keyspace specified and no current keyspace"
