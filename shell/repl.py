"""The read-evaluate-print loop, on a terminal or over a pipe.

Lines gather until they make a whole script. Commands that are no JavaScript (`use x`, `show x`, `it`, `help`, `exit`)
are recognised only where a script could begin. Over a pipe nothing is echoed and no prompt is printed; results look
the same.
"""

from __future__ import annotations

import re
import sys

from shell.bindings.session import Interrupted, ScriptFailure, Session, Unfinished
from shell.lines import Lines, piped_lines

CONTINUATION = "... "

_COMMAND = re.compile(r"^\s*(use|show|it|help|exit|quit)(?:\s+([^\s;]+))?(?:\s+([^\s;]+))?\s*;?\s*$")
_ARGUMENTS = {"use": (0, 1), "show": (0, 2), "it": (0, 0), "help": (0, 1), "exit": (0, 0), "quit": (0, 0)}


class Repl:
    """The loop. `quiet` leaves out the farewell."""

    def __init__(self, session: Session, lines: Lines, *, quiet: bool) -> None:
        self._session = session
        self._lines = lines
        self._quiet = quiet

    def run(self, *, prompts: bool) -> int:
        """Loop until the end of input or `exit`. Returns the process's exit code."""
        screen = self._session.screen
        while self._session.host.exit_code is None:
            try:
                self._run_next(self._session.prompt() if prompts else "")
            except EOFError:
                self._session.host.exit_code = 0
            except (KeyboardInterrupt, Interrupted):
                screen.write("^C\n")
            except ScriptFailure as error:
                if self._session.host.exit_code is None:
                    screen.write_failure(f"{error}\n")
        if not self._quiet:
            screen.write("bye\n")
        return self._session.host.exit_code

    def _run_next(self, prompt: str) -> None:
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


def interactive(session: Session, *, quiet: bool) -> int:
    """The loop on this process's standard input."""
    on_terminal = sys.stdin.isatty()
    if on_terminal:
        from shell.terminal import terminal_lines  # a third of the time to start, which scripts need not wait for

        lines = terminal_lines(session)
    else:
        lines = piped_lines(sys.stdin)
    return Repl(session, lines, quiet=quiet).run(prompts=on_terminal)
