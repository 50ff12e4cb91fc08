"""Column families in the shell: what is asked of the server, and columns printed one a line."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from shell.bindings.screen import Screen
from shell.bindings.session import Session

SERVER = """
var asked = [];
var replies = [];
var database = {
  getName() { return "ks"; },
  runCommand(command) { asked.push(command); return replies.shift(); },
  cfs() { return [{ name: "F", columnType: "Standard" }, { name: "S", columnType: "Super" }]; },
};
var cf = new ColumnFamily(database, "F");
var supers = new ColumnFamily(database, "S");
"""


@pytest.fixture(scope="module")
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def session(output: io.StringIO) -> Iterator[Session]:
    session = Session(None, Screen(output))
    session.show(SERVER)
    yield session
    session.close()


def shown(session: Session, output: io.StringIO, *lines: str) -> str:
    output.seek(0)
    output.truncate()
    for line in lines:
        session.show(line)
    return output.getvalue()


def test_columns_are_printed_one_a_line(session: Session, output: io.StringIO) -> None:
    columns = (
        'columns: [{name: "a", value: "text", timestamp: NumberLong(7)}, '
        "{name: NumberLong(3), value: HexData(0, 'ff00'), timestamp: NumberLong(8), ttl: 5}]"
    )
    text = shown(
        session,
        output,
        f"replies = [{{ok: 1, {columns}}}]; asked = []; undefined",
        'cf.slice("k", {reversed: true, count: 10, consistency: "QUORUM"})',
    )
    assert text == "a => text  (7)\n3 => 0xff00  (8, ttl 5)\n"
    assert shown(session, output, "tojson(asked, '', true)") == (
        '[ { "wcGetSlice" : "F", "key" : "k", "predicate" : { "sliceRange" : { "reversed" : true, "count" : 10 } }, '
        '"bytesAs" : "string", "consistency" : "QUORUM" } ]\n'
    )


def test_super_columns_are_blocks(session: Session, output: io.StringIO) -> None:
    column = 'columns: [{name: "x", value: "1", timestamp: 1}]'
    text = shown(
        session,
        output,
        f'replies = [{{ok: 1, rows: [{{key: "k", superColumns: [{{name: "s", {column}}}]}}]}}]; undefined',
        'supers.multislice(["k"])',
        f'replies = [{{ok: 1, superColumn: {{name: "s", {column}}}}}]; asked = []; undefined',
        'supers.get("k", "s")',
    )
    assert text == "k\n    s\n        x => 1  (1)\ns\n    x => 1  (1)\n"
    assert shown(session, output, "asked[0].superColumn") == "s\n"


def test_writes_say_what_they_are_told(session: Session, output: io.StringIO) -> None:
    text = shown(
        session,
        output,
        "replies = [{ok: 1, timestamp: NumberLong(5)}, {ok: 1, n: 1}, {ok: 1}]; asked = []; undefined",
        'cf.insert("k", "c", "v", {timestamp: 5, consistency: "ALL"})',
        'supers.insert("k", {sc: "s", columns: {a: "1"}}, {timestamp: 7})',
        'supers.remove("k", "s", "a")',
        "tojson(asked, '', true)",
    )
    assert text.splitlines()[-1] == (
        '[ { "wcInsert" : "F", "key" : "k", "column" : "c", "value" : "v", "timestamp" : NumberLong(5), '
        '"consistency" : "ALL" }, '
        '{ "wcBatchMutate" : 1, "mutations" : [ { "key" : "k", "columnFamily" : "S", "insertSuper" : { "name" : "s", '
        '"columns" : [ { "name" : "a", "value" : "1", "timestamp" : NumberLong(7) } ] } } ] }, '
        '{ "wcRemove" : "S", "key" : "k", "superColumn" : "s", "column" : "a" } ]'
    )


def test_a_time_uuid_holds_its_date(session: Session, output: io.StringIO) -> None:
    made = "timeUUID(new Date(1250558004000), 0x8000, 0x010203040506)"
    assert shown(session, output, made) == 'UUID("537fd200-8b94-11de-8000-010203040506")\n'
    assert shown(session, output, f"timeUUID.date({made}).getTime()") == "1250558004000\n"
    assert shown(session, output, "timeUUID.date(timeUUID(new Date(5))).getTime()") == "5\n"
    assert shown(session, output, "long(3)") == "NumberLong(3)\n"
