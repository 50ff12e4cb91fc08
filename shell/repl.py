"""The read-evaluate-print loop, on a terminal or over a pipe.

Lines gather until they make a whole script. Commands that are no JavaScript (`use x`, `show x`, `it`, `help`, `exit`)
are recognised only where a script could begin. Over a pipe nothing is echoed and no prompt is printed; results look
the same.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TextIO

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.shortcuts import CompleteStyle

from shell.bindings.session import Interrupted, ScriptFailure, Session, Unfinished

HISTORY = Path("~/.docstore_history")
CONTINUATION = "... "

_COMMAND = re.compile(r"^\s*(use|show|it|help|exit|quit)(?:\s+([^\s;]+))?(?:\s+([^\s;]+))?\s*;?\s*$")
_ARGUMENTS = {"use": (1, 1), "show": (1, 2), "it": (0, 0), "help": (0, 1), "exit": (0, 0), "quit": (0, 0)}
_LAST_WORD = re.compile(r"[\w$]*$")


class Lines(Protocol):
    """Where lines come from. Raises EOFError at the end, KeyboardInterrupt when the line is abandoned."""

    def __call__(self, prompt: str) -> str: ...


def terminal_lines(session: Session) -> Lines:
    """Lines typed at a terminal, with history and completion. Pasted lines are taken one by one, as if typed."""
    prompts: PromptSession[str] = PromptSession(
        history=FileHistory(str(HISTORY.expanduser())),
        completer=_Names(session),
        complete_while_typing=False,
        complete_style=CompleteStyle.READLINE_LIKE,
        reserve_space_for_menu=0,
    )

    pasted: deque[str] = deque()

    def read(prompt: str) -> str:
        if pasted:
            line = pasted.popleft()
            _print(f"{prompt}{line}\n")
            return line
        first, *rest = prompts.prompt(prompt).split("\n")
        pasted.extend(rest)
        return first

    return read


def piped_lines(source: TextIO) -> Lines:
    """Lines of a file or pipe."""

    def read(prompt: str) -> str:
        line = source.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    return read


class Repl:
    """The loop. `write` prints text; `quiet` leaves out the farewell."""

    def __init__(self, session: Session, lines: Lines, write: Callable[[str], object], *, quiet: bool) -> None:
        self._session = session
        self._lines = lines
        self._write = write
        self._quiet = quiet

    def run(self, *, prompts: bool) -> int:
        """Loop until the end of input or `exit`. Returns the process's exit code."""
        while self._session.host.exit_code is None:
            try:
                self._one(self._session.prompt() if prompts else "")
            except EOFError:
                self._session.host.exit_code = 0
            except (KeyboardInterrupt, Interrupted):
                self._write("^C\n")
            except ScriptFailure as error:
                if self._session.host.exit_code is None:
                    self._write(f"{error}\n")
        if not self._quiet:
            self._write("bye\n")
        return self._session.host.exit_code

    def _one(self, prompt: str) -> None:
        """Read one script or command, however many lines it takes, and run it."""
        text = self._lines(prompt)
        if (command := parse_command(text)) is not None:
            name, *words = command
            if name in ("exit", "quit"):
                self._session.host.exit_code = 0
            else:
                self._session.command(name, *words)
            return
        blank = 0
        while text.strip():
            try:
                self._session.show(text)
                return
            except Unfinished as unfinished:
                try:
                    line = self._lines(CONTINUATION)
                except EOFError:
                    raise ScriptFailure(str(unfinished)) from unfinished
                blank = 0 if line.strip() else blank + 1
                if blank == 2:  # the way out of a script that cannot be completed
                    raise ScriptFailure(str(unfinished)) from unfinished
                text += "\n" + line


def parse_command(line: str) -> list[str] | None:
    """The words of a command that is no JavaScript, or None."""
    match = _COMMAND.match(line)
    if match is None:
        return None
    words = [word for word in match.groups()[1:] if word is not None]
    least, most = _ARGUMENTS[match[1]]
    if words and words[0][0] in "=.([,":
        return None  # `it = 5` and `show (x)` are JavaScript
    return [match[1], *words] if least <= len(words) <= most else None


class _Names(Completer):
    def __init__(self, session: Session) -> None:
        self._session = session

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        word = _LAST_WORD.search(text)
        assert word is not None
        try:
            names = self._session.completions(text)
        except ScriptFailure:
            return
        for name in names:
            yield Completion(name, start_position=-len(word[0]))


def interactive(session: Session, *, quiet: bool) -> int:
    """The loop on this process's standard input."""
    on_terminal = sys.stdin.isatty()
    lines = terminal_lines(session) if on_terminal else piped_lines(sys.stdin)
    return Repl(session, lines, _print, quiet=quiet).run(prompts=on_terminal)


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
