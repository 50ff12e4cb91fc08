"""The transcripts of a page of the documents: what is typed after a prompt, what is printed, and whether it still is.

A transcript is a block between "```" lines that name no language. "$ " stands before what the system's shell is given;
after a `mongo` that is given no script the lines with "> " are typed into it, those with "... " go on with them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "-- so much for that --"
_VARIES = (
    (re.compile(r'ObjectId\("[0-9a-f]{24}"\)'), 'ObjectId("...")'),
    (re.compile(r'UUID\("[0-9a-f-]{36}"\)'), 'UUID("...")'),
    (re.compile(r"\(\d{16}\)"), "(...)"),
    (re.compile(r"\b(pid=|process: )\d+"), r"\1..."),
    (re.compile(r'("(?:timeMillis|shards|final|timestamp)" : )(?:NumberLong\()?"?\d+"?\)?'), r"\1..."),
)


@dataclass
class Typed:
    """Something that is typed, and the lines that are printed for it."""

    text: str
    printed: list[str] = field(default_factory=list)

    @property
    def form(self) -> str:
        """What is printed, without what differs from run to run."""
        text = "\n".join(self.printed).rstrip()
        for pattern, stand_in in _VARIES:
            text = pattern.sub(stand_in, text)
        return text


@dataclass
class Command:
    """A command of the system's shell, and what is typed into the program."""

    started: Typed
    lines: list[Typed] = field(default_factory=list)

    @property
    def script(self) -> str:
        """What the program is to read: what is typed, with a mark behind each."""
        return "".join(f"{typed.text}\nprint({_MARK!r})\n" for typed in self.lines)

    def answers(self, output: str) -> Iterator[Typed]:
        """What was typed with what an output has for it."""
        if not self.lines:
            yield Typed(self.started.text, output.splitlines())
            return
        *parts, rest = output.split(f"{_MARK}\n")
        assert len(parts) == len(self.lines), (output, rest)
        for typed, part in zip(self.lines, parts, strict=True):
            yield Typed(typed.text, part.splitlines())


def transcripts(page: Path) -> list[Command]:
    """All commands of the page's transcripts, in order."""
    commands: list[Command] = []
    for language, block in _BLOCK.findall(page.read_text()):
        if language:
            continue
        last: Typed | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                last = Typed(line[2:])
                commands.append(Command(last))
            elif line.startswith("> "):
                last = Typed(line[2:])
                commands[-1].lines.append(last)
            elif line.startswith("... "):
                assert last is not None
                last.text += "\n" + line[4:]
            else:
                assert last is not None, line
                last.printed.append(line)
    return commands
