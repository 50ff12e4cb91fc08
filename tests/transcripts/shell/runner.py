"""Types a transcript into a shell on a pseudo-terminal and compares what is on the screen then.

    # Lines that begin with "# " before the first input say what the transcript claims.
    > what is typed at the prompt (which may say more: `mongos> `, `set:PRIMARY> `)
    ... what is typed at the continuation prompt
    what is printed

In expected text `<any>` stands for any text within a line, and a line `<lines>` for any number of lines. The prompts
and the typed text are compared too. One shell serves many transcripts: what a transcript declares with `let` or `const`
must not be declared by another one.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.screen_text import ScreenText
from tests.harness.terminal import Terminal

_INPUT = re.compile(r"((?:[\w.-]+:[A-Z0-9]+|mongos)?> )(.*)")
CONTINUATION = "... "
DATABASE = "transcript"
LONG = 60


@dataclass
class Step:
    """One script or command: its lines, each with the prompt before it, and what it prints."""

    lines: list[tuple[str, str]]
    expected: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(prompt + text for prompt, text in self.lines)


def read_transcript(path: Path) -> list[Step]:
    steps: list[Step] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if (match := _INPUT.fullmatch(line)) is not None:
            steps.append(Step([(match[1], match[2])]))
        elif line.startswith(CONTINUATION) or line == CONTINUATION.rstrip():
            steps[-1].lines.append((CONTINUATION, line[len(CONTINUATION) :]))
        elif steps:
            steps[-1].expected.append(line)
        else:
            assert line.startswith("#") or not line, f"{path.name} begins with neither a comment nor input: {line}"
    return steps


class Shell:
    """A shell on a terminal, at a prompt. Short lines are typed key by key, long ones pasted; or all, to be quicker."""

    def __init__(self, home: Path, address: str, *, pasting: bool = False) -> None:
        self._pasting = pasting
        command = [sys.executable, "-m", "shell", "--quiet", f"{address}/{DATABASE}"]
        self.terminal = Terminal(command, {"HOME": str(home), "NO_COLOR": "1"})
        self.terminal.wait_for(lambda screen: at_prompt(screen, -1))

    def play(self, steps: list[Step]) -> list[tuple[Step, str]]:
        """Each step with what was printed for it."""
        self.type("db = db.getSiblingDB('transcript'); DBQuery.shellBatchSize = 20; undefined")
        return [(step, self._step(step)) for step in steps]

    def type(self, text: str) -> None:
        """Type one line and wait for the next prompt."""
        row = self.terminal.screen.row
        pasting = self._pasting or len(text) > LONG
        self.terminal.send(f"\x1b[200~{text}\x1b[201~\r" if pasting else f"{text}\r")
        self.terminal.wait_for(lambda screen: at_prompt(screen, row))

    def _step(self, step: Step) -> str:
        screen = self.terminal.screen
        for prompt, text in step.lines:
            row = screen.row
            assert screen.line(row).rstrip() == prompt.rstrip(), f"prompt {screen.line(row)!r} before {step}"
            self.type(text)
            assert screen.line(row).rstrip() == (prompt + text).rstrip(), "what was typed is on the screen"
        return "".join(f"{line}\n" for line in screen.lines(row + 1, screen.row))


def at_prompt(screen: ScreenText, after: int) -> bool:
    """Whether the cursor stands behind a bare prompt in a row below `after`."""
    if screen.row <= after:
        return False
    text = screen.line(screen.row).rstrip() + " "
    bare = text == CONTINUATION or ((match := _INPUT.fullmatch(text)) is not None and not match[2])
    return bare and screen.column == len(text)


def matches(expected: list[str], printed: str) -> bool:
    """Whether printed text is as expected, wildcards honoured."""
    parts = []
    for line in expected:
        if line == "<lines>":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append(r"[^\n]*".join(re.escape(piece) for piece in line.split("<any>")) + r"\n")
    return re.fullmatch("".join(parts), printed) is not None
