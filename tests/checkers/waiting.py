"""Nobody waits for somebody who waits for him, and who holds nothing that others want is answered soon."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from tests.checkers.history import Anomaly

Edges = Mapping[Hashable, Iterable[Hashable]]
"""Who waits for whom at one moment."""


def cycles(edges: Edges) -> set[frozenset[Hashable]]:
    """The members of each cycle of waiting; of two that share a member, one set (Tarjan's components)."""
    number: dict[Hashable, int] = {}
    lowest: dict[Hashable, int] = {}
    path: list[Hashable] = []
    components: set[frozenset[Hashable]] = set()

    def visit(node: Hashable) -> None:
        number[node] = lowest[node] = len(number)
        path.append(node)
        for following in edges.get(node, ()):
            if following not in number:
                visit(following)
                lowest[node] = min(lowest[node], lowest[following])
            elif following in path:
                lowest[node] = min(lowest[node], number[following])
        if lowest[node] == number[node]:
            at = path.index(node)
            component = path[at:]
            del path[at:]
            if len(component) > 1 or node in edges.get(node, ()):
                components.add(frozenset(component))

    for node in edges:
        if node not in number:
            visit(node)
    return components


class WaitingChecker:
    """Looks at moment after moment for cycles that stand for longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._since: dict[frozenset[Hashable], float] = {}
        self.anomalies: list[Anomaly] = []

    def look(self, now: float, edges: Edges) -> None:
        """Take in who waits for whom; each cycle that stands too long is told once."""
        standing = cycles(edges)
        self._since = {cycle: self._since.get(cycle, now) for cycle in standing}
        for cycle, since in self._since.items():
            if now - since > self._seconds:
                text = " and ".join(sorted(f"{waiter} waits for {_listed(edges[waiter], cycle)}" for waiter in cycle))
                self.anomalies.append(Anomaly("cycle of waiting", text))
                self._since[cycle] = float("inf")


def _listed(awaited: Iterable[Hashable], cycle: frozenset[Hashable]) -> str:
    return ", ".join(sorted(str(each) for each in awaited if each in cycle))


def check_patience(waits: Mapping[str, float], seconds: float) -> list[Anomaly]:
    """`waits`: how long each request took of somebody who holds nothing, in seconds."""
    return [
        Anomaly("waits long", f"{request} took {taken:.2f} s") for request, taken in waits.items() if taken > seconds
    ]
