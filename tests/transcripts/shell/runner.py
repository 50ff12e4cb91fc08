"""Runs a transcript of a shell session: what is typed, and what the shell must print.

    # Lines that begin with "# " before the first input say what the transcript claims.
    > what is typed at the prompt
    ... what is typed at the continuation prompt
    what is printed

In expected text `<any>` stands for any text within a line, and a line `<lines>` for any number of lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from shell.bindings.session import Session
from shell.deployment import Deployment
from shell.repl import CONTINUATION, Repl


@dataclass
class Step:
    """One script or command: its lines and what it prints."""

    lines: list[str]
    expected: list[str] = field(default_factory=list)


def read_transcript(path: Path) -> list[Step]:
    steps: list[Step] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("> "):
            steps.append(Step([line[2:]]))
        elif line.startswith("... "):
            steps[-1].lines.append(line[4:])
        elif steps:
            steps[-1].expected.append(line)
        else:
            assert line.startswith("#") or not line, f"{path.name} begins with neither a comment nor input: {line}"
    return steps


class Recorder:
    """Feeds the lines of a transcript to the shell and sorts what it prints by step."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps
        self._left: list[str] = []
        self.printed: list[str] = []

    def read(self, prompt: str) -> str:
        if prompt == CONTINUATION:
            assert self._left, f"the shell wants more after {self._steps[len(self.printed) - 1].lines}"
            return self._left.pop(0)
        assert not self._left, f"the shell took {self._left} for a new script"
        if len(self.printed) == len(self._steps):
            raise EOFError
        first, *self._left = self._steps[len(self.printed)].lines
        self.printed.append("")
        return first

    def write(self, text: str) -> int:
        self.printed[-1] += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


def run_transcript(path: Path, deployment: Deployment | None) -> list[tuple[Step, str]]:
    """Each step with what the shell printed for it."""
    steps = read_transcript(path)
    recorder = Recorder(steps)
    session = Session(deployment, recorder)
    try:
        Repl(session, recorder.read, recorder.write, quiet=True).run(prompts=False)
    finally:
        session.close()
    return list(zip(steps, recorder.printed, strict=True))


def matches(expected: list[str], printed: str) -> bool:
    """Whether printed text is as expected, wildcards honoured."""
    parts = []
    for line in expected:
        if line == "<lines>":
            parts.append(r"(?:[^\n]*\n)*")
        else:
            parts.append(r"[^\n]*".join(re.escape(piece) for piece in line.split("<any>")) + r"\n")
    return re.fullmatch("".join(parts), printed) is not None
