"""The loop: commands that are no JavaScript, scripts over several lines, leaving."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest

from shell.bindings.screen import Screen
from shell.bindings.session import Session
from shell.repl import Repl, parse_command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("use test", ["use", "test"]),
        ("  use  my-db ; ", ["use", "my-db"]),
        ("show dbs", ["show", "dbs"]),
        ("show log global", ["show", "log", "global"]),
        ("it", ["it"]),
        ("it;", ["it"]),
        ("help", ["help"]),
        ("exit", ["exit"]),
        ("quit", ["quit"]),
        ("use", ["use"]),
        ("show", ["show"]),
        ("it = 5", None),
        ("items", None),
        ("it.next()", None),
        ("show (x)", None),
        ("useful test", None),
        ("use a b", None),
        ("quit()", None),
        ("db.it", None),
    ],
)
def test_commands_are_told_from_javascript(line: str, words: list[str] | None) -> None:
    assert parse_command(line) == words


def talk(lines: Iterable[str], *, quiet: bool = True) -> tuple[str, list[str], int]:
    """What is printed, the prompts, and the exit code."""
    output = io.StringIO()
    prompts: list[str] = []
    left = iter(lines)

    def read(prompt: str) -> str:
        prompts.append(prompt)
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    session = Session(None, Screen(output))
    try:
        code = Repl(session, read, quiet=quiet).run(prompts=True)
    finally:
        session.close()
    return output.getvalue(), prompts, code


def test_lines_gather_until_the_script_is_whole() -> None:
    printed, prompts, _ = talk(["f = function(x) {", "return x", "}", "f(2)"])
    assert printed == "function(x) {\nreturn x\n}\n2\n"
    assert prompts == ["> ", "... ", "... ", "> ", "> "]


def test_two_blank_lines_give_up_an_unfinished_script() -> None:
    printed, prompts, _ = talk(["f(", "", "", "1"])
    assert printed == "uncaught exception: SyntaxError: Unexpected end of input\n1\n"
    assert prompts == ["> ", "... ", "... ", "> ", "> "]


def test_a_failure_does_not_end_the_loop() -> None:
    assert talk(["nosuch", "1"])[0].endswith("\n1\n")


def test_the_end_of_input_ends_it_and_so_does_exit() -> None:
    assert talk([], quiet=False)[::2] == ("bye\n", 0)
    assert talk(["exit", "1"], quiet=False)[::2] == ("bye\n", 0)


def test_quit_gives_the_exit_code() -> None:
    assert talk(["quit(4)", "1"]) == ("", ["> "], 4)


def test_blank_lines_and_comments_print_nothing() -> None:
    assert talk(["", "   ", "// nothing"])[0] == ""
