"""GROUP BY: rows of one group make one, pages end between groups."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.widecolumn.cql.running import Cql


@pytest.fixture
def cql() -> Cql:
    made = Cql()
    made.run("CREATE TABLE t (a int, b int, c int, s int STATIC, v int, PRIMARY KEY (a, b, c))")
    for a in range(3):
        for b in range(3):
            for c in range(4):
                made.run(f"INSERT INTO t (a, b, c, v) VALUES ({a}, {b}, {c}, {100 * a + 10 * b + c})")
    made.run("INSERT INTO t (a, s) VALUES (9, 1)")
    return made


def test_groups_of_partitions_and_of_clustering_columns(cql: Cql) -> None:
    found = cql.rows("SELECT a, count(*), sum(v) FROM t GROUP BY a")
    assert sorted(found) == [(0, 12, 138), (1, 12, 1338), (2, 12, 2538), (9, 1, 0)]
    found = cql.rows("SELECT b, max(v) FROM t WHERE a = 1 GROUP BY a, b")
    assert found == [(0, 103), (1, 113), (2, 123)]
    assert cql.rows("SELECT b, max(v) FROM t WHERE a = 1 GROUP BY b") == found
    assert cql.rows("SELECT b, v FROM t WHERE a = 1 GROUP BY a, b") == [(0, 100), (1, 110), (2, 120)]
    assert cql.rows("SELECT b, v FROM t WHERE a = 1 GROUP BY a, b ORDER BY b DESC") == [(2, 123), (1, 113), (0, 103)]
    assert cql.rows("SELECT c, count(*) FROM t WHERE a = 1 AND b = 2 GROUP BY c") == [(c, 1) for c in range(4)]
    assert cql.rows("SELECT a, b, min(c) FROM t WHERE a IN (0, 1) AND b > 0 GROUP BY a, b LIMIT 3") == [
        (0, 1, 0), (0, 2, 0), (1, 1, 0),
    ]  # fmt: skip
    assert cql.rows("SELECT b, count(*) FROM t WHERE a = 1 AND c > 1 GROUP BY a, b ALLOW FILTERING") == [
        (0, 2), (1, 2), (2, 2),
    ]  # fmt: skip
    assert cql.rows("SELECT count(*) FROM t WHERE a = 77 GROUP BY a") == []


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    "text", ["SELECT a, b, sum(v) FROM t GROUP BY a, b", "SELECT a, count(v) FROM t GROUP BY a LIMIT 3"]
)
def test_pages_hold_whole_groups(cql: Cql, text: str, size: int) -> None:
    pages = cql.paged(text, size)
    assert [row for page in pages for row in page] == cql.rows(text)
    assert all(len(page) <= size for page in pages)


REFUSED = [
    ("SELECT v FROM t GROUP BY v", "Group by is currently only supported on the columns of the PRIMARY KEY, got v"),
    (
        "SELECT c FROM t WHERE a = 1 GROUP BY a, c",
        "Group by currently only support groups of columns following their declared order in the PRIMARY KEY",
    ),
    (
        "SELECT c FROM t GROUP BY b",
        "Group by currently only support groups of columns following their declared order in the PRIMARY KEY",
    ),
    ("SELECT x FROM p GROUP BY x", "Group by is not supported on only a part of the partition key"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_cannot_be_grouped(cql: Cql, text: str, why: Any) -> None:
    cql.run("CREATE TABLE p (x int, y int, PRIMARY KEY ((x, y)))")
    assert cql.refusal(text).message == why
