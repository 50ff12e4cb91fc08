"""Parts and texts of dates in UTC, calculated as `docstore.kernel.compute.expressions` says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import Value
from docstore.kernel.compute.calendar import civil, day_and_rest, day_of_year, weekday
from docstore.kernel.compute.expressions import Calculation
from docstore.kernel.group.sources import Place, Source
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import DATE, INT32, STRING, int64_at
    from docstore.kernel.compute.expressions import put_integer


class DatePart(Calculation):
    """A part of a date in UTC, by its letter as in formats (`w`: the day of the week from 1 for Sunday)."""

    _letter: cython.int

    def __init__(self, operands: Sequence[Source], otherwise: Callable[[bytes], Value | None], letter: str) -> None:
        super().__init__(operands, otherwise)
        self._letter = ord(letter)

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        self._locate(0, document, self._one)
        if self._one.code != DATE:
            return False
        put_integer(found, INT32, _date_part(self._letter, int64_at(self._one.raw, self._one.at)))
        return True


def _date_part(letter: cython.int, milliseconds: cython.longlong) -> cython.longlong:
    day, rest = day_and_rest(milliseconds)
    if letter == 89:  # Y
        return civil(day)[0]
    if letter == 109:  # m
        return civil(day)[1]
    if letter == 100:  # d
        return civil(day)[2]
    if letter == 72:  # H
        return rest // 3_600_000
    if letter == 77:  # M
        return rest // 60_000 % 60
    if letter == 83:  # S
        return rest // 1000 % 60
    if letter == 76:  # L
        return rest % 1000
    if letter == 106:  # j
        return day_of_year(day)
    return weekday(day) + 1


DATE_PARTS = "YmdHMSLjw"
"""The letters of `DatePart` and `DateText`."""


class DateText(Calculation):
    """`$dateToString` of a date in UTC: each piece is a letter of `DATE_PARTS` or, longer or shorter, a text."""

    _pieces: list[bytes]
    _letters: list[int]
    _out: KeyWriter

    def __init__(
        self,
        operands: Sequence[Source],
        otherwise: Callable[[bytes], Value | None],
        pieces: Sequence[tuple[str | None, bytes]],
    ) -> None:
        """`pieces` are (letter, "") or (None, text)."""
        super().__init__(operands, otherwise)
        self._letters = [0 if letter is None else ord(letter) for letter, _ in pieces]
        self._pieces = [text for _, text in pieces]
        self._out = KeyWriter()

    def _calculated(self, document: bytes, found: Place) -> cython.bint:
        position: cython.Py_ssize_t
        letter: cython.int
        number: cython.longlong
        milliseconds: cython.longlong
        out: KeyWriter = self._out
        self._locate(0, document, self._one)
        if self._one.code != DATE:
            return False
        milliseconds = int64_at(self._one.raw, self._one.at)
        out.clear()
        out.put_little(0, 4)
        for position in range(len(self._letters)):
            letter = self._letters[position]
            if letter == 0:
                out.put_bytes(self._pieces[position])
                continue
            number = _date_part(letter, milliseconds)
            if not 0 <= number <= 9999:
                return False
            if letter == 89:
                out.put(48 + number // 1000)
            if letter in (89, 76, 106):
                out.put(48 + number // 100 % 10)
            if letter != 119:
                out.put(48 + number // 10 % 10)
            out.put(48 + number % 10)
        out.put(0)
        out.set_little(0, out.size - 4, 4)
        found.put(STRING, out.taken())
        return True
