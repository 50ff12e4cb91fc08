"""Collections that are not frozen: changes of elements, what concurrent writes leave, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from docstore.widecolumn.cql.parser import parse
from docstore.widecolumn.cql.plan.bindings import Bindings, ExecutionTime
from docstore.widecolumn.cql.plan.column_changes import WriteContext
from docstore.widecolumn.cql.plan.write import write_plan
from docstore.widecolumn.cql.schema.tables import table_of
from docstore.widecolumn.cql.statements import Update
from docstore.widecolumn.cql.types.names import stored_type
from tests.unit.widecolumn.cql.running import Cql

TABLE = """CREATE TABLE t (a int, b int, s set<int>, l list<text>, m map<text, int>, v int,
    shared set<text> static, PRIMARY KEY (a, b))"""
ROW = "WHERE a = 1 AND b = 1"


def table(largest: int = 1 << 30) -> Cql:
    cql = Cql(largest)
    cql.executor.seconds = 1_700_000_000
    cql.run(TABLE)
    return cql


def value(cql: Cql, column: str) -> Any:
    rows = cql.rows(f"SELECT {column} FROM t {ROW}")
    return rows[0][0] if rows else None


STORIES: list[tuple[str, list[str], Any]] = [
    ("s", ["s = {3, 1, 2, 1}"], [1, 2, 3]),
    ("s", ["s = {1}", "s = s + {3, 2}"], [1, 2, 3]),
    ("s", ["s = s + {3}", "s += {2}"], [2, 3]),
    ("s", ["s = {1, 2, 3}", "s = s - {1, 3, 9}"], [2]),
    ("s", ["s = {1, 2}", "s -= {2}"], [1]),
    ("s", ["s = {1, 2}", "s = {7}"], [7]),
    ("s", ["s = {1}", "v = 1, s = {}"], None),
    ("s", ["s = {1}", "v = 1, s = null"], None),
    ("s", ["s = {1}", "s = s - {1}, v = 1"], None),
    ("m", ["m = {'x': 1, 'a': 2}"], {"a": 2, "x": 1}),
    ("m", ["m = {'x': 1}", "m['y'] = 2"], {"x": 1, "y": 2}),
    ("m", ["m = {'x': 1}", "m['y'] = 2, m['x'] = 3"], {"x": 3, "y": 2}),
    ("m", ["m = {'x': 1, 'y': 2}", "m['x'] = null"], {"y": 2}),
    ("m", ["m = {'x': 1}", "m = m + {'x': 5, 'z': 6}"], {"x": 5, "z": 6}),
    ("m", ["m = {'x': 1, 'y': 2}", "m = m - {'x', 'n'}"], {"y": 2}),
    ("m", ["m = {'x': 1}", "m = {'y': 2}"], {"y": 2}),
    ("l", ["l = ['a', 'b', 'a']"], ["a", "b", "a"]),
    ("l", ["l = ['b']", "l = l + ['c', 'd']", "l = l + ['e']"], ["b", "c", "d", "e"]),
    ("l", ["l = ['b']", "l = ['y', 'a'] + l", "l = ['x'] + l"], ["x", "y", "a", "b"]),
    ("l", ["l += ['b']", "l = ['a'] + l", "l += ['c']"], ["a", "b", "c"]),
    ("l", ["l = ['a', 'b', 'a', 'c']", "l = l - ['a', 'z']"], ["b", "c"]),
    ("l", ["l = ['a', 'b', 'c']", "l[1] = 'x'"], ["a", "x", "c"]),
    ("l", ["l = ['a', 'b', 'c']", "l[0] = 'x', l[2] = 'z'"], ["x", "b", "z"]),
    ("l", ["l = ['a', 'b', 'c']", "l[1] = null"], ["a", "c"]),
    ("l", ["l = ['a']", "l = ['b']"], ["b"]),
    ("l", ["l = ['a']", "l = ['x'] + l, l = l + ['b'], l[0] = 'c'"], ["x", "c", "b"]),
    ("s", ["s = {1, 2}", "s = s + {3}, s = s - {1}"], [2, 3]),
    ("l", ["v = 1, l = l - ['a']"], None),
]


@pytest.mark.parametrize("largest", [1 << 30, 1])
@pytest.mark.parametrize(("column", "changes", "left"), STORIES, ids=[" ".join(story[1]) for story in STORIES])
def test_updates_change_elements(column: str, changes: list[str], left: Any, largest: int) -> None:
    cql = table(largest)
    for change in changes:
        cql.run(f"UPDATE t SET {change} {ROW}")
    assert value(cql, column) == left


def test_an_insert_replaces_and_a_deletion_of_elements_keeps_the_others() -> None:
    cql = table()
    cql.run("INSERT INTO t (a, b, s, l, m) VALUES (1, 1, {1, 2}, ['x', 'y', 'z'], {'k': 1, 'n': 2})")
    cql.run(f"DELETE s[2], l[1], m['k'] FROM t {ROW}")
    assert cql.rows("SELECT s, l, m FROM t") == [([1], ["x", "z"], {"n": 2})]
    cql.run("INSERT INTO t (a, b, s, l) VALUES (1, 1, {5}, ['w'])")
    assert cql.rows("SELECT s, l, m FROM t") == [([5], ["w"], {"n": 2})]
    cql.run(f"DELETE s, l FROM t {ROW}")
    assert cql.rows("SELECT s, l, m FROM t") == [(None, None, {"n": 2})]
    cql.run(f"DELETE m FROM t {ROW}")
    assert cql.rows("SELECT b, m FROM t") == [(1, None)]


def test_a_row_of_elements_alone_exists_while_one_lives() -> None:
    cql = table()
    cql.run(f"UPDATE t SET s = s + {{1, 2}} {ROW}")
    assert cql.rows("SELECT a, b FROM t") == [(1, 1)]
    cql.run(f"UPDATE t SET s = s - {{1, 2}} {ROW}")
    assert cql.rows("SELECT a, b FROM t") == []
    cql.run(f"UPDATE t USING TTL 10 SET s = s + {{1}} {ROW}")
    cql.run(f"UPDATE t USING TTL 100 SET s = s + {{2}} {ROW}")
    cql.executor.seconds += 11
    assert value(cql, "s") == [2]
    cql.executor.seconds += 100
    assert cql.rows("SELECT a, b FROM t") == []


def test_writes_of_different_elements_merge_and_a_whole_value_hides_older_ones() -> None:
    cql = table()
    cql.run(f"UPDATE t USING TIMESTAMP 10 SET s = s + {{1}} {ROW}")
    cql.run(f"UPDATE t USING TIMESTAMP 12 SET s = s + {{2}} {ROW}")
    cql.run(f"UPDATE t USING TIMESTAMP 11 SET s = {{3}} {ROW}")
    assert value(cql, "s") == [2, 3]
    # Of two whole values at one timestamp neither hides the other.
    cql.run(f"UPDATE t USING TIMESTAMP 20 SET m = {{'x': 1}} {ROW}")
    cql.run(f"UPDATE t USING TIMESTAMP 20 SET m = {{'y': 2}} {ROW}")
    assert value(cql, "m") == {"x": 1, "y": 2}
    cql.run(f"DELETE m FROM t USING TIMESTAMP 20 {ROW}")
    assert value(cql, "m") is None
    cql.run(f"DELETE FROM t USING TIMESTAMP 15 {ROW}")
    assert value(cql, "s") is None
    cql.run(f"UPDATE t USING TIMESTAMP 16 SET s = s + {{4}} {ROW}")
    assert value(cql, "s") == [4]


def test_static_collections_are_shared_by_the_partition() -> None:
    cql = table(largest=2)
    cql.run("UPDATE t SET shared = {'x', 'y', 'z'} WHERE a = 1")
    assert cql.rows("SELECT a, b, shared FROM t") == [(1, None, ["x", "y", "z"])]
    cql.run("INSERT INTO t (a, b, v) VALUES (1, 1, 1)")
    cql.run("INSERT INTO t (a, b, v) VALUES (1, 2, 2)")
    cql.run("UPDATE t SET shared = shared - {'y'} WHERE a = 1")
    assert cql.rows("SELECT b, shared FROM t WHERE a = 1 ORDER BY b DESC") == [(2, ["x", "z"]), (1, ["x", "z"])]
    assert cql.rows("SELECT DISTINCT a, shared FROM t") == [(1, ["x", "z"])]
    cql.run("DELETE shared['x'] FROM t WHERE a = 1")
    assert cql.rows("SELECT DISTINCT a, shared FROM t") == [(1, ["z"])]


@pytest.mark.parametrize("largest", [1, 3, 1 << 30])
def test_rows_are_whole_in_pages_and_in_reverse(largest: int) -> None:
    cql = table(largest)
    for b in range(5):
        cql.run(f"INSERT INTO t (a, b, s, l) VALUES (1, {b}, {{{b}, {b + 1}, {b + 2}}}, ['a', 'b'])")
    wanted = [(b, [b, b + 1, b + 2], ["a", "b"]) for b in range(5)]
    assert [row for page in cql.paged("SELECT b, s, l FROM t WHERE a = 1", 2) for row in page] == wanted
    assert cql.rows("SELECT b, s, l FROM t WHERE a = 1 ORDER BY b DESC") == wanted[::-1]
    assert cql.rows("SELECT b, s, l FROM t LIMIT 3") == wanted[:3]


def test_values_come_by_markers_that_say_their_types() -> None:
    cql = table()
    text = f"UPDATE t SET s = s + ?, m[?] = ?, l[?] = ?, v = ? {ROW}"
    cql.run(f"UPDATE t SET l = ['a', 'b'] {ROW}")
    import asyncio

    from docstore.widecolumn.cql.run.prepare import prepare

    prepared = asyncio.run(prepare(cql.executor, text, "k"))
    assert [(variable.name, variable.type.name) for variable in prepared.variables] == [
        ("s", "set<int>"), ("key(m)", "text"), ("value(m)", "int"), ("idx(l)", "int"), ("value(l)", "text"),
        ("v", "int"),
    ]  # fmt: skip
    numbers = [stored_type("int", "k").serialise(number) for number in range(3)]
    unordered = stored_type("list<int>", "k").serialise([9, 3, 9])
    cql.run(text, unordered, b"key", numbers[2], numbers[1], b"x", numbers[0])
    assert cql.rows("SELECT s, m, l, v FROM t") == [([3, 9], {"key": 2}, ["a", "x"], 0)]
    cql.run(f"UPDATE t SET m = m - ? {ROW}", stored_type("set<text>", "k").serialise(["key"]))
    assert value(cql, "m") is None


def test_conditions_compare_whole_collections() -> None:
    cql = table()
    cql.run("INSERT INTO t (a, b, s, l) VALUES (1, 1, {1, 2}, ['a'])")
    applied = (True,)
    assert cql.rows(f"UPDATE t SET v = 1 {ROW} IF s = {{2, 1}}") == [applied]
    assert cql.rows(f"UPDATE t SET v = 2 {ROW} IF s = {{2}}") == [(False, [1, 2])]
    assert cql.rows(f"UPDATE t SET v = 2 {ROW} IF m = null AND m = {{}} AND l != ['b']") == [applied]
    assert cql.rows(f"UPDATE t SET l[0] = 'z', s = s + {{3}} {ROW} IF v = 2") == [applied]
    assert cql.rows("SELECT s, l FROM t") == [([1, 2, 3], ["z"])]


def test_a_batch_adds_in_the_order_of_its_statements() -> None:
    cql = table()
    cql.run(
        f"BEGIN BATCH UPDATE t SET l = l + ['a'], s = s + {{1}} {ROW}; UPDATE t SET l = l + ['b'], s = s + {{2}} {ROW};"
        f" UPDATE t SET l = ['y'] + l {ROW}; UPDATE t SET l = ['x'] + l {ROW}; APPLY BATCH"
    )
    assert cql.rows("SELECT l, s FROM t") == [(["x", "y", "a", "b"], [1, 2])]


def test_a_statement_that_runs_again_changes_nothing() -> None:
    cql = table()
    cql.run(f"UPDATE t SET l = ['m'] {ROW}")
    import asyncio

    family = asyncio.run(cql.executor.family("k", "t"))
    assert family is not None
    statement = parse(f"UPDATE t SET l = l + ['a', 'b'] {ROW}")
    assert isinstance(statement, Update)
    plan = write_plan(table_of(*family), statement)

    def entries(seed: int) -> object:
        time = ExecutionTime(1_700_000_000_000_000, 1, random.Random(seed).randbytes, b"same")
        return plan.writes(WriteContext(Bindings({}, time), 5, 1 << 20))

    assert entries(1) == entries(2)


def test_columns_are_added_and_dropped() -> None:
    cql = table()
    cql.run("ALTER TABLE t ADD tags set<frozen<list<int>>>")
    cql.run(f"UPDATE t SET tags = {{[2], [1, 5], [1]}}, v = 1 {ROW}")
    assert value(cql, "tags") == [[1], [1, 5], [2]]
    cql.run("ALTER TABLE t DROP tags")
    cql.run("ALTER TABLE t ADD tags set<frozen<list<int>>>")
    assert cql.rows("SELECT tags FROM t") == [(None,)]


def test_equal_decimals_are_one_element() -> None:
    cql = Cql()
    cql.run("CREATE TABLE d (a int PRIMARY KEY, s set<decimal>)")
    cql.run("UPDATE d SET s = {1.0, 10, 2.50} WHERE a = 1")
    cql.run("UPDATE d SET s = s - {1.000, 2.5} WHERE a = 1")
    assert [[float(number) for number in row[0]] for row in cql.rows("SELECT s FROM d")] == [[10.0]]


REFUSED = [
    (f"UPDATE t SET v[0] = 1 {ROW}", "Invalid element operation for non collection column v"),
    (f"UPDATE t SET s[0] = 1 {ROW}", "Invalid element operation for set column s"),
    (f"UPDATE t SET s = {{1}} + s {ROW}", "Invalid operation (prepend) for non list column s"),
    (f"UPDATE t SET s = s + [1] {ROW}", 'Invalid list literal for "s" of type set<int>'),
    (f"UPDATE t SET s = {{1}}, s = s + {{2}} {ROW}", "Multiple incompatible setting of column s"),
    (f"UPDATE t SET l[0] = 'x' {ROW}", "Attempted to set an element on a list which is null"),
    (f"DELETE l[0] FROM t {ROW}", "Attempted to delete an element from a list which is null"),
    (f"DELETE v[0] FROM t {ROW}", "Invalid deletion operation for non collection column v"),
    (f"UPDATE t SET m[null] = 1 {ROW}", "Invalid null map key"),
    ("UPDATE t SET l[0] = 'x' WHERE a = 1 AND b IN (1, 2)",
     "Setting and removing elements of lists in several rows is not supported"),
    (f"BEGIN BATCH UPDATE t SET l[0] = 'x' {ROW}; APPLY BATCH",
     "Setting and removing elements of lists in a batch is not supported"),
    ("SELECT writetime(s) FROM t", "Cannot use selection function writetime on non-frozen collection s"),
    ("SELECT * FROM t WHERE s = {1} ALLOW FILTERING",
     "Collection column 's' (set<int>) cannot be restricted by a '=' relation"),
    (f"UPDATE t SET s = {{1, null}} {ROW}", "null is not supported inside collections"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[text for text, _ in REFUSED])
def test_what_is_refused(text: str, message: str) -> None:
    assert table().refusal(text).message == message


def test_an_index_beyond_the_list_and_a_long_key_are_refused() -> None:
    cql = table()
    cql.run(f"UPDATE t SET l = ['a'] {ROW}")
    assert cql.refusal(f"UPDATE t SET l[1] = 'x' {ROW}").message == "List index 1 out of bound, list has size 1"
    assert cql.refusal(f"DELETE l[-1] FROM t {ROW}").message == "List index -1 out of bound, list has size 1"
    assert cql.refusal(f"UPDATE t SET m['{'k' * 65_536}'] = 1 {ROW}").message == (
        "Map key is too long. Map keys are limited to 65535 bytes but 65536 bytes value provided"
    )


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_do_what_they_do_to_values_of_python(seed: int) -> None:
    rng = random.Random(seed)
    cql = table(rng.choice((1, 2, 5, 1 << 30)))
    cql.run("INSERT INTO t (a, b) VALUES (1, 1)")
    ours: tuple[set[int], list[str], dict[str, int]] = (set(), [], {})
    members, items, pairs = ours

    def quoted(texts: list[str]) -> str:
        return ", ".join(f"'{text}'" for text in texts)

    for _ in range(120):
        numbers = [rng.randrange(-3, 9) for _ in range(rng.randrange(1, 4))]
        texts = [rng.choice("abcd") for _ in range(rng.randrange(1, 4))]
        kind = rng.randrange(10)
        if kind == 0:
            members.clear()
            members.update(numbers)
            change = f"s = {{{', '.join(map(str, numbers))}}}"
        elif kind == 1:
            members.update(numbers)
            change = f"s = s + {{{', '.join(map(str, numbers))}}}"
        elif kind == 2:
            members.difference_update(numbers)
            change = f"s = s - {{{', '.join(map(str, numbers))}}}"
        elif kind == 3:
            items[:] = texts
            change = f"l = [{quoted(texts)}]"
        elif kind == 4:
            items += texts
            change = f"l = l + [{quoted(texts)}]"
        elif kind == 5:
            items[:0] = texts
            change = f"l = [{quoted(texts)}] + l"
        elif kind == 6:
            items[:] = [item for item in items if item not in texts]
            change = f"l = l - [{quoted(texts)}]"
        elif kind == 7 and items:
            index = rng.randrange(len(items))
            items[index] = texts[0]
            change = f"l[{index}] = '{texts[0]}'"
        elif kind == 8:
            pairs[texts[0]] = numbers[0]
            change = f"m['{texts[0]}'] = {numbers[0]}"
        else:
            for text in texts:
                pairs.pop(text, None)
            change = f"m = m - {{{quoted(texts)}}}"
        cql.executor.seconds += 1
        cql.run(f"UPDATE t SET {change} {ROW}")
        assert cql.rows(f"SELECT s, l, m FROM t {ROW}") == [
            (sorted(members) or None, list(items) or None, dict(sorted(pairs.items())) or None)
        ]
