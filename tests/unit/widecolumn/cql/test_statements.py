"""Prepared statements, batches, changes of tables, functions, paging states."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import pytest

from docstore.widecolumn.cql.errors import INVALID, PROTOCOL
from docstore.widecolumn.cql.plan.bindings import UNSET, ExecutionTime
from docstore.widecolumn.cql.run.execution import Environment, Request, execute
from docstore.widecolumn.cql.run.paging import PagePosition, decode, encode
from docstore.widecolumn.cql.run.prepare import prepare
from docstore.widecolumn.cql.run.results import Done, KeyspaceSet, Rows, SchemaChanged
from docstore.widecolumn.cql.types.native import NATIVE_TYPES
from docstore.widecolumn.model.consistency import Level
from tests.unit.widecolumn.cql.running import Cql, shown


def number(value: int) -> bytes:
    return value.to_bytes(4, "big", signed=True)


@pytest.fixture
def cql() -> Cql:
    found = Cql()
    found.run("CREATE TABLE t (a int, b int, v text, w int, PRIMARY KEY (a, b))")
    return found


def test_a_statement_is_prepared_once_and_bound_often(cql: Cql) -> None:
    environment = Environment(rng=random.Random(1).randbytes)
    insert = asyncio.run(prepare(cql.executor, "INSERT INTO t (a, b, v) VALUES (?, ?, :text) USING TTL ?", "k"))
    assert [(variable.name, variable.type.name) for variable in insert.variables] == [
        ("a", "int"), ("b", "int"), ("v", "text"), ("[ttl]", "int"),
    ]  # fmt: skip
    for place in range(3):
        values = (number(1), number(place), b"x%d" % place, number(60))
        asyncio.run(execute(cql.executor, environment, insert, Request(values=values)))
    select = asyncio.run(prepare(cql.executor, "SELECT b, v FROM t WHERE a = ? AND b IN ? LIMIT ?", "k"))
    among = b"\0\0\0\2" + b"\0\0\0\4" + number(2) + b"\0\0\0\4" + number(0)
    found = asyncio.run(execute(cql.executor, environment, select, Request(values=(number(1), among, number(5)))))
    assert isinstance(found, Rows)
    assert shown(found) == [(0, "x0"), (2, "x2")]
    assert [column.name for column in select.columns] == ["b", "v"]
    assert select.id == asyncio.run(prepare(cql.executor, select.text, "k")).id
    assert len(select.id) == 16


def test_values_can_be_bound_by_name(cql: Cql) -> None:
    text = "INSERT INTO t (a, b, v) VALUES (:x, :x, ?)"
    cql.run(text, values={"x": number(4), "v": b"text"})
    assert cql.rows("SELECT a, b, v FROM t") == [(4, 4, "text")]
    assert cql.refusal(text, values={"x": number(4)}).message == "Invalid amount of bind variables"
    assert cql.refusal(text, number(1)).message == "Invalid amount of bind variables"


def test_unset_leaves_a_column_alone_and_null_does_not(cql: Cql) -> None:
    cql.run("INSERT INTO t (a, b, v, w) VALUES (1, 1, 'x', 5)")
    cql.run("INSERT INTO t (a, b, v, w) VALUES (1, 1, ?, ?)", values=(UNSET, None))
    assert cql.rows("SELECT v, w FROM t") == [("x", None)]
    text = "INSERT INTO t (a, b) VALUES (?, 1)"
    assert cql.refusal(text, values=(UNSET,)).message == "Invalid unset value for column a"
    assert cql.refusal(text, None).message == "Invalid null value in condition for column a"
    assert cql.rows("SELECT v FROM t LIMIT ?", values=(UNSET,)) == [("x",)]


def test_the_timestamp_of_the_statement_goes_before_that_of_the_client(cql: Cql) -> None:
    cql.run("INSERT INTO t (a, b, v) VALUES (1, 1, 'x')", timestamp=7)
    cql.run("INSERT INTO t (a, b, v) VALUES (1, 2, 'x') USING TIMESTAMP 8", timestamp=7)
    cql.run("INSERT INTO t (a, b, v) VALUES (1, 3, 'x')")
    written = cql.rows("SELECT writetime(v) FROM t")
    assert [stamp for (stamp,) in written[:2]] == [7, 8]
    assert written[2][0] >= cql.executor.seconds * 1_000_000


def test_a_batch_has_one_timestamp_so_values_decide(cql: Cql) -> None:
    assert (
        cql.run(
            "BEGIN BATCH INSERT INTO t (a, b, w) VALUES (1, 1, 9); "
            "UPDATE t SET w = 3 WHERE a = 1 AND b = 1; APPLY BATCH"
        )
        == Done()
    )
    assert cql.rows("SELECT w FROM t") == [(9,)]
    cql.run(
        "BEGIN UNLOGGED BATCH UPDATE t SET w = 1 WHERE a = 1 AND b = 1 "
        "DELETE w FROM t WHERE a = 1 AND b = 1 APPLY BATCH"
    )
    assert cql.rows("SELECT w FROM t") == [(None,)]
    cql.run("BEGIN BATCH USING TIMESTAMP 5 INSERT INTO t (a, b, w) VALUES (2, ?, ?) APPLY BATCH", number(3), number(4))
    assert cql.rows("SELECT b, w, writetime(w) FROM t WHERE a = 2") == [(3, 4, 5)]


BATCHES = [
    ("BEGIN BATCH USING TIMESTAMP 1 INSERT INTO t (a, b) VALUES (1, 1) USING TIMESTAMP 2 APPLY BATCH",
     "Timestamp must be set either on BATCH or individual statements"),
    ("BEGIN COUNTER BATCH INSERT INTO t (a, b) VALUES (1, 1) APPLY BATCH",
     "Cannot include non-counter statement in a counter batch"),
    ("BEGIN BATCH USING TTL 1 INSERT INTO t (a, b) VALUES (1, 1) APPLY BATCH",
     "Global TTL on the BATCH statement is not supported."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BATCHES)
def test_batches_that_cannot_be_are_refused(cql: Cql, text: str, message: str) -> None:
    refusal = cql.refusal(text)
    assert (refusal.cql_code, refusal.message) == (INVALID, message)


def test_a_large_batch_over_partitions_warns_and_then_fails(cql: Cql) -> None:
    member = "INSERT INTO t (a, b, v) VALUES ({}, 1, '{}');"
    result = cql.run("BEGIN BATCH " + "".join(member.format(a, "x" * 3000) for a in range(2)) + " APPLY BATCH")
    assert isinstance(result, Done)
    assert "exceeding specified threshold of 5120" in result.warnings[0]
    large = "BEGIN BATCH " + "".join(member.format(a, "x" * 30000) for a in range(2)) + " APPLY BATCH"
    assert cql.refusal(large).message == "Batch too large"
    whole = "BEGIN BATCH " + "".join(member.format(7, "x" * 30000) for _ in range(2)) + " APPLY BATCH"
    assert cql.run(whole) == Done()


def test_tables_change(cql: Cql) -> None:
    cql.run("INSERT INTO t (a, b, v, w) VALUES (1, 1, 'x', 5)")
    assert cql.run("ALTER TABLE t ADD x int") == SchemaChanged("UPDATED", "k", "t")
    assert cql.rows("SELECT * FROM t") == [(1, 1, "x", 5, None)]
    cql.run("ALTER TABLE t DROP v")
    cql.run("ALTER TABLE t ADD v text")
    assert cql.rows("SELECT a, b, v FROM t") == [(1, 1, None)]
    cql.run("ALTER TABLE t RENAME b TO c")
    assert cql.rows("SELECT c FROM t WHERE a = 1 AND c = 1") == [(1,)]
    cql.run("ALTER TABLE t WITH default_time_to_live = 10 AND comment = 'x' AND gc_grace_seconds = 5")
    cql.run("INSERT INTO t (a, c, v) VALUES (2, 1, 'x')")
    assert cql.rows("SELECT ttl(v) FROM t WHERE a = 2") == [(10,)]
    cql.run("INSERT INTO t (a, c, v) VALUES (2, 1, 'x') USING TTL 0")
    assert cql.rows("SELECT ttl(v) FROM t WHERE a = 2") == [(None,)]


CHANGES = [
    ("ALTER TABLE t ALTER v TYPE int", "Altering column types is no longer supported"),
    ("ALTER TABLE t DROP a", "Cannot drop PRIMARY KEY column a"),
    ("ALTER TABLE t RENAME v TO x", "Cannot rename non PRIMARY KEY column v"),
    ("ALTER TABLE t ADD v int", "Column with name 'v' already exists"),
    ("ALTER TABLE t WITH nonsense = 1", "Unknown property 'nonsense'"),
    ("ALTER TABLE nope ADD x int", "Table 'k.nope' doesn't exist"),
    (
        "CREATE KEYSPACE system WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "system is a reserved keyspace name",
    ),
    ("DROP TABLE nope", "Table 'k.nope' doesn't exist"),
    ("DROP KEYSPACE nope", "Keyspace 'nope' doesn't exist"),
    ("TRUNCATE nope", "Table 'k.nope' doesn't exist"),
    ("CREATE TABLE t2 (a int PRIMARY KEY, c counter)", "Counter columns are not supported"),
    (
        "CREATE TABLE t2 (a set<int> PRIMARY KEY, c int)",
        "Invalid non-frozen collection type set<int> for PRIMARY KEY column 'a'",
    ),
    (
        "CREATE TABLE t2 (a int PRIMARY KEY, c list<set<int>>)",
        "Non-frozen collections are not allowed inside collections: list<set<int>>",
    ),
    ("CREATE TABLE t2 (a duration PRIMARY KEY)", "duration type is not supported for PRIMARY KEY column 'a'"),
    ("CREATE TABLE t2 (a int PRIMARY KEY) WITH COMPACT STORAGE", "COMPACT STORAGE is not supported"),
    ("SELECT JSON * FROM t", "SELECT JSON is not supported"),
    ("UPDATE t SET w = w + 1 WHERE a = 1 AND b = 1", "Invalid operation (+) for non counter column w"),
]


@pytest.mark.parametrize(("text", "message"), CHANGES, ids=[text[:45] for text, _ in CHANGES])
def test_what_cannot_be_or_is_not_served_is_refused(cql: Cql, text: str, message: str) -> None:
    assert cql.refusal(text).message == message


def test_dropping_and_truncating_take_everything(cql: Cql) -> None:
    cql.run("INSERT INTO t (a, b) VALUES (1, 1)")
    assert cql.run("TRUNCATE TABLE t") == Done()
    assert cql.rows("SELECT * FROM t") == []
    assert cql.run("DROP TABLE IF EXISTS t") == SchemaChanged("DROPPED", "k", "t")
    assert cql.run("DROP TABLE IF EXISTS t") == Done()
    assert cql.run("USE k") == KeyspaceSet("k")
    assert cql.run("DROP KEYSPACE k") == SchemaChanged("DROPPED", "k")
    assert cql.run("DROP KEYSPACE IF EXISTS k") == Done()


def test_functions_make_times_and_ids(cql: Cql) -> None:
    cql.run("CREATE TABLE u (a int PRIMARY KEY, id timeuuid, other uuid, at timestamp)")
    cql.run("INSERT INTO u (a, id, other, at) VALUES (1, now(), uuid(), toTimestamp(now()))")
    [(identity, other, at, again)] = cql.rows("SELECT id, other, at, to_timestamp(id) FROM u")
    assert identity.version == 1
    assert other.version == 4
    assert at == again == cql.executor.seconds * 1000
    [(low, high)] = cql.rows("SELECT minTimeuuid(at), maxTimeuuid(at) FROM u")
    compare = NATIVE_TYPES["timeuuid"].comparator
    assert compare is not None
    assert compare.compare(low.bytes, identity.bytes) < 0 < compare.compare(high.bytes, identity.bytes)
    assert cql.rows("SELECT bigintAsBlob(toUnixTimestamp(at)) FROM u") == [((at).to_bytes(8, "big"),)]
    assert cql.refusal("SELECT nonsense(a) FROM u").message == "Unknown function 'nonsense'"
    assert cql.refusal("INSERT INTO u (a, at) VALUES (2, uuid())").message.startswith("Type error: cannot assign")


def test_ids_of_one_moment_differ() -> None:
    time = ExecutionTime(1_250_558_004_000_000, 1_250_558_004, random.Random(1).randbytes)
    made = [UUID(bytes=time.time_uuid()) for _ in range(100)]
    assert len(set(made)) == 100
    assert {identity.version for identity in made} == {1}
    assert [identity.time for identity in made] == sorted(identity.time for identity in made)


def test_aggregates_leave_null_out(cql: Cql) -> None:
    query = "SELECT count(*), count(w), min(w), max(w), sum(w), avg(w) FROM t WHERE a = 1"
    assert cql.rows(query) == [(0, 0, None, None, 0, 0)]
    for b, w in enumerate(("5", "null", "-2")):
        cql.run(f"INSERT INTO t (a, b, w) VALUES (1, {b}, {w})")
    assert cql.rows(query) == [(3, 2, -2, 5, 3, 1)]


def test_paging_states_are_checked(cql: Cql) -> None:
    for b in range(3):
        cql.run(f"INSERT INTO t (a, b) VALUES (1, {b})")
    query = "SELECT b FROM t WHERE a = 1"
    state = cql.found(query, page_size=2).paging_state
    assert state is not None
    assert cql.rows(query, page_size=2, paging_state=state) == [(2,)]
    for wrong in (b"", b"x", state[:-1], state + b"x", bytes((state[0] ^ 1,)) + state[1:]):
        refusal = cql.refusal(query, paging_state=wrong)
        assert (refusal.cql_code, refusal.message) == (PROTOCOL, "Invalid value for the paging state")
    assert cql.refusal("SELECT b FROM t WHERE a = 2", paging_state=state).cql_code == PROTOCOL


def test_a_page_goes_on_behind_a_row_that_is_gone(cql: Cql) -> None:
    for b in range(6):
        cql.run(f"INSERT INTO t (a, b) VALUES (1, {b})")
    query = "SELECT b FROM t WHERE a = 1 LIMIT 5"
    page = cql.found(query, page_size=2)
    cql.run("DELETE FROM t WHERE a = 1 AND b = 1")
    cql.run("INSERT INTO t (a, b) VALUES (1, -5)")
    page = cql.found(query, page_size=2, paging_state=page.paging_state)
    assert shown(page) == [(2,), (3,)]
    page = cql.found(query, page_size=2, paging_state=page.paging_state)
    assert shown(page) == [(4,)]
    assert page.paging_state is None


def test_a_position_comes_back_from_its_state() -> None:
    position = PagePosition(b"key\0", b"\0\1place", 7, None)
    assert decode(encode(position, b"12345678"), b"12345678") == position


def test_order_and_several_partitions_cannot_be_paged(cql: Cql) -> None:
    refusal = cql.refusal("SELECT * FROM t WHERE a IN (1, 2) ORDER BY b", page_size=2)
    assert refusal.message.startswith("Cannot page queries with both ORDER BY and a IN restriction")


def test_reads_at_any_are_refused(cql: Cql) -> None:
    assert cql.refusal("SELECT * FROM t", level=Level.ANY).message == (
        "ANY ConsistencyLevel is only supported for writes"
    )


def test_many_tombstones_are_told_of_and_too_many_fail(cql: Cql) -> None:
    for b in range(30):
        cql.run(f"DELETE FROM t WHERE a = 1 AND b = {b}")
    few = Environment(rng=random.randbytes, tombstone_warning=10, tombstone_limit=20)
    prepared = asyncio.run(prepare(cql.executor, "SELECT * FROM t WHERE a = 1", "k"))
    many = Environment(rng=random.randbytes, tombstone_warning=10)
    found = asyncio.run(execute(cql.executor, many, prepared, Request()))
    assert isinstance(found, Rows)
    assert found.warnings == ("Read 0 live rows and 30 tombstone cells for query SELECT * FROM t WHERE a = 1",)
    with pytest.raises(Exception, match="more than 20 tombstones"):
        asyncio.run(execute(cql.executor, few, prepared, Request()))


def test_a_page_of_a_long_partition_reads_little() -> None:
    cql = Cql(largest=64)
    cql.run("CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b))")
    for b in range(600):
        cql.run("INSERT INTO t (a, b, v) VALUES (1, ?, ?)", number(b), number(b))
    before = cql.executor.reads
    assert cql.rows("SELECT b FROM t WHERE a = 1 ORDER BY b DESC LIMIT 10") == [(b,) for b in range(599, 589, -1)]
    assert cql.executor.reads - before <= 3
