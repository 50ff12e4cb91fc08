"""Groups that went out of memory: written as the states they had, in sorted pieces, and merged in the end.

A piece is small, so that writing one takes a few milliseconds; whoever has given groups away goes on calling `write`
until nothing is left.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from operator import itemgetter

from docstore.aggregation.accumulators import Accumulator
from docstore.aggregation.stage import Run, Spill
from docstore.bson.build import array_from
from docstore.bson.walk import Value, values

_PIECE = 1024

Groups = Iterator[tuple[Value, list[Accumulator]]]


class SpilledGroups:
    """`start` makes the states of a group, given its key; `key_of` gives bytes that are the same for the same group."""

    def __init__(
        self, spill: Spill, start: Callable[[Value], list[Accumulator]], key_of: Callable[[Value], bytes]
    ) -> None:
        self._key_of = key_of
        self._spill = spill
        self._start = start
        self._runs: list[Run] = []
        self._leaving: list[Groups] = []

    def give(self, groups: Groups) -> None:
        """Groups to be written."""
        self._leaving.append(groups)

    def write(self) -> bool:
        """Write a piece; False when there was nothing left."""
        while self._leaving:
            piece = [
                (self._key_of(key), array_from([key, *(state.partial() for state in states)]))
                for key, states in islice(self._leaving[0], _PIECE)
            ]
            if piece:
                piece.sort(key=itemgetter(0))
                self._runs.append(self._spill.write(piece))
                return True
            self._leaving.pop(0)
        return False

    def merged(self) -> Groups:
        """The groups in the order of their keys, once all is written."""
        current = b""
        group: tuple[Value, list[Accumulator]] | None = None
        for encoded, row in heapq.merge(*(run.records() for run in self._runs), key=itemgetter(0)):
            key, *partials = values(row)
            if group is None or encoded != current:
                if group is not None:
                    yield group
                current, group = encoded, (key, self._start(key))
            for state, partial in zip(group[1], partials, strict=True):
                state.merge(partial)
        if group is not None:
            yield group
