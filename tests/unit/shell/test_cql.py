"""`cql` in the shell: rows as a table and as objects, page by page; USE changes the database."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from shell.bindings.screen import Screen
from shell.bindings.session import ScriptFailure, Session

SERVER = """
var asked = [];
var replies = [];
var db = {
  runCommand(command) { asked.push(command); return replies.shift(); },
  getSiblingDB(name) { asked.push(name); return { ...db, getName() { return name; } }; },
};
"""
COLUMNS = 'columns: [{ name: "name", type: "text" }, { name: "n", type: "int" }]'


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


def test_rows_are_shown_as_a_table_of_all_pages(session: Session, output: io.StringIO) -> None:
    text = shown(
        session,
        output,
        f'replies = [{{ok: 1, {COLUMNS}, rows: [["Axiom", 120], [null, 7]], pagingState: "s", warnings: ["careful"]}}, '
        f'{{ok: 1, {COLUMNS}, rows: [["a, b", null]]}}]; asked = []; undefined',
        'cql("SELECT", ["x"], {pageSize: 2})',
    )
    assert text == (
        "warning: careful\n name  | n\n-------+------\n Axiom |  120\n null  |    7\n a, b  | null\n(3 rows)\n"
    )
    assert shown(session, output, "tojson(asked, '', true)") == (
        '[ { "cql" : "SELECT", "params" : [ "x" ], "pageSize" : 2 }, '
        '{ "cql" : "SELECT", "params" : [ "x" ], "pageSize" : 2, "pagingState" : "s" } ]\n'
    )


def test_rows_are_objects_to_scripts(session: Session, output: io.StringIO) -> None:
    text = shown(
        session,
        output,
        f'replies = [{{ok: 1, {COLUMNS}, rows: [["Axiom", 120]]}}]; undefined',
        'tojson(cql("SELECT").toArray(), "", true)',
    )
    assert text == '[ { "name" : "Axiom", "n" : 120 } ]\n'


def test_use_changes_the_database(session: Session, output: io.StringIO) -> None:
    text = shown(session, output, 'replies = [{ok: 1, keyspace: "gyms"}]; undefined', 'cql("USE gyms")')
    assert text == "switched to db gyms\n"


def test_refusals_are_thrown(session: Session, output: io.StringIO) -> None:
    session.show('replies = [{ok: 0, errmsg: "table t does not exist", code: 26}]; undefined')
    with pytest.raises(ScriptFailure, match="table t does not exist"):
        session.show('cql("SELECT * FROM t")')
