# cython: annotation_typing=False
"""Command metrics by collection since the process started, for top, serverStatus and `$collStats`.

- An answered request is counted once, for its collection and in the totals of its command. Totals never decrease.
- Totals, and the metrics of one collection, are read without iterating over all collections.
- Times are seconds of the requests' clock.
- At most `MAX_KEYS` pairs of collection and command are distinguished. When there are as many, those of names that are
  no collection are forgotten; what then finds no room counts for no collection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cython
from bson.int64 import Int64

from docstore.buffers import BUFFERS

MAX_KEYS = 100_000
LOOK_EVERY = 10_000
READS = frozenset(("find", "getMore", "aggregate", "count", "distinct"))
WRITES = frozenset(("bulkWrite", "insert", "update", "delete", "findAndModify"))
_TOP = {"find": "queries", "getMore": "getmore", "insert": "insert", "update": "update", "delete": "remove"}
_TOP_FIELDS = ("total", "readLock", "writeLock", "queries", "getmore", "insert", "update", "remove", "commands")


class Metrics:
    """Counts and times. `refused`: requests answered with an error; `unknown`: requests of unknown commands."""

    def __init__(self) -> None:
        self._costs: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
        """By collection and command: [count, seconds], and the totals of the command."""
        self._totals: dict[str, list[float]] = {}
        self._failed: dict[str, int] = {}
        self.refused = 0
        self.unknown = 0
        self.is_dropped: Callable[[str], bool] | None = None
        """Whether a name is no collection; None where that is not known."""
        self._without_room = 0
        """Requests that found no room since there was last looked for some."""

    @cython.ccall
    def add(self, namespace: str, command: str, seconds: cython.double) -> None:
        """Count an answered request."""
        costs = self._costs.get((namespace, command))
        if costs is None:
            if len(self._costs) >= MAX_KEYS and not self._made_room():
                namespace = ""
            total = self._totals.setdefault(command, [0, 0.0])
            costs = self._costs.setdefault((namespace, command), ([0, 0.0], total))
        cost, total = costs
        cost[0] += 1
        cost[1] += seconds
        total[0] += 1
        total[1] += seconds

    def _made_room(self) -> bool:
        """Return whether there is room again, looking for some at every `LOOK_EVERY`th request that found none."""
        if self.is_dropped is not None and self._without_room % LOOK_EVERY == 0:
            self.forget(self.is_dropped)
        self._without_room = 0 if len(self._costs) < MAX_KEYS else self._without_room + 1
        return len(self._costs) < MAX_KEYS

    def fail(self, command: str | None) -> None:
        """Count a refused request; None if its command is unknown."""
        self.refused += 1
        if command is None:
            self.unknown += 1
        else:
            self._failed[command] = self._failed.get(command, 0) + 1

    def forget(self, is_dropped: Callable[[str], bool]) -> None:
        """Drop the metrics of collections that no longer exist."""
        for key in [key for key in self._costs if key[0] and is_dropped(key[0])]:
            del self._costs[key]

    def by_command(self, names: Iterator[str] | list[str]) -> dict[str, Any]:
        """Return `metrics.commands`: the calls and failures of each name."""
        totals = {command: int(total[0]) for command, total in self._totals.items()}
        by_name: dict[str, Any] = {"<UNKNOWN>": Int64(self.unknown)}
        for name in names:
            by_name[name] = {"failed": Int64(self._failed.get(name, 0)), "total": Int64(totals.get(name, 0))}
        return by_name

    def latencies(self, namespace: str | None = None) -> dict[str, Any]:
        """Return microseconds and counts of reads, writes and other commands, on one collection or on all."""
        sums = {"reads": [0, 0], "writes": [0, 0], "commands": [0, 0], "transactions": [0, 0]}
        for command, cost in self._totals.items():
            if namespace is not None:
                costs = self._costs.get((namespace, command))
                if costs is None:
                    continue
                cost = costs[0]
            kind = "reads" if command in READS else "writes" if command in WRITES else "commands"
            sums[kind][0] += int(cost[1] * 1_000_000)
            sums[kind][1] += int(cost[0])
        return {kind: {"latency": Int64(micros), "ops": Int64(count)} for kind, (micros, count) in sums.items()}

    def top(self) -> dict[str, Any]:
        """Return the microseconds and counts of each collection by kind, sorted by name."""
        by_namespace: dict[str, dict[str, dict[str, int]]] = {}
        for (namespace, command), ((count, seconds), _) in self._costs.items():
            if not namespace:
                continue
            metrics = by_namespace.setdefault(namespace, {name: {"time": 0, "count": 0} for name in _TOP_FIELDS})
            lock = "readLock" if command in READS else "writeLock"
            for name in ("total", lock, _TOP.get(command, "commands")):
                metrics[name]["time"] += int(seconds * 1_000_000)
                metrics[name]["count"] += int(count)
        return {namespace: by_namespace[namespace] for namespace in sorted(by_namespace)}


def buffers_document() -> dict[str, Any]:
    """Return the bytes that cursors and other operations buffer in memory, their limit, and the bytes spilled to
    disk.
    """
    return {
        "heldBytes": Int64(BUFFERS.held),
        "limitBytes": Int64(BUFFERS.limit),
        "spilledBytes": Int64(BUFFERS.spilled),
    }
