"""Scripts in the shell's isolate: what is unfinished, what failures look like, what stays."""

from __future__ import annotations

import io
import signal
from collections.abc import Iterator
from threading import Event, Thread, get_ident

import pytest

from shell.bindings.screen import Screen
from shell.bindings.session import Interrupted, ScriptFailure, Session, Unfinished


@pytest.fixture(scope="module")
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(scope="module")
def session(output: io.StringIO) -> Iterator[Session]:
    session = Session(None, Screen(output))
    yield session
    session.close()


def shown(session: Session, output: io.StringIO, text: str) -> str:
    output.seek(0)
    output.truncate()
    session.show(text)
    return output.getvalue()


@pytest.mark.parametrize(
    "text",
    [
        "function f() {", "map = function() {", "if (true)", "if (true) {", "{ a: [1,", "f(1,", "f(1", "f({a: 1}",
        "`text", "/* comment", "1 +", "for (var i = 0; i < 2", "try { 1 }", "x = {a: 1,\n b:", "[1, 2",
    ],
)  # fmt: skip
def test_a_script_that_stops_too_early_is_unfinished(session: Session, text: str) -> None:
    with pytest.raises(Unfinished):
        session.show(text)


@pytest.mark.parametrize("text", ["var x = ;", "f(1 2)", "}", "'text", "function () { }", "let a; let a;", "f(1 2\n)"])
def test_a_script_that_is_wrong_is_not_unfinished(session: Session, text: str) -> None:
    with pytest.raises(ScriptFailure, match=r"^uncaught exception: SyntaxError: "):
        session.show(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nosuch", "uncaught exception: ReferenceError: nosuch is not defined :\n@(shell):1:1"),
        ("throw 'text'", "uncaught exception: text"),
        ("throw new Error('two\\nlines')", "uncaught exception: Error: two\nlines :\n@(shell):1:7"),
        (
            "function g() {\n  nosuch()\n}\ng()",
            "uncaught exception: ReferenceError: nosuch is not defined :\ng@(shell):2:3\n@(shell):4:1",
        ),
        (
            "db.foo.find()",
            "uncaught exception: TypeError: Cannot read properties of undefined (reading 'foo') :\n@(shell):1:4",
        ),
    ],
)
def test_failures_read_as_in_the_classic_shell(session: Session, text: str, message: str) -> None:
    with pytest.raises(ScriptFailure) as failure:
        session.show(text)
    assert str(failure.value) == message


def test_declarations_stay(session: Session, output: io.StringIO) -> None:
    session.show("let kept = 2; const fixed = 3; class Thing {}; function twice(x) { return 2 * x }")
    assert shown(session, output, "twice(kept) + fixed + typeof Thing") == "7function\n"


def test_a_file_runs_under_its_name(session: Session) -> None:
    with pytest.raises(ScriptFailure, match=r"^uncaught exception: Error: boo :\n@dir/x.js:2:7$"):
        session.run_file("#!/usr/bin/env mongo\nthrow new Error('boo')", "dir/x.js")


def test_an_unfinished_file_is_a_failure(session: Session) -> None:
    with pytest.raises(ScriptFailure, match="Unexpected end of input"):
        session.run_file("function f() {", "x.js")


def test_names_complete(session: Session) -> None:
    session.show("var completable = {alpha: 1, alphabet: 2, beta: 3}")
    assert session.completions("print(completable.al") == ["alpha", "alphabet"]
    assert "completable" in session.completions("compl")
    assert session.completions("nosuch.thing") == []


def test_quitting_sets_the_exit_code(output: io.StringIO) -> None:
    session = Session(None, Screen(output))
    with pytest.raises(ScriptFailure):
        session.show("quit(3)")
    assert session.host.exit_code == 3
    session.close()


def test_files_can_be_loaded_and_read(session: Session, output: io.StringIO, tmp_path: object) -> None:
    path = f"{tmp_path}/part.js"
    with open(path, "w", encoding="utf-8") as file:
        file.write("var loaded = 'é'; function fromFile() { return 1 }")
    assert shown(session, output, f"load({path!r}); loaded + fromFile()") == "é1\n"
    assert shown(session, output, f"cat({path!r}).length") == "50\n"
    with pytest.raises(ScriptFailure, match="No such file"):
        session.show("load('/nosuch/file.js')")


def test_a_script_that_quits_before_its_task_is_known_runs_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = io.StringIO()
    session = Session(None, Screen(output))
    quitting = Event()
    begin, leave = session._isolate.start, session.host._quit

    def begin_late(script: str) -> int:
        task = begin(script)
        assert quitting.wait(30)
        return task

    def leave_early(code: float) -> None:
        leave(code)
        quitting.set()

    monkeypatch.setattr(session._isolate, "start", begin_late)
    monkeypatch.setitem(session.host._functions, "quit", leave_early)
    try:
        with pytest.raises(ScriptFailure):
            session.show("try { quit(8) } catch (e) { print('still here') }")
        assert (session.host.exit_code, output.getvalue()) == (8, "")
    finally:
        session.close()


def test_an_interruption_counts_whatever_thread_the_system_gives_it_to(session: Session) -> None:
    def interrupt() -> None:
        assert begun.wait(30)
        signal.pthread_kill(get_ident(), signal.SIGINT)

    begun = Event()
    session.host._functions["write"], write = lambda _text: begun.set(), session.host._functions["write"]
    thread = Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(Interrupted):
            session.show("print('begun'); while (true);")
    finally:
        session.host._functions["write"] = write
        thread.join()


def test_a_member_that_does_not_answer_is_not_shown_as_up_to_date(session: Session, output: io.StringIO) -> None:
    member = (
        'state: 8, health: 0, optimeDate: new Date(0), name: "h:1", lastHeartbeatMessage: "h:1: Connection refused"'
    )
    session.show(f"globalThis.db = {{ adminCommand: () => ({{ ok: 1, members: [{{ {member} }}] }}) }}")
    try:
        printed = shown(session, output, "rs.printSecondaryReplicationInfo()")
    finally:
        session.show("delete globalThis.db")
    assert printed == "source: h:1\n\tdoes not answer: h:1: Connection refused\n"
