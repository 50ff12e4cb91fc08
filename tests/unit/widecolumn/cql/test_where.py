"""Every condition of a WHERE clause counts: random clauses against a model, and those that once were dropped."""

from __future__ import annotations

import os
from random import SystemRandom

import pytest

from tests.unit.widecolumn.cql.running import Cql
from tests.unit.widecolumn.cql.where_statements import check

MAX_SEED = 1 << 32


@pytest.fixture
def cql() -> Cql:
    """Rows (0, c1, c2, c3) with v = 100 c1 + 10 c2 + c3."""
    cql = Cql()
    cql.run(
        "CREATE TABLE t (p int, c1 int, c2 int, c3 int, s int static, v int, PRIMARY KEY (p, c1, c2, c3)) "
        "WITH CLUSTERING ORDER BY (c1 ASC, c2 DESC, c3 ASC)"
    )
    for c1 in range(3):
        for c2 in range(4):
            for c3 in range(2):
                value = 100 * c1 + 10 * c2 + c3
                cql.run(f"INSERT INTO t (p, c1, c2, c3, v) VALUES (0, {c1}, {c2}, {c3}, {value})")
    return cql


def values(cql: Cql, where: str) -> list[int]:
    return [row[0] for row in cql.rows(f"SELECT v FROM t WHERE {where}")]


def test_random_clauses_agree_with_the_model() -> None:
    seed = int(os.environ.get("DOCSTORE_RANDOM_SEED") or SystemRandom().randrange(MAX_SEED))
    count = int(os.environ.get("DOCSTORE_RANDOM_CASES") or 240)
    print(f"DOCSTORE_RANDOM_SEED={seed}")
    outcome = check(seed, count)
    accepted, refused = sum(outcome.accepted.values()), sum(outcome.refused.values())
    print(f"{accepted} statements accepted {dict(outcome.accepted)}, {refused} refused {dict(outcome.refused)}")
    assert not outcome.wrong, f"DOCSTORE_RANDOM_SEED={seed}: {outcome.wrong[0]}"
    assert accepted > count // 5


def test_a_column_behind_tuples_in_a_list_restricts_a_deletion(cql: Cql) -> None:
    cql.run("DELETE FROM t WHERE p = 0 AND (c1) IN ((0), (2)) AND c2 = 3")
    assert set(values(cql, "p = 0")) == {
        100 * c1 + 10 * c2 + c3 for c1 in range(3) for c2 in range(4) for c3 in range(2) if c1 == 1 or c2 != 3
    }


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("(c1) IN ((0), (2)) AND c2 = 3", [30, 31, 230, 231]),
        ("(c1) IN ((0), (2)) AND c2 IN (1, 3) AND c3 = 0", [30, 10, 230, 210]),
        ("(c1, c2) IN ((0, 1), (2, 2)) AND c3 = 1", [11, 221]),
        ("(c1) IN ((1)) AND (c2, c3) > (2, 0)", [130, 131, 121]),
        ("c1 = 1 AND (c2) IN ((2), (3)) AND c3 > 0", [131, 121]),
        ("(c1) > (1) AND c3 = 1 AND v > 215 ALLOW FILTERING", [231, 221]),
        ("(c2, c3) > (2, 0) ALLOW FILTERING", [30, 31, 21, 130, 131, 121, 230, 231, 221]),
        ("(c2, c3) IN ((1, 1)) ALLOW FILTERING", [11, 111, 211]),
        ("(c1, c2) < (1, 1) AND (c1) >= (1)", [100, 101]),
    ],
)
def test_all_conditions_restrict_a_select(cql: Cql, where: str, expected: list[int]) -> None:
    assert values(cql, f"p = 0 AND {where}") == expected


@pytest.mark.parametrize(
    "where",
    ["(c1) IN ((0), (2)) AND c2 = 3 AND c3 = 0", "(c1, c2) IN ((0, 3), (2, 3)) AND (c3) = (0)"],
)
def test_all_conditions_restrict_an_update(cql: Cql, where: str) -> None:
    cql.run(f"UPDATE t SET v = 7 WHERE p = 0 AND {where}")
    assert [row[:3] for row in cql.rows("SELECT c1, c2, c3, v FROM t WHERE v = 7 ALLOW FILTERING")] == [
        (0, 3, 0),
        (2, 3, 0),
    ]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("(c1) > (0) AND c2 = 3", 'preceding column "c1" is restricted by a non-EQ relation'),
        ("(c1) IN ((0)) AND c1 = 1", "Mixing single column relations and multi column relations"),
        ("(c1, c2) IN ((0, 1)) AND (c1) IN ((0))", "c1, c2 cannot be restricted by more than one relation"),
        ("(c1) > (0) AND (c1, c2) > (0, 1)", "More than one restriction was found for the start bound on c1"),
        ("(c1, c2) > (0, 1) AND (c2) < (3)", "two inequalities not starting with the same column"),
        ("(c1) IN ((0)) AND c3 = 1", 'preceding column "c2" is not restricted'),
        ("(c2) IN ((0))", 'preceding column "c1" is not restricted'),
    ],
)
@pytest.mark.parametrize("statement", ["SELECT v FROM t", "DELETE FROM t"])
def test_what_no_range_serves_is_refused(cql: Cql, statement: str, where: str, text: str) -> None:
    assert text in str(cql.refusal(f"{statement} WHERE p = 0 AND {where}"))


@pytest.mark.parametrize("statement", ["UPDATE t SET v = 1", "DELETE FROM t"])
def test_a_conditional_write_of_tuples_in_a_list_is_refused(cql: Cql, statement: str) -> None:
    where = "p = 0 AND (c1) IN ((0), (2)) AND c2 = 3 AND c3 = 0"
    text = "IN on the clustering key columns is not supported with conditional updates"
    assert text in str(cql.refusal(f"{statement} WHERE {where} IF v = 30"))


def test_distinct_takes_no_conditions_on_rows(cql: Cql) -> None:
    text = "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."
    assert text in str(cql.refusal("SELECT DISTINCT p FROM t WHERE v = 1 ALLOW FILTERING"))


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("UPDATE t SET s = 1 WHERE p = 0 AND c1 = 0 AND c2 = 0 AND c3 = 0", "UPDATE"),
        ("UPDATE t SET s = 1 WHERE p = 0 AND c1 = 0 AND c2 = 0 AND c3 = 0 IF s = 0", "UPDATE"),
        ("DELETE s FROM t WHERE p = 0 AND c1 = 0 AND c2 = 0 AND c3 = 0", "DELETE"),
    ],
)
def test_static_columns_are_not_written_through_a_row(cql: Cql, statement: str, kind: str) -> None:
    assert str(cql.refusal(statement)).endswith(
        f"Invalid restrictions on clustering columns since the {kind} statement modifies only static columns"
    )


def test_a_condition_on_a_row_needs_the_row(cql: Cql) -> None:
    refusal = cql.refusal("UPDATE t SET s = 1 WHERE p = 0 IF v = null")
    assert "Some clustering keys are missing: c1, c2, c3" in str(refusal)
    found = cql.found("UPDATE t SET s = 1 WHERE p = 0 AND c1 = 1 AND c2 = 1 AND c3 = 1 IF v = 111")
    assert found.rows[0][0] == b"\1"


@pytest.mark.parametrize(
    ("selected", "rows"),
    [
        ("*", [(5, None, None, None, 1, None)]),
        ("s", [(1,)]),
        ("p, v", [(5, None)]),
        ("v", []),
        ("c1, v", []),
        ("writetime(v)", []),
    ],
)
def test_static_values_alone_make_no_row_of_regular_columns(
    cql: Cql, selected: str, rows: list[tuple[object, ...]]
) -> None:
    cql.run("INSERT INTO t (p, s) VALUES (5, 1)")
    assert cql.rows(f"SELECT {selected} FROM t WHERE p = 5") == rows
