"""Append-only lists: the order in which elements stand shows the order of the writes, so that every read can be placed.

`final` is what stands in each list when all is healed, read from a majority. Elements are unique within their list.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from tests.checkers.history import Anomaly, Kind, Operation, by_key

Lists = Mapping[Any, Sequence[Any]]


def check_lists(operations: Iterable[Operation], final: Lists) -> list[Anomaly]:
    """What in any read or in the end is lost, twice, out of order, stale, or was never (or not to be) there."""
    found = by_key(operations, Kind.APPEND, Kind.READ_LIST)
    return [
        anomaly
        for key in sorted(set(found) | set(final), key=repr)
        for anomaly in _List(key, found.get(key, []), final.get(key, ())).anomalies()
    ]


class _List:
    def __init__(self, key: Hashable, operations: list[Operation], final: Sequence[Any]) -> None:
        self.key = key
        self.final = list(final)
        self.place = {element: place for place, element in enumerate(self.final)}
        self.appends = {each.value: each for each in operations if each.kind is Kind.APPEND}
        self.reads = [each for each in operations if each.kind is Kind.READ_LIST and each.ok]

    def anomalies(self) -> list[Anomaly]:
        found = self._elements(self.final, None)
        for read in self.reads:
            found += self._elements(read.result, read)
            if read.majority:
                found += self._prefix(read)
        return found + self._lost() + self._real_time() + self._stale()

    def _elements(self, elements: Sequence[Any], read: Operation | None) -> list[Anomaly]:
        """What may be said of the elements of a read, or of the end, one by one."""
        where = f"{self.key}, {'in the end' if read is None else 'in a read'}"
        reads = () if read is None else (read,)
        found = []
        for element, count in Counter(elements).items():
            append = self.appends.get(element)
            if count > 1:
                story = () if append is None else (append,)
                found.append(Anomaly("duplicated append", f"{where}: {element} {count} times", story + reads))
            if append is None:
                found.append(Anomaly("phantom", f"{where}: nobody appended {element}", reads))
            elif not append.may_have_happened:
                found.append(Anomaly("aborted read", f"{where}: the append of {element} had failed", (append, *reads)))
            elif read is not None and append.invoked > read.ended:
                found.append(Anomaly("read of the future", f"{where}: {element} came later", (append, read)))
        return found

    def _prefix(self, read: Operation) -> list[Anomaly]:
        """What a majority had stays as it was."""
        for place, element in enumerate(read.result):
            if place < len(self.final) and self.final[place] == element:
                continue
            append = self.appends.get(element)
            operations = (read,) if append is None else (append, read)
            if element not in self.place:
                return [Anomaly("read of rolled back", f"{self.key}: {element} was read and is gone", operations)]
            text = f"{self.key}: {element} was read at place {place} and stands at {self.place[element]} in the end"
            return [Anomaly("reordered", text, operations)]
        return []

    def _lost(self) -> list[Anomaly]:
        return [
            Anomaly("lost append", f"{self.key}: a majority acknowledged {append.value}, which is gone", (append,))
            for append in self.appends.values()
            if append.majority and append.value not in self.place
        ]

    def _real_time(self) -> list[Anomaly]:
        """An append that was acknowledged before another began stands before it."""
        found = []
        first_ended: Operation | None = None
        for element in reversed(self.final):
            append = self.appends.get(element)
            if append is None:
                continue
            if first_ended is not None and first_ended.ended < append.invoked:
                text = f"{self.key}: {first_ended.value} was done before {element} began, and stands behind it"
                found.append(Anomaly("reordered", text, (first_ended, append)))
            if append.ok and append.ended < (math.inf if first_ended is None else first_ended.ended):
                first_ended = append
        return found

    def _stale(self) -> list[Anomaly]:
        """A linearizable read sees all that a majority had acknowledged, or shown, before it began."""
        known = [(each.ended, self.place[each.value] + 1, each) for each in self._placed() if each.majority]
        known += [(each.ended, len(each.result), each) for each in self.reads if each.majority]
        known.sort(key=lambda row: row[0])
        found = []
        longest, witness, next_known = 0, None, 0
        for read in sorted(self.reads, key=lambda each: each.invoked):
            if read.read_concern != "linearizable":
                continue
            while next_known < len(known) and known[next_known][0] < read.invoked:
                if known[next_known][1] > longest:
                    _, longest, witness = known[next_known]
                next_known += 1
            if len(read.result) < longest and witness is not None:
                text = f"{self.key}: {len(read.result)} elements were read where {longest} were known before"
                found.append(Anomaly("stale read", text, (witness, read)))
        return found

    def _placed(self) -> list[Operation]:
        return [each for element, each in self.appends.items() if element in self.place]
