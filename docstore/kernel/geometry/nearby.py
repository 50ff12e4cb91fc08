"""Best-first traversal of a geometry index: entries by the lower bound of their distance.

Invariant: no geometry of an entry is nearer than the bound of its cell. The index defines the cells
(`docstore.kernel.geometry.cells`, `docstore.kernel.geometry.plane`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any

import cython

from docstore.bson.walk import Value
from docstore.kernel.geometry.points import DistanceFrom
from docstore.kernel.scan.fetch import Fetching

if not cython.compiled:
    from docstore.kernel.scan.index_bounds import field_end

_Measured = tuple[float, Value]


class CellDistances:
    """Bounds from the last cell measured, for geometries with its key: their distance is at least `low`, and a part of
    them is within `high`. `area` is the area of the plane, or of the sphere, before the cell on the curve.
    """

    low: cython.double
    high: cython.double
    area: cython.double

    def __init__(self) -> None:
        self.low = self.high = self.area = 0.0

    def measure(self, entry: bytes, at: cython.Py_ssize_t) -> cython.bint:
        """Measure the cell at this offset of an entry. False, without a measurement, if there is none."""
        raise NotImplementedError

    def farthest(self) -> cython.double:
        """Return an upper bound of all distances."""
        raise NotImplementedError


class RadiusFilter:
    """Iterates over the `entries`, each of `skipped` bytes and the key of a cell, that may lead to something within
    `radius`. After `most` entries it yields all, to bound the time of one step.
    """

    _entries: Iterator[bytes]
    _cells: CellDistances
    _skipped: cython.Py_ssize_t
    _radius: cython.double
    _remaining: cython.Py_ssize_t

    def __init__(self, entries: Iterator[bytes], cells: CellDistances, skipped: int, radius: float, most: int) -> None:
        self._entries = entries
        self._cells = cells
        self._skipped = skipped
        self._radius = radius
        self._remaining = most

    def __iter__(self) -> RadiusFilter:
        return self

    def __next__(self) -> bytes:
        entry: bytes
        for entry in self._entries:
            if self._remaining <= 0:
                return entry
            self._remaining -= 1
            if not (self._cells.measure(entry, self._skipped) and self._cells.low > self._radius):
                return entry
        raise StopIteration


class Nearby:
    """A priority queue of index entries and documents by distance.

    An entry consists of `skipped` bytes, the keys of fields, inverted where `masks` are 0xff, then the key of a cell.
    `waiting` is a heap of

    - entries (bound, 0, number, entry), numbered in their order, without those beyond `greatest` or nearer than
      `least`;
    - documents (distance, 1, number of the entry, (record id, document)).
    """

    waiting: list[Any]
    _visited_entries: set[bytes]
    _number: cython.Py_ssize_t
    _cells: CellDistances
    _least: cython.double
    _greatest: cython.double
    _skipped: cython.Py_ssize_t
    _masks: list[int]
    _numbers: dict[bytes, int]

    def __init__(self, cells: CellDistances, least: float, greatest: float, skipped: int, masks: Sequence[int]) -> None:
        self.waiting = []
        self._visited_entries = set()
        self._number = 0
        self._cells = cells
        self._least = least
        self._greatest = greatest
        self._skipped = skipped
        self._masks = list(masks)
        self._numbers = {}

    @cython.ccall
    def gather(self, entries: Iterator[bytes], most: cython.Py_ssize_t, radius: cython.double) -> int:
        """Add the new entries within a radius, after reading at most `most`. Return the number read."""
        entry: bytes
        count: cython.Py_ssize_t = 0
        cells: CellDistances = self._cells
        for entry in entries:
            count += 1
            self._measure(entry)
            if cells.low <= radius and entry not in self._visited_entries:
                self._visited_entries.add(entry)
                if cells.low <= self._greatest and cells.high >= self._least:
                    self._number += 1
                    heappush(self.waiting, (cells.low, 0, self._number, entry))
            if count == most:
                break
        return count

    def reach(self, entry: bytes) -> float:
        """Return the distance within which at least a part of the entry's geometry lies."""
        self._measure(entry)
        return self._cells.high

    def area_before(self, entry: bytes) -> float:
        """Return the area before an entry's cell on the curve."""
        self._measure(entry)
        return self._cells.area

    @cython.ccall
    def entries(self, most: cython.Py_ssize_t) -> list[bytes]:
        """Remove and return the nearest entries, at most `most`, until a document is nearer. An entry precedes a
        document at its distance, since its own document may have the same distance.
        """
        top: tuple[Any, ...]
        entries: list[bytes] = []
        self._numbers = {}
        while self.waiting and len(entries) < most:
            top = self.waiting[0]
            if top[1]:
                break
            heappop(self.waiting)
            self._numbers[top[3]] = top[2]
            entries.append(top[3])
        return entries

    def add(
        self,
        documents: Fetching,
        distances: DistanceFrom,
        otherwise: Callable[[bytes], _Measured | None],
    ) -> None:
        """Add the documents of the entries that were removed last, by their distances; `otherwise` measures those that
        `distances` does not support.
        """
        pair: tuple[bytes, bytes]
        far: cython.double
        measured: _Measured | None
        for pair in documents:  # type: ignore[assignment]
            far = distances.distance(pair[1])
            if far < 0.0:
                measured = otherwise(pair[1])
                if measured is None:
                    continue
                far = measured[0]
            if self._least <= far and far <= self._greatest:
                heappush(self.waiting, (far, 1, self._numbers[documents.entry], pair))

    @cython.cfunc
    def _measure(self, entry: bytes) -> None:
        """Measure the cell of an entry; without a cell the bounds are those of the whole space."""
        at: cython.Py_ssize_t = self._skipped
        step: cython.Py_ssize_t
        cells: CellDistances = self._cells
        for step in range(len(self._masks)):
            if at >= 0:
                at = field_end(entry, at, self._masks[step])
        if at < 0 or not cells.measure(entry, at):
            cells.low = 0.0
            cells.high = cells.farthest()
            cells.area = inf
