"""The first tier of CQL, statement by statement: what is accepted, and the exact text of every refusal.

The table is the published one of gyms by location.
"""

from __future__ import annotations

import pytest

from docstore.widecolumn.cql.errors import ALREADY_EXISTS, CONFIGURATION, INVALID, SYNTAX
from docstore.widecolumn.cql.plan.select import NEEDS_FILTERING
from docstore.widecolumn.cql.run.results import Done, SchemaChanged
from tests.unit.widecolumn.cql.running import Cql

GYMS = """CREATE TABLE gyms (country_code text, state_province text, city text, opening_date timestamp, gym_name text,
    v text, PRIMARY KEY ((country_code, state_province, city), opening_date, gym_name))"""
CITY = "country_code = 'USA' AND state_province = 'VA' AND city = 'Arlington'"
DATES = ("2015-01-01", "2015-02-01", "2015-02-01", "2015-03-01")
NAMES = ("a", "b", "c", "a")


@pytest.fixture(scope="module")
def gyms() -> Cql:
    """Four gyms in Arlington and one elsewhere; nothing of it is written again."""
    cql = Cql()
    cql.run(GYMS)
    for date, name in zip(DATES, NAMES, strict=True):
        cql.run(
            "INSERT INTO gyms (country_code, state_province, city, opening_date, gym_name, v) "
            f"VALUES ('USA', 'VA', 'Arlington', '{date}', '{name}', '{date[6]}{name}')"
        )
    cql.run(
        "INSERT INTO gyms (country_code, state_province, city, opening_date, gym_name, v) "
        "VALUES ('USA', 'NY', 'Buffalo', '2014-01-01', 'z', '0z')"
    )
    return cql


ACCEPTED = [
    (CITY, ["1a", "2b", "2c", "3a"]),
    (f"{CITY} AND opening_date = '2015-02-01'", ["2b", "2c"]),
    (f"{CITY} AND opening_date >= '2015-02-01'", ["2b", "2c", "3a"]),
    (f"{CITY} AND opening_date < '2015-02-01'", ["1a"]),
    (f"{CITY} AND opening_date > '2015-01-01' AND opening_date <= '2015-02-01'", ["2b", "2c"]),
    (f"{CITY} AND opening_date = '2015-02-01' AND gym_name = 'c'", ["2c"]),
    (f"{CITY} AND opening_date = '2015-02-01' AND gym_name > 'b'", ["2c"]),
    (f"{CITY} AND opening_date = '2015-02-01' ALLOW FILTERING", ["2b", "2c"]),
    ("opening_date = '2015-01-01' ALLOW FILTERING", ["1a"]),
    ("v = '0z' ALLOW FILTERING", ["0z"]),
    (f"{CITY} ORDER BY opening_date DESC", ["3a", "2c", "2b", "1a"]),
    (f"{CITY} ORDER BY opening_date DESC, gym_name DESC", ["3a", "2c", "2b", "1a"]),
    (f"{CITY} ORDER BY opening_date ASC, gym_name ASC", ["1a", "2b", "2c", "3a"]),
    (f"{CITY} AND opening_date = '2015-02-01' ORDER BY gym_name DESC", ["2c", "2b"]),
    (f"{CITY} ORDER BY opening_date DESC LIMIT 2", ["3a", "2c"]),
    (f"{CITY} AND opening_date IN ('2015-03-01', '2015-01-01')", ["1a", "3a"]),
    (f"{CITY} AND (opening_date, gym_name) > ('2015-02-01', 'b')", ["2c", "3a"]),
    ("country_code = 'USA' AND state_province IN ('VA', 'NY', 'NY') AND city IN ('Buffalo', 'Arlington')",
     ["0z", "1a", "2b", "2c", "3a"]),
]  # fmt: skip


@pytest.mark.parametrize(("where", "values"), ACCEPTED)
def test_what_keys_serve_is_accepted(gyms: Cql, where: str, values: list[str]) -> None:
    assert [value for (value,) in gyms.rows(f"SELECT v FROM gyms WHERE {where}")] == values


def test_without_conditions_partitions_come_in_the_order_of_tokens(gyms: Cql) -> None:
    found = gyms.rows("SELECT token(country_code, state_province, city), v FROM gyms")
    assert [value for _, value in found] == ["1a", "2b", "2c", "3a", "0z"]
    assert [token for token, _ in found] == sorted(token for token, _ in found)
    assert found[0][0] == -8549199751018699477


GAP = 'PRIMARY KEY column "gym_name" cannot be restricted as preceding column "opening_date" is not restricted'
BEHIND_RANGE = (
    'Clustering column "gym_name" cannot be restricted '
    '(preceding column "opening_date" is restricted by a non-EQ relation)'
)
DECLARED_ORDER = (
    "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
)
REFUSED = [
    ("SELECT * FROM gyms WHERE country_code = 'USA' AND state_province = 'VA'", NEEDS_FILTERING),
    (f"SELECT * FROM gyms WHERE {CITY} AND gym_name = 'a'", GAP),
    ("SELECT * FROM gyms WHERE gym_name = 'a'", GAP),
    (f"SELECT * FROM gyms WHERE {CITY} AND opening_date > '2015-01-01' AND gym_name = 'a'", BEHIND_RANGE),
    ("SELECT * FROM gyms WHERE opening_date = '2015-01-01'", NEEDS_FILTERING),
    ("SELECT * FROM gyms WHERE v = 'x'", NEEDS_FILTERING),
    (f"SELECT * FROM gyms WHERE {CITY} AND v = 'x'", NEEDS_FILTERING),
    ("SELECT * FROM gyms WHERE country_code > 'A'", NEEDS_FILTERING),
    (f"SELECT * FROM gyms WHERE {CITY} ORDER BY opening_date DESC, gym_name ASC", "Unsupported order by relation"),
    (f"SELECT * FROM gyms WHERE {CITY} ORDER BY gym_name", DECLARED_ORDER),
    (
        f"SELECT * FROM gyms WHERE {CITY} ORDER BY city",
        "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got city",
    ),
    (
        f"SELECT * FROM gyms WHERE {CITY} ORDER BY v",
        "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got v",
    ),
    (
        "SELECT * FROM gyms ORDER BY opening_date",
        "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
    ),
    (f"SELECT * FROM gyms WHERE {CITY} LIMIT 0", "LIMIT must be strictly positive"),
    ("SELECT * FROM gyms WHERE nope = 1", "Undefined column name nope in table k.gyms"),
    ("SELECT nope FROM gyms", "Undefined column name nope in table k.gyms"),
    (
        "SELECT writetime(city) FROM gyms",
        "Cannot use selection function writetime on PRIMARY KEY part city",
    ),
    ("SELECT ttl(gym_name) FROM gyms", "Cannot use selection function ttl on PRIMARY KEY part gym_name"),
    ("SELECT * FROM nope", "table nope does not exist"),
    ("USE nope", "Keyspace 'nope' does not exist"),
    (
        "SELECT * FROM gyms WHERE token(city, country_code, state_province) > 1",
        "The token function arguments must be in the partition key order: country_code,state_province,city",
    ),
    (
        f"SELECT * FROM gyms WHERE {CITY} AND city = 'x'",
        "city cannot be restricted by more than one relation if it includes an Equal",
    ),
    ("SELECT * FROM gyms PER PARTITION LIMIT 0", "LIMIT must be strictly positive"),
    ("SELECT count(*) FROM gyms PER PARTITION LIMIT 1", "PER PARTITION LIMIT is not allowed with aggregate queries."),
    (
        "SELECT DISTINCT country_code, state_province, city, gym_name FROM gyms",
        "SELECT DISTINCT queries must only request partition key columns and/or static columns (not gym_name)",
    ),
    (
        "INSERT INTO gyms (country_code, state_province, opening_date, gym_name) VALUES ('a', 'b', 0, 'd')",
        "Some partition key parts are missing: city",
    ),
    (
        "INSERT INTO gyms (country_code, state_province, city, gym_name) VALUES ('a', 'b', 'c', 'd')",
        "Some clustering keys are missing: opening_date",
    ),
    ("INSERT INTO gyms (city, nope) VALUES ('a', 1)", "Undefined column name nope in table k.gyms"),
    ("INSERT INTO gyms (city, v) VALUES ('a')", "Unmatched column names/values"),
    ("INSERT INTO gyms (city, city) VALUES ('a', 'b')", "The column names contains duplicates"),
    (
        "INSERT INTO gyms (country_code, state_province, city, opening_date, gym_name) VALUES ('a', null, 'c', 0, 'd')",
        "Invalid null value in condition for column state_province",
    ),
    (
        "INSERT INTO gyms (country_code, state_province, city, opening_date, gym_name) VALUES ('a', 'b', 'c', 0, null)",
        "Invalid null value in condition for column gym_name",
    ),
    (
        f"UPDATE gyms SET city = 'x' WHERE {CITY} AND opening_date = 0 AND gym_name = 'a'",
        "PRIMARY KEY part city found in SET part",
    ),
    ("UPDATE gyms SET v = 'x' WHERE country_code = 'a'", "Some partition key parts are missing: state_province, city"),
    (f"UPDATE gyms SET v = 'x' WHERE {CITY} AND gym_name = 'a'", "Some clustering keys are missing: opening_date"),
    (
        f"UPDATE gyms SET v = 'x' WHERE {CITY} AND opening_date = 0 AND gym_name = 'a' AND v = 'y'",
        "Non PRIMARY KEY columns found in where clause: v ",
    ),
    (
        "UPDATE gyms SET v = 'x' WHERE token(country_code, state_province, city) = 1",
        "The token function cannot be used in WHERE clauses for UPDATE statements",
    ),
    (
        f"DELETE v FROM gyms WHERE {CITY} AND opening_date > 0",
        "Range deletions are not supported for specific columns",
    ),
    (f"DELETE FROM gyms WHERE {CITY} AND gym_name = 'a'", GAP),
    (
        f"UPDATE gyms USING TTL -1 SET v = 'x' WHERE {CITY} AND opening_date = 0 AND gym_name = 'a'",
        "A TTL must be greater or equal to 0, but was -1",
    ),
    (
        f"UPDATE gyms USING TTL 630720001 SET v = 'x' WHERE {CITY} AND opening_date = 0 AND gym_name = 'a'",
        "ttl is too large. requested (630720001) maximum (630720000)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "text"), REFUSED, ids=[statement[:60] for statement, _ in REFUSED])
def test_refusals_have_the_known_texts(gyms: Cql, statement: str, text: str) -> None:
    refusal = gyms.refusal(statement)
    assert (refusal.cql_code, refusal.message) == (INVALID, text)


def test_what_is_no_cql_is_a_syntax_error(gyms: Cql) -> None:
    refusal = gyms.refusal("SELEC * FROM gyms")
    assert refusal.cql_code == SYNTAX
    assert refusal.message.startswith("line 1:0 ")
    assert gyms.refusal("SELECT *\nFROM gyms WHERE").message.startswith("line 2:15 ")


def test_names_need_a_keyspace() -> None:
    cql = Cql()
    cql.keyspace = None
    refusal = cql.refusal("SELECT * FROM t")
    assert refusal.message == (
        "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
    )
    assert cql.refusal("SELECT * FROM k.t").message == "table t does not exist"


def test_keyspaces_are_made_once() -> None:
    cql = Cql()
    options = "replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}"
    assert cql.run(f"CREATE KEYSPACE n WITH {options} AND durable_writes = false") == SchemaChanged("CREATED", "n")
    refusal = cql.refusal(f"CREATE KEYSPACE n WITH {options}")
    assert (refusal.cql_code, refusal.message) == (ALREADY_EXISTS, 'Cannot add existing keyspace "n"')
    assert cql.run(f"CREATE KEYSPACE IF NOT EXISTS n WITH {options}") == Done()
    refusal = cql.refusal("CREATE KEYSPACE m")
    assert (refusal.cql_code, refusal.message) == (CONFIGURATION, "Missing mandatory option 'replication'")


def test_a_table_is_made_once_whatever_its_form() -> None:
    cql = Cql()
    columns = "country_code text, state_province text, city text, gym_name text"
    name = "crossfit_gyms_by_location"
    cql.run(f"CREATE TABLE {name} ({columns}, PRIMARY KEY (country_code, state_province, city, gym_name))")
    refusal = cql.refusal(f"CREATE TABLE {name} ({columns}, PRIMARY KEY ((country_code, state_province), city))")
    assert (refusal.cql_code, refusal.keyspace, refusal.table) == (ALREADY_EXISTS, "k", name)
    assert refusal.message == f'Cannot add already existing table "{name}" to keyspace "k"'


COLUMNS = "country_code text, state_province text, city text, opening_date timestamp, gym_name text"
COMPOSITE = f"{COLUMNS}, PRIMARY KEY ((country_code, state_province, city), opening_date, gym_name)"
COMPOUND = f"{COLUMNS}, PRIMARY KEY (country_code, state_province, city, gym_name)"
UNDEFINED = [
    (f"CREATE TABLE t ({COMPOSITE}) WITH CLUSTERING ORDER BY (opening_data ASC, gym_name ASC)",
     "Missing CLUSTERING ORDER for column opening_date"),
    (f"CREATE TABLE t ({COMPOSITE}) WITH CLUSTERING ORDER BY (country_code ASC, opening_date ASC, gym_name ASC)",
     "Only clustering columns can be defined in CLUSTERING ORDER directive"),
    (f"CREATE TABLE t ({COMPOUND}) WITH CLUSTERING ORDER BY (city ASC, state_province DESC)",
     "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns "
     "(state_province must appear before city)"),
    (f"CREATE TABLE t ({COLUMNS})", "No PRIMARY KEY specifed for table 't' (exactly one required)"),
    ("CREATE TABLE t (a int, PRIMARY KEY (x))", "Unknown column 'x' referenced in PRIMARY KEY for table 't'"),
    ("CREATE TABLE t (a int PRIMARY KEY, s int static)",
     "Static columns are only useful (and thus allowed) if the table has at least one clustering column"),
    ("CREATE TABLE t (a int PRIMARY KEY, b nonsense)", "Unknown type k.nonsense"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "text"), UNDEFINED, ids=[text[:50] for _, text in UNDEFINED])
def test_definitions_that_cannot_be_are_refused(statement: str, text: str) -> None:
    refusal = Cql().refusal(statement)
    assert (refusal.cql_code, refusal.message) == (INVALID, text)


def test_rows_lie_in_the_declared_order() -> None:
    cql = Cql()
    cql.run(f"CREATE TABLE t ({COMPOUND}) WITH CLUSTERING ORDER BY (state_province DESC, city ASC, gym_name ASC)")
    for state, city in (("NY", "b"), ("VA", "c"), ("NY", "a"), ("VA", "d")):
        cql.run(
            f"INSERT INTO t (country_code, state_province, city, gym_name) VALUES ('USA', '{state}', '{city}', 'g')"
        )
    query = "SELECT state_province, city FROM t WHERE country_code = 'USA'"
    stored = [("VA", "c"), ("VA", "d"), ("NY", "a"), ("NY", "b")]
    assert cql.rows(query) == stored
    assert cql.rows(f"{query} ORDER BY state_province ASC, city DESC") == stored[::-1]
    assert cql.rows(f"{query} AND state_province > 'NY'") == stored[:2]
    assert cql.refusal(f"{query} ORDER BY state_province DESC, city DESC").message == "Unsupported order by relation"


@pytest.mark.parametrize("definition", ["a text, v int, PRIMARY KEY (a)", "a text PRIMARY KEY, v int"])
def test_insert_and_update_both_upsert(definition: str) -> None:
    cql = Cql()
    cql.run(f"CREATE TABLE t ({definition})")
    cql.run("INSERT INTO t (a, v) VALUES ('x', 1)")
    cql.run("INSERT INTO t (a, v) VALUES ('x', 2)")
    cql.run("UPDATE t SET v = 3 WHERE a = 'y'")
    assert sorted(cql.rows("SELECT * FROM t")) == [("x", 2), ("y", 3)]
    refusal = cql.refusal("INSERT INTO t (a, v) VALUES ('x', 'x')")
    assert refusal.message == 'Invalid STRING constant (x) for "v" of type int'
    assert cql.refusal("INSERT INTO t (a) VALUES ('')").message == "Key may not be empty"


def test_rows_are_there_by_their_marker_or_their_cells() -> None:
    cql = Cql()
    cql.run("CREATE TABLE t (a int PRIMARY KEY, v int)")
    cql.run("UPDATE t SET v = 1 WHERE a = 1")
    cql.run("DELETE v FROM t WHERE a = 1")
    assert cql.rows("SELECT * FROM t") == []
    cql.run("INSERT INTO t (a, v) VALUES (1, 1)")
    cql.run("DELETE v FROM t WHERE a = 1")
    assert cql.rows("SELECT * FROM t") == [(1, None)]
    cql.run("UPDATE t SET v = 1 WHERE a = 2")
    cql.run("UPDATE t SET v = null WHERE a = 2")
    assert cql.rows("SELECT * FROM t") == [(1, None)]


def test_a_marker_lives_as_long_as_its_insert_said() -> None:
    cql = Cql()
    cql.run("CREATE TABLE t (a int PRIMARY KEY, v int)")
    cql.run("INSERT INTO t (a, v) VALUES (1, 1) USING TTL 10")
    cql.run("UPDATE t USING TTL 20 SET v = 2 WHERE a = 1")
    assert cql.rows("SELECT a, v, ttl(v) FROM t") == [(1, 2, 20)]
    cql.executor.seconds += 15
    assert cql.rows("SELECT a, v, ttl(v) FROM t") == [(1, 2, 5)]
    cql.executor.seconds += 5
    assert cql.rows("SELECT a, v, ttl(v) FROM t") == []


def test_times_and_counts_can_be_selected() -> None:
    cql = Cql()
    cql.run("CREATE TABLE t (a text PRIMARY KEY, v int)")
    cql.run("INSERT INTO t (a, v) VALUES ('foo', 1) USING TIMESTAMP 77 AND TTL 9")
    found = cql.found("SELECT writetime(v), ttl(v), token(a), v AS x FROM t")
    assert [column.name for column in found.columns] == ["writetime(v)", "ttl(v)", "system.token(a)", "x"]
    assert cql.rows("SELECT writetime(v), ttl(v), token(a), v AS x FROM t") == [(77, 9, -2129773440516405919, 1)]
    found = cql.found("SELECT count(*) FROM t")
    assert [column.name for column in found.columns] == ["count"]
    assert found.warnings == ("Aggregation query used without partition key",)
    assert cql.rows("SELECT count(*) FROM t WHERE a = 'foo'") == [(1,)]


DELETED = [
    ("WHERE a = 1 AND b = 1 AND c = 1", [12, 13, 21, 22]),
    ("WHERE a = 1 AND b = 1", [21, 22]),
    ("WHERE a = 1 AND b >= 2", [11, 12, 13]),
    ("WHERE a = 1 AND b = 1 AND c > 1 AND c < 3", [11, 13, 21, 22]),
    ("WHERE a = 1 AND b IN (1, 2) AND c IN (1, 2)", [13]),
    ("WHERE a = 1 AND (b, c) > (1, 2)", [11, 12]),
    ("WHERE a = 1", []),
    ("WHERE a = 2", [11, 12, 13, 21, 22]),
]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("where", "left"), DELETED)
def test_deletions_reach_rows_ranges_and_partitions(where: str, left: list[int], descending: bool) -> None:
    cql = Cql()
    order = " WITH CLUSTERING ORDER BY (b DESC, c ASC)" if descending else ""
    cql.run(f"CREATE TABLE t (a int, b int, c int, v int, PRIMARY KEY (a, b, c)){order}")
    for v in (11, 12, 13, 21, 22):
        cql.run(f"INSERT INTO t (a, b, c, v) VALUES (1, {v // 10}, {v % 10}, {v})")
    cql.run(f"DELETE FROM t {where}")
    assert sorted(v for (v,) in cql.rows("SELECT v FROM t WHERE a = 1")) == left
    cql.run("INSERT INTO t (a, b, c, v) VALUES (1, 1, 1, 99)")
    assert 99 in [v for (v,) in cql.rows("SELECT v FROM t WHERE a = 1")]


TIES = [
    (["v = 'a'@10", "v = 'b'@9"], "a"),
    (["v = 'a'@10", "v = 'b'@10"], "b"),
    (["v = 'ab'@10", "v = 'b'@10"], "b"),
    (["v = 'zzz'@10", "null@10"], None),
    (["null@11", "v = 'a'@10"], None),
    (["row@10", "v = 'a'@10"], None),
    (["row@10", "v = 'a'@11"], "a"),
    (["partition@10", "v = 'a'@10"], None),
    (["partition@10", "v = 'a'@11"], "a"),
    (["range@10", "v = 'a'@10"], None),
]


@pytest.mark.parametrize(("history", "expected"), TIES, ids=[" ".join(history) for history, _ in TIES])
@pytest.mark.parametrize("backwards", [False, True])
def test_cells_are_merged_one_by_one_in_any_order(history: list[str], expected: str | None, backwards: bool) -> None:
    cql = Cql()
    cql.run("CREATE TABLE t (a int, b int, v text, PRIMARY KEY (a, b))")
    for step in history[::-1] if backwards else history:
        what, _, stamp = step.partition("@")
        if what in ("row", "partition", "range"):
            where = {"row": "a = 1 AND b = 1", "partition": "a = 1", "range": "a = 1 AND b < 5"}[what]
            cql.run(f"DELETE FROM t USING TIMESTAMP {stamp} WHERE {where}")
        else:
            value = "v = null" if what == "null" else what
            cql.run(f"UPDATE t USING TIMESTAMP {stamp} SET {value} WHERE a = 1 AND b = 1")
    assert cql.rows("SELECT v FROM t") == ([] if expected is None else [(expected,)])


def test_a_tie_may_leave_a_row_that_nobody_wrote() -> None:
    cql = Cql()
    cql.run("CREATE TABLE t (k int PRIMARY KEY, x text, y text, n int)")
    cql.run("INSERT INTO t (k, x, y) VALUES (1, '1', '9') USING TIMESTAMP 5")
    cql.run("INSERT INTO t (k, x, y) VALUES (1, '5', '2') USING TIMESTAMP 5")
    assert cql.rows("SELECT x, y FROM t") == [("5", "9")]
    cql.run("INSERT INTO t (k, x) VALUES (2, 'a') USING TIMESTAMP 5")
    cql.run("INSERT INTO t (k, x, y) VALUES (2, null, 'b') USING TIMESTAMP 5")
    assert cql.rows("SELECT x, y FROM t WHERE k = 2") == [(None, "b")]
    cql.run("INSERT INTO t (k, n) VALUES (3, -1) USING TIMESTAMP 5")
    cql.run("INSERT INTO t (k, n) VALUES (3, 1) USING TIMESTAMP 5")
    assert cql.rows("SELECT n FROM t WHERE k = 3") == [(-1,)]
