"""Sources of the shell's input lines: their protocol, and the one that reads a file or pipe."""

from __future__ import annotations

from typing import Protocol, TextIO


class Lines(Protocol):
    """A source of lines. Raises EOFError at the end, KeyboardInterrupt when the line is abandoned."""

    def __call__(self, prompt: str) -> str: ...


def piped_lines(source: TextIO) -> Lines:
    """Return a source of the lines of a file or pipe."""

    def read(prompt: str) -> str:
        line = source.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    return read
