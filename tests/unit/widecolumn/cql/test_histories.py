"""Random statements against a plain model: what SELECT finds, in which order, page by page, in any order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.sharding.partitioners import murmur3_token
from tests.unit.widecolumn.cql.running import Cql

TABLE = """CREATE TABLE t (a int, b int, c int, s int static, v int, w int, PRIMARY KEY (a, b, c))
    WITH CLUSTERING ORDER BY (b ASC, c DESC)"""
NEVER = -1
Key = tuple[int, int, int]
Version = tuple[int, bool, int]
"""(timestamp, whether it is a deletion, value): the greater one stands."""


@dataclass
class Model:
    """Rows as registers of the newest version, and deletions as functions of the key."""

    markers: dict[Key, int] = field(default_factory=dict)
    cells: dict[tuple[Key, str], Version] = field(default_factory=dict)
    statics: dict[int, Version] = field(default_factory=dict)
    deletions: list[tuple[int, int | None, int | None, int, int, int]] = field(default_factory=list)

    def write(self, key: Key, column: str, stamp: int, value: int | None) -> None:
        version = (stamp, value is None, 0 if value is None else value)
        if column == "s":
            self.statics[key[0]] = max(self.statics.get(key[0], version), version)
        else:
            self.cells[key, column] = max(self.cells.get((key, column), version), version)

    def hidden(self, key: Key) -> int:
        stamps = [
            stamp
            for a, b, c, low, high, stamp in self.deletions
            if a == key[0] and (b is None or b == key[1]) and (c is None or c == key[2]) and low <= key[1] < high
        ]
        return max(stamps, default=NEVER)

    def rows(self) -> list[tuple[Any, ...]]:
        """(a, b, c, s, v, w) of all rows in the order of `SELECT *`."""
        found: list[tuple[Any, ...]] = []
        for key in {*self.markers, *(key for key, _ in self.cells)}:
            hidden = self.hidden(key)
            values = [self.live(self.cells.get((key, column)), hidden) for column in ("v", "w")]
            if self.markers.get(key, NEVER) > hidden or any(value is not None for value in values):
                found.append((*key, self.static(key[0]), *values))
        for a in self.statics:
            if self.static(a) is not None and not any(row[0] == a for row in found):
                found.append((a, None, None, self.static(a), None, None))
        return sorted(found, key=lambda row: (token(row[0]), row[1] or 0, -(row[2] or 0)))

    def static(self, a: int) -> int | None:
        whole = [stamp for at, b, _, low, _, stamp in self.deletions if at == a and b is None and low < -50]
        return self.live(self.statics.get(a), max(whole, default=NEVER))

    @staticmethod
    def live(version: Version | None, hidden: int) -> int | None:
        return None if version is None or version[1] or version[0] <= hidden else version[2]


def token(a: int) -> int:
    return murmur3_token(a.to_bytes(4, "big", signed=True))


small = st.integers(0, 2)
stamps = st.integers(1, 5)
values = st.one_of(st.none(), st.integers(0, 3))
keys = st.tuples(small, small, small)
inserts = st.tuples(st.just("insert"), keys, stamps, st.dictionaries(st.sampled_from("vws"), values))
updates = st.tuples(st.just("update"), keys, stamps, st.dictionaries(st.sampled_from("vws"), values, min_size=1))
deletes = st.tuples(st.sampled_from(("row", "prefix", "partition", "range", "cell")), keys, stamps, st.just({}))
statements = st.lists(st.one_of(inserts, updates, inserts, deletes), max_size=12)


def shown(value: int | None) -> str:
    return "null" if value is None else str(value)


def carry_out(cql: Cql, model: Model, statement: tuple[str, Key, int, dict[str, int | None]]) -> None:
    kind, key, stamp, given_values = statement
    a, b, c = key
    using = f"USING TIMESTAMP {stamp}"
    for column, value in given_values.items():
        model.write(key, column, stamp, value)
    if kind == "insert":
        names = ", ".join(("a", "b", "c", *given_values))
        written = ", ".join((str(a), str(b), str(c), *(shown(value) for value in given_values.values())))
        cql.run(f"INSERT INTO t ({names}) VALUES ({written}) {using}")
        model.markers[key] = max(model.markers.get(key, NEVER), stamp)
    elif kind == "update":
        settings = ", ".join(f"{name} = {shown(value)}" for name, value in given_values.items())
        row = "" if set(given_values) == {"s"} else f" AND b = {b} AND c = {c}"
        cql.run(f"UPDATE t {using} SET {settings} WHERE a = {a}{row}")
    elif kind == "cell":
        cql.run(f"DELETE v FROM t {using} WHERE a = {a} AND b = {b} AND c = {c}")
        model.write(key, "v", stamp, None)
    else:
        where, deletion = {
            "row": (f"a = {a} AND b = {b} AND c = {c}", (a, b, c, -9, 9, stamp)),
            "prefix": (f"a = {a} AND b = {b}", (a, b, None, -9, 9, stamp)),
            "partition": (f"a = {a}", (a, None, None, -99, 99, stamp)),
            "range": (f"a = {a} AND b >= {b} AND b < 2", (a, None, None, b, 2, stamp)),
        }[kind]
        cql.run(f"DELETE FROM t {using} WHERE {where}")
        model.deletions.append(deletion)


def table() -> Cql:
    cql = Cql(largest=3)
    cql.run(TABLE)
    return cql


@settings(deadline=None, max_examples=60)
@given(statements, st.randoms(use_true_random=False), st.integers(1, 4))
def test_any_order_of_statements_gives_the_rows_of_the_model(history: Any, rng: Any, size: int) -> None:
    model, cql, shuffled = Model(), table(), table()
    for statement in history:
        carry_out(cql, model, statement)
    again = list(history) + list(history[:2])
    rng.shuffle(again)
    for statement in again:
        carry_out(shuffled, Model(), statement)
    expected = model.rows()
    assert cql.rows("SELECT * FROM t") == expected
    assert shuffled.rows("SELECT * FROM t") == expected
    pages = cql.paged("SELECT * FROM t", size)
    assert [row for page in pages for row in page] == expected
    assert all(len(page) == size for page in pages[:-1])


CONDITIONS = [
    ("", lambda row: True),
    (" AND b = 1", lambda row: row[1] == 1),
    (" AND b = 1 AND c = 1", lambda row: row[1:3] == (1, 1)),
    (" AND b > 0", lambda row: row[1] > 0),
    (" AND b >= 1 AND b < 2", lambda row: row[1] == 1),
    (" AND b = 1 AND c < 2", lambda row: row[1] == 1 and row[2] < 2),
    (" AND b = 1 AND c >= 1", lambda row: row[1] == 1 and row[2] >= 1),
    (" AND b IN (0, 2) AND c IN (2, 1)", lambda row: row[1] in (0, 2) and row[2] in (1, 2)),
    (" AND (b, c) > (0, 1)", lambda row: row[1:3] > (0, 1)),
    (" AND (b, c) >= (0, 1) AND (b, c) < (2, 1)", lambda row: (0, 1) <= row[1:3] < (2, 1)),
    (" AND (b, c) IN ((0, 1), (2, 2))", lambda row: row[1:3] in ((0, 1), (2, 2))),
]


@settings(deadline=None, max_examples=60)
@given(statements, st.sampled_from(CONDITIONS), st.booleans(), st.integers(1, 3))
def test_conditions_order_and_pages_agree_with_the_model(
    history: Any, condition: Any, reverse: bool, size: int
) -> None:
    model, cql = Model(), table()
    for statement in history:
        carry_out(cql, model, statement)
    where, holds = condition
    rows = [row for row in model.rows() if row[0] == 1]
    if where:
        rows = [row for row in rows if row[1] is not None and holds(row)]
    order = " ORDER BY b DESC, c ASC" if reverse else ""
    query = f"SELECT * FROM t WHERE a = 1{where}{order}"
    expected = rows[::-1] if reverse else rows
    assert cql.rows(query) == expected
    assert [row for page in cql.paged(query, size) for row in page] == expected
    assert cql.rows(f"{query} LIMIT {size}") == expected[:size]
    assert cql.rows(f"SELECT count(*) FROM t WHERE a = 1{where}") == [(len(expected),)]


@settings(deadline=None, max_examples=30)
@given(statements, st.integers(1, 3))
def test_partitions_are_told_apart(history: Any, limit: int) -> None:
    model, cql = Model(), table()
    for statement in history:
        carry_out(cql, model, statement)
    rows = model.rows()
    partitions = list(dict.fromkeys(row[0] for row in rows))
    assert [a for a, _ in cql.rows("SELECT DISTINCT a, s FROM t")] == partitions
    few = [row for a in partitions for row in [row for row in rows if row[0] == a][:limit]]
    assert cql.rows(f"SELECT * FROM t PER PARTITION LIMIT {limit}") == few
    for page in (1, 2):
        query = f"SELECT * FROM t PER PARTITION LIMIT {limit}"
        assert [row for part in cql.paged(query, page) for row in part] == few
    among = [row for a in (0, 2) for row in rows if row[0] == a]
    assert cql.rows("SELECT * FROM t WHERE a IN (2, 0, 2)") == among
    merged = sorted(among, key=lambda row: (row[1] if row[1] is not None else -1, -(row[2] or 0)))
    assert cql.rows("SELECT * FROM t WHERE a IN (2, 0) ORDER BY b ASC, c DESC") == merged
    middle = token(1)
    behind = [row for row in rows if token(row[0]) > middle]
    assert cql.rows(f"SELECT * FROM t WHERE token(a) > {middle}") == behind
    up_to = [row for row in rows if token(row[0]) <= middle]
    assert cql.rows(f"SELECT * FROM t WHERE token(a) <= {middle} AND token(a) > {-(1 << 63)}") == up_to
