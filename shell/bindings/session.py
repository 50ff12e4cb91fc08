"""One shell's isolate: scripts in, printed text out.

- Scripts run as V8 scripts of one global scope, so top-level `let`, `const` and `class` stay.
- `interrupt` is safe from a signal handler's thread: it stops the script and its current wait. The isolate stays
  usable; variables keep their values.
- Errors of user code are raised as `ScriptFailure` with the text that the classic shell prints.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from threading import Event
from types import FrameType
from typing import TypeVar

from docstore.js.engine import Failure, Handle, Isolate, ScriptError, TimeUp
from docstore.js.engine import Value as ScriptValue
from docstore.js.runtime import CORE, source
from shell.bindings.host import Host
from shell.bindings.screen import Screen
from shell.deployment import Deployment
from shell.prelude import texts

T = TypeVar("T")

MESSAGE_BYTES = 64 * 1024 * 1024
"""Room for the longest message that the protocol allows, each way."""

PRELUDE = "prelude"
HANDOVER = "globalThis.__declarations"
"""The global name of the functions by which prelude/load.js reaches the names of a loaded file."""

ENTRIES = ("control", "input", "output", "setHost", "show", "promptText", "connect", "completions", "magic")
INTERRUPTED_EXIT = 130
SETTLING_TASKS = 3
SIGNAL_SECONDS = 0.2
"""The interval between two looks for an interruption."""

# V8's messages, besides "Unexpected end of input", for a script that may have ended too early.
_UNFINISHED = ("SyntaxError: missing ) after argument list", "SyntaxError: Missing catch or finally after try")
_REPORT = re.compile(r"^[^\n]*?:(\d+): (.*?)\n([^\n]*)\n([ \t]*\^+)\n(.*)$", re.DOTALL)
_FRAME = re.compile(
    r"^    at (?:(?P<name>\S+) )?\(?(?P<file>[^()\s]*?):(?P<line>\d+):(?P<column>\d+)\)?$", re.MULTILINE
)
_UNCLOSED_COMMENT = re.compile(r"/\*(?:(?!\*/).)*$", re.DOTALL)


class ScriptFailure(Exception):
    """User code failed; the message is the classic shell's."""


class Unfinished(Exception):
    """The source is incomplete: more lines are needed."""


class Interrupted(Exception):
    """The script was stopped by the user."""


class Session:
    """An isolate with the shell's prelude. `deployment` is None without a connection."""

    def __init__(self, deployment: Deployment | None, screen: Screen) -> None:
        self._task: int | None = None
        self._begun = Event()
        self._interrupted = False
        self.screen = screen
        self.host = Host(deployment, screen)
        self._isolate = Isolate()
        runtime = source(CORE, input_bytes=MESSAGE_BYTES, fixed_output=MESSAGE_BYTES, further=texts())
        self._isolate.evaluate(f"var entry = {runtime}\n//# sourceURL={PRELUDE}")
        self._entry = {name: self._isolate.evaluate(f"entry.{name}") for name in ENTRIES}
        self._isolate.evaluate("delete globalThis.entry; entry = undefined")
        control, answers, requests = (self._buffer(name) for name in ("control", "input", "output"))
        self.host.attach(control.cast("d"), answers, requests)
        self._isolate.call(self._entry["setHost"], self._isolate.host_function(self._exchange))
        if deployment is not None:
            self.call("connect")

    def close(self) -> None:
        """End the isolate and all connections."""
        self.host.close()
        self._isolate.close()

    def show(self, text: str) -> None:
        """Run a script and print its value. Errors: ScriptFailure, Unfinished, Interrupted."""
        value = self._run(text, text)
        try:
            self.call("show", value)
        finally:
            self._isolate.free(value)

    def run_file(self, text: str, name: str) -> None:
        """Run a script and print nothing of its own. Errors: ScriptFailure, Interrupted."""
        try:
            self._isolate.free(self._run(f"{_without_interpreter(text)}\n//# sourceURL={name}", text))
        except Unfinished as error:
            raise ScriptFailure(str(error)) from error

    def command(self, name: str, *words: str) -> None:
        """Run one of the commands that are not JavaScript: use, show, it, help."""
        self.host.argument = [name, *words]
        self.call("magic")

    def prompt(self) -> str:
        """The prompt for the state of the server now."""
        text = self.call("promptText")
        assert isinstance(text, str)
        return text

    def completions(self, text: str) -> list[str]:
        """Names that could stand where `text` ends, each for the whole last word."""
        self.host.argument = text
        names = self.call("completions")
        assert isinstance(names, str)
        return names.split("\n") if names else []

    def call(self, entry: str, value: Handle | None = None) -> ScriptValue:
        """Call an entry point of the prelude."""
        try:
            return self._wait(lambda: self._isolate.start_call(self._entry[entry], value), self._isolate.finished)
        except ScriptError as error:
            raise _failure(error) from error

    def _run(self, script: str, typed: str) -> Handle:
        try:
            return self._wait(lambda: self._isolate.start(script), self._isolate.finished_handle)
        except ScriptError as error:
            if error.failure is Failure.SYNTAX and _is_unfinished(str(error), typed):
                raise Unfinished(str(_failure(error))) from error
            raise _failure(error) from error

    def _wait(self, begin: Callable[[], int], finish: Callable[[float], T]) -> T:
        """Begin a task and wait for its value; Ctrl-C stops it.

        A signal handler that raises could strike anywhere, also between the start of a task and the assignment that
        records it. The handler therefore only sets a flag and asks V8 to stop, and this waits for the task's own end.

        The system may deliver the signal to a thread of V8, which does not end a wait of this one, and V8 may miss a
        stop. So the wait looks for both at intervals.
        """
        self._task, self._interrupted = None, False
        self._begun.clear()
        self.host.begin()
        previous = signal.signal(signal.SIGINT, self._on_interrupt)
        try:
            self._task = begin()
            self._begun.set()
            while True:
                if self._interrupted:
                    self._isolate.stop(self._task)
                with suppress(TimeUp):
                    value = finish(SIGNAL_SECONDS)
                    break
        except ScriptError:
            if self._interrupted:
                raise Interrupted from None
            raise
        finally:
            self._task = None
            if self._interrupted:
                self._settle()
            signal.signal(signal.SIGINT, previous)
        if self._interrupted:
            raise Interrupted
        return value

    def _settle(self) -> None:
        """Absorb a pending stop: V8 applies a stop requested near a task's end to the next one. Run empty tasks."""
        for _ in range(SETTLING_TASKS):
            with suppress(ScriptError):
                self._isolate.evaluate("0")
                return

    def _exchange(self) -> None:
        self.host.exchange()
        if self.host.exit_code is not None:
            self._begun.wait()  # the script may run, on V8's thread, before the one that began it knows its task
            if self._task is not None:
                self._isolate.stop(self._task)  # no `catch` holds up a script that wants to quit

    def _on_interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if self._interrupted:  # V8 does not stop for an endless chain of promises: the only way is to exit
            os.write(2, b"\nthe script cannot be stopped; leaving the shell\n")
            os._exit(INTERRUPTED_EXIT)
        self._interrupted = True
        self.host.interrupt()
        if self._task is not None:
            self._isolate.stop(self._task)

    def _buffer(self, name: str) -> memoryview:
        view = self._isolate.call(self._entry[name])
        assert isinstance(view, memoryview)
        return view


def _without_interpreter(text: str) -> str:
    return f"//{text}" if text.startswith("#!") else text


def _is_unfinished(report: str, typed: str) -> bool:
    match = _REPORT.match(report)
    if match is None:
        return False
    line, message, source_line, pointer = int(match[1]), match[2], match[3], match[4]
    lines = typed.split("\n")
    at_end = line >= len(lines) and len(pointer) >= len(source_line.rstrip())
    if message == "SyntaxError: Unexpected end of input":
        return True
    if message in _UNFINISHED:
        return at_end
    return message == "SyntaxError: Invalid or unexpected token" and _UNCLOSED_COMMENT.search(typed) is not None


def _failure(error: ScriptError) -> ScriptFailure:
    match = _REPORT.match(str(error))
    if match is None:
        return ScriptFailure(f"uncaught exception: {str(error).strip()}")
    frames = "".join(
        f"{frame['name'] or ''}@{_file_name(frame['file'])}:{frame['line']}:{frame['column']}\n"
        for frame in _FRAME.finditer(match[5])
        if frame["file"] != PRELUDE and not (frame["name"] or "").startswith(HANDOVER)
    )
    return ScriptFailure(f"uncaught exception: {match[2]}" + (f" :\n{frames.rstrip()}" if frames else ""))


def _file_name(name: str) -> str:
    return "(shell)" if name == "<anonymous>" else name
