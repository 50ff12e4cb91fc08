"""Causal sessions over append-only lists: whoever has seen something sees, from then on, all that came before it.

What an operation knows is its past: for each list, how many elements of the final order must have been there. A
session carries its past from operation to operation; an append carries that of its session to whoever reads it. A read
that shows less than the past, or an append that lands within it, breaks causality, and where the past came from says
which of the four guarantees that is. They hold where reads and writes have the concern "majority"; other sessions are
not judged.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.checkers.history import Anomaly, Kind, Operation
from tests.checkers.lists import Lists

Past = dict[Hashable, int]


def check_sessions(operations: Iterable[Operation], final: Lists) -> list[Anomaly]:
    """Every operation of a causal session that does not see its past; `final` as in `lists.check_lists`."""
    causal = [each for each in operations if each.kind in (Kind.APPEND, Kind.READ_LIST) and each.session is not None]
    weak = {each.session for each in causal if each.ok and not each.majority}
    checker = _Causality(final)
    # An append hands on what its session knew when it began, and everyone learns when an operation ends.
    events: list[tuple[float, int, Operation]] = []
    for each in causal:
        if each.session in weak:
            continue
        if each.kind is Kind.APPEND and each.may_have_happened:
            events.append((each.invoked, 1, each))
        if each.ok:
            events.append((each.ended, 0, each))
    for _, began, operation in sorted(events, key=lambda event: event[:2]):
        if began:
            checker.began(operation)
        else:
            checker.ended(operation)
    return checker.anomalies


@dataclass
class _Session:
    past: Past = field(default_factory=dict)
    written: Past = field(default_factory=dict)
    read: Past = field(default_factory=dict)


class _Causality:
    def __init__(self, final: Lists) -> None:
        self.anomalies: list[Anomaly] = []
        self._final = final
        self._places = {key: {element: n for n, element in enumerate(elements)} for key, elements in final.items()}
        self._sessions: dict[str | None, _Session] = defaultdict(_Session)
        self._carried: dict[tuple[Hashable, Any], Past] = {}
        self._behind: dict[Hashable, list[Past]] = defaultdict(lambda: [{}])

    def began(self, append: Operation) -> None:
        self._carried[append.key, append.value] = dict(self._sessions[append.session].past)

    def ended(self, operation: Operation) -> None:
        session = self._sessions[operation.session]
        if operation.kind is Kind.APPEND:
            self._append(operation, session)
        else:
            self._read(operation, session)

    def _append(self, append: Operation, session: _Session) -> None:
        place = self._places.get(append.key, {}).get(append.value)
        if place is None:
            return  # lost, which is another checker's to say
        if place < session.past.get(append.key, 0):
            mine = place < session.written.get(append.key, 0)
            self._report("monotonic writes" if mine else "writes follow reads", append, session, place)
        _raise(session.past, {append.key: place + 1})
        _raise(session.written, {append.key: place + 1})

    def _read(self, read: Operation, session: _Session) -> None:
        length = len(read.result)
        if length < session.past.get(read.key, 0):
            if length < session.written.get(read.key, 0):
                guarantee = "read your writes"
            elif length < session.read.get(read.key, 0):
                guarantee = "monotonic reads"
            else:
                guarantee = "causality"
            self._report(guarantee, read, session, length)
        _raise(session.read, {read.key: length})
        _raise(session.past, {read.key: length})
        _raise(session.past, self._past_of(read.key, read.result))

    def _past_of(self, key: Hashable, elements: Sequence[Any]) -> Past:
        """All that whoever appended these elements knew."""
        behind = self._behind[key]
        final = self._final.get(key, ())
        for element in final[len(behind) - 1 : len(elements)]:
            past = dict(behind[-1])
            _raise(past, self._carried.get((key, element), {}))
            behind.append(past)
        return behind[min(len(elements), len(behind) - 1)]

    def _report(self, guarantee: str, operation: Operation, session: _Session, seen: int) -> None:
        text = (
            f"session {operation.session} knew {session.past[operation.key]} elements of {operation.key}, "
            f"and the operation below was at {seen}"
        )
        self.anomalies.append(Anomaly(f"not causal: {guarantee}", text, (operation,)))


def _raise(past: Past, other: Past) -> None:
    for key, length in other.items():
        if length > past.get(key, -math.inf):
            past[key] = length
