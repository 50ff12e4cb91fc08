"""What a person sees on a terminal: the text that a stream of output and control sequences leaves on the screen.

As much of a terminal as line editors need: printing, carriage return, line feed, backspace, cursor moves, erasing, and
the question where the cursor is. Nothing wraps, and what scrolls away is kept: rows are counted from the first.
"""

from __future__ import annotations

import re

_SEQUENCE = re.compile(r"\x1b\[([?>]?)([\d;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b[=>78]")
_UNFINISHED = re.compile(r"\x1b(?:\[[?>]?[\d;]*|\][^\x07]*)?$")


class ScreenText:
    """Feed it what a program writes; read `lines`, `row` and `column`."""

    def __init__(self, height: int) -> None:
        self._height = height
        self._cells: list[list[str]] = [[]]
        self.row = self.column = 0
        self._rest = ""

    def line(self, row: int) -> str:
        return "".join(self._cells[row])

    def lines(self, start: int, stop: int) -> list[str]:
        return [self.line(row) for row in range(start, stop)]

    def feed(self, text: str) -> list[str]:
        """Take in output; what the terminal answers to it."""
        text = self._rest + text
        unfinished = _UNFINISHED.search(text)
        self._rest = text[unfinished.start() :] if unfinished else ""
        text = text[: unfinished.start()] if unfinished else text
        answers: list[str] = []
        position = 0
        while position < len(text):
            sequence = _SEQUENCE.match(text, position)
            if sequence is None:
                self._take(text[position])
                position += 1
                continue
            position = sequence.end()
            if sequence[3] == "n" and sequence[2] == "6":
                answers.append(f"\x1b[{min(self.row + 1, self._height)};{self.column + 1}R")
            elif sequence[3] is not None and not sequence[1]:
                self._move(sequence[3], int(sequence[2].split(";")[0] or 0))
        return answers

    def _take(self, letter: str) -> None:
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self.row += 1
            self._reach()
        elif letter == "\b":
            self.column = max(0, self.column - 1)
        elif letter != "\x07":
            cells = self._cells[self.row]
            cells.extend(" " * (self.column + 1 - len(cells)))
            cells[self.column] = letter
            self.column += 1

    def _move(self, kind: str, number: int) -> None:
        if kind == "A":
            self.row = max(0, self.row - (number or 1))
        elif kind == "B":
            self.row += number or 1
            self._reach()
        elif kind == "C":
            self.column += number or 1
        elif kind == "D":
            self.column = max(0, self.column - (number or 1))
        elif kind == "G":
            self.column = max(0, number - 1)
        elif kind == "K":
            self._cells[self.row][self.column if number == 0 else 0 :] = []
        elif kind == "J":
            self._cells[self.row][self.column if number == 0 else 0 :] = []
            del self._cells[self.row + 1 :]

    def _reach(self) -> None:
        while self.row >= len(self._cells):
            self._cells.append([])
