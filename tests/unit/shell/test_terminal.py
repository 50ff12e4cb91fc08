"""The shell on a terminal and as a command: prompts, Ctrl-C, completion, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.shell.fake_server import FakeServer, member, router
from tests.unit.shell.terminal import ROOT, Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    with Terminal(tmp_path, "--nodb", "--quiet") as terminal:
        terminal.read_until(">")
        yield terminal


def typed(terminal: Terminal, line: str, answer: str) -> str:
    terminal.send(line + "\r")
    shown = terminal.read_until(answer)
    return shown if shown.rstrip().endswith(">") else shown + terminal.read_until(">")


def test_functions_are_typed_over_several_lines(terminal: Terminal) -> None:
    terminal.send("f = function(x) {\r")
    terminal.read_until("...")
    terminal.send("return x + 'typed' }\r")
    terminal.read_until(">")
    typed(terminal, "f('was ')", "was typed")


@pytest.mark.parametrize(
    "loop", ["while (true);", "sleep(100000)", "while (true) try { while (true); } finally { print(1) }"]
)
def test_control_c_stops_a_script_and_keeps_the_variables(terminal: Terminal, loop: str) -> None:
    typed(terminal, "var kept = 'still ' + 'here'; 'se' + 't'", "set")
    terminal.send(f"print('begin' + 's'); {loop}\r")
    terminal.read_until("begins")
    terminal.send("\x03")
    terminal.read_until("^C\n>")
    typed(terminal, "kept", "still here")


def test_control_c_leaves_a_line_unread(terminal: Terminal) -> None:
    terminal.send("half a line")
    terminal.read_until("half a line")
    terminal.send("\x03")
    terminal.read_until("^C\n>")
    typed(terminal, "1 + 41", "42")


def test_pasted_lines_count_as_typed_one_by_one(terminal: Terminal) -> None:
    terminal.send("\x1b[200~f = function() {\rreturn 'paste' + 'd' }\rf()\x1b[201~\r")
    shown = terminal.read_until("\npasted\n")
    assert "... return 'paste' + 'd' }" in shown


def test_names_complete_with_the_tab_key(terminal: Terminal) -> None:
    typed(terminal, "var completable = 'comp' + 'leted'; 'se' + 't'", "set")
    terminal.send("completab\t")
    terminal.read_until("completable")
    terminal.send("\r")
    terminal.read_until("completed")


@pytest.mark.parametrize(
    ("answer", "prompt"),
    [(router, "mongos>"), (member("primary"), "s:PRIMARY>"), (member("secondary"), "s:SECONDARY>")],
)
def test_the_prompt_tells_what_the_server_is(answer: Any, prompt: str, tmp_path: Path) -> None:
    with FakeServer(answer) as server, Terminal(tmp_path, server.address) as terminal:
        shown = terminal.read_until(prompt)
        assert f"connecting to: {server.address}/test" in shown
        terminal.send("exit\r")
        terminal.read_until("bye")
        assert terminal.exit_code() == 0


def test_control_c_stops_waiting_for_a_reply(tmp_path: Path) -> None:
    def never(command: dict[str, Any]) -> dict[str, Any]:
        if "slow" in command:
            release.wait(30)
        return {"ok": 1.0}

    release = threading.Event()
    with FakeServer(never) as server, Terminal(tmp_path, server.address, "--quiet") as terminal:
        terminal.read_until(">")
        terminal.send("print('begin' + 's'); db.runCommand({slow: 1})\r")
        terminal.read_until("begins")
        terminal.send("\x03")
        terminal.read_until("^C\n>")
        typed(terminal, "db.runCommand({ping: 1}).ok + 41", "42")
        release.set()


def run(*arguments: str, typed: str = "", environment: dict[str, str] | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "shell", *arguments], input=typed, capture_output=True, text=True, cwd=ROOT, timeout=60,
        env={**os.environ, "HOME": "/nonexistent", **(environment or {})},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def test_scripts_come_through_a_pipe() -> None:
    assert run("--nodb", "--quiet", typed="f = function() {\nreturn 5 }\nf()\nnosuch\n") == (
        0,
        "function() {\nreturn 5 }\n5\nuncaught exception: ReferenceError: nosuch is not defined :\n@(shell):1:1\n",
    )


def test_eval_prints_its_value() -> None:
    assert run("--nodb", "--quiet", "--eval", "var a = 2; a * 21") == (0, "42\n")


def test_files_run_in_order_and_quietly(tmp_path: Path) -> None:
    first, second = tmp_path / "a.js", tmp_path / "b.js"
    first.write_text("let shared = 5; shared")
    second.write_text("print(shared + 1)")
    assert run("--nodb", "--quiet", str(first), str(second)) == (0, "6\n")


def test_loaded_files_and_their_declarations(tmp_path: Path) -> None:
    outer, inner = tmp_path / "outer.js", tmp_path / "inner.js"
    outer.write_text(f"#!mongo\n'use strict';\nconst from = 'outer';\nload({str(inner)!r});\nprint(from + step());\n")
    inner.write_text("let step = () => ++count, count = 6;\nfor (let i = 0; i < 2; i++) { let hidden = i }")
    script = f"load({str(outer)!r})\n[from, count, step(), count, typeof hidden, typeof i]\nlet own = 1\nown"
    expected = 'outer7\ntrue\n[ "outer", 7, 8, 8, "undefined", "undefined" ]\n1\n'
    assert run("--nodb", "--quiet", typed=script) == (0, expected)
    code, output = run("--nodb", "--quiet", "--eval", f"load({str(tmp_path / 'nosuch.js')!r})")
    assert (code, output.splitlines()[0]) == (
        252,
        f"uncaught exception: Error: error loading js file: No such file or directory: {tmp_path / 'nosuch.js'} :",
    )


def test_the_users_own_file_runs_before_the_prompt(tmp_path: Path) -> None:
    own = tmp_path / ".mongorc.js"
    own.write_text("let mine = 41; prompt = () => 'mine' + mine + '> '; print('from my ' + 'file')")
    with Terminal(tmp_path, "--nodb", "--quiet") as terminal:
        terminal.read_until("from my file")
        terminal.read_until("mine41>")
        terminal.send("mine = 42\r")
        terminal.read_until("mine42>")
    home = {"HOME": str(tmp_path)}
    assert run("--nodb", "--quiet", typed="mine", environment=home) == (0, "from my file\n41\n")
    assert run("--nodb", "--quiet", "--norc", typed="1", environment=home) == (0, "1\n")
    assert run("--nodb", "--quiet", "--eval", "typeof mine", environment=home) == (0, "undefined\n")
    shell = run("--nodb", "--quiet", "--shell", "--eval", "mine + 1", typed="mine", environment=home)
    assert shell == (0, "from my file\n42\n41\n")
    own.write_text("throw new Error('mine')")
    code, output = run("--nodb", "--quiet", typed="1", environment=home)
    assert (code, output) == (0, f"uncaught exception: Error: mine :\n@{own}:1:7\n1\n")


def test_lines_are_remembered(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--nodb", "--quiet") as terminal:
        terminal.read_until(">")
        typed(terminal, "'remem' + 'bered'", "remembered")
        terminal.send("exit\r")
        assert terminal.exit_code() == 0
    with Terminal(tmp_path, "--nodb", "--quiet") as terminal:
        terminal.read_until(">")
        terminal.send("'rem\x1b[A\r")
        terminal.read_until("remembered")


def test_results_are_coloured_on_a_terminal_that_has_colours(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--nodb", "--quiet") as terminal:
        terminal.read_until(">")
        terminal.send("({a: [1]})\r")
        terminal.read_until('{ "a" : [ 1 ] }')
        assert '\x1b[36m"a"\x1b[0m : [ \x1b[33m1\x1b[0m ]' in terminal.raw


def test_control_d_leaves(tmp_path: Path) -> None:
    with Terminal(tmp_path, "--nodb") as terminal:
        terminal.read_until(">")
        terminal.send("\x04")
        terminal.read_until("bye")
        assert terminal.exit_code() == 0


def test_exit_codes(tmp_path: Path) -> None:
    failing = tmp_path / "failing.js"
    failing.write_text("throw new Error('boo')")
    assert run("--nodb", "--quiet", "--eval", "quit(7)") == (7, "")
    stubborn = "try { quit(8) } catch (e) { print('still here') } finally { print('and here') }; while (true);"
    assert run("--nodb", "--quiet", "--eval", stubborn) == (8, "")
    assert run("--nodb", "--quiet", typed=stubborn) == (8, "")
    assert run("--nodb", "--quiet", "--eval", "nosuch")[0] == 252
    code, output = run("--nodb", "--quiet", str(failing))
    assert (code, output) == (253, f"uncaught exception: Error: boo :\n@{failing}:1:7\nexiting with code -3\n")
    assert run("--nodb", "--quiet", str(tmp_path / "missing.js"))[0] == 253


def test_a_server_that_is_not_there_is_said_so() -> None:
    with FakeServer(router) as server:
        address = server.address
    code, output = run(address)
    assert code == 1
    assert f"couldn't connect to server {address}" in output


def test_a_user_that_the_server_does_not_take_is_said_so(tmp_path: Path) -> None:
    def refusing(command: dict[str, Any]) -> dict[str, Any]:
        if "saslStart" in command:
            return {"ok": 0.0, "errmsg": "Authentication failed.", "code": 18}
        return {"ok": 1.0}

    with FakeServer(refusing) as server:
        code, output = run(server.address, "-u", "ann", "--password", "secret", "--authenticationDatabase", "admin")
        assert (code, output.splitlines()[2:]) == (
            1,
            ["Error: Authentication failed.", "exception: connect failed", "exiting with code 1"],
        )
        with Terminal(tmp_path, server.address, "-u", "ann", "-p") as terminal:
            terminal.read_until("Enter password:")
            terminal.send("secret\n")
            terminal.read_until("Authentication failed.")
            assert terminal.exit_code() == 1


def test_wrong_arguments_are_refused() -> None:
    assert run("--nosuch")[0] == 2
    assert run("mongodb://h/x?tlsCAFile=a")[0] == 2
    assert run("--tlsCAFile", "a")[0] == 2
    assert run("--nodb", "--tls")[0] == 2
    assert run("one", "two")[0] == 2
    assert run("--nodb", "--port", "1")[0] == 2
    assert run("--password", "x")[0] == 2
