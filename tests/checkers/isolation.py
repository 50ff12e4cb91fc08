"""Transactions over append-only lists: what snapshot isolation forbids, found as cycles of dependencies.

Every transaction appends to lists and reads them. The order of the elements in the end is the order in which the
transactions that appended them took effect, so for every two of them it is known which depends on which:

* ww: the other one's element stands directly behind mine in a list;
* wr: the last element that the other one has read of a list is mine;
* rw: I have read a list up to the element before the other one's, that is: not what it appended.

Under snapshot isolation every cycle has two rw edges in a row (write skew, which is allowed). A cycle in which no two
rw edges meet is an anomaly, with the name that it has in the literature (Adya's thesis): G0 where all edges are ww, G1c
where some are wr, lost update or G-single with one rw, G-nonadjacent with several. Where edges may be followed only as
far as no rw follows another, these cycles are the strongly connected parts that are left.

A transaction takes part when it was committed, by what its client was told or by the elements that stand in the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from tests.checkers.history import Anomaly, Kind, Operation
from tests.checkers.lists import Lists

APPEND, READ = "append", "read"


class Depends(StrEnum):
    WW = "ww"
    WR = "wr"
    RW = "rw"


class Edge(NamedTuple):
    """`target` depends on `source` by what stands in the list `key`."""

    source: int
    kind: Depends
    key: Hashable
    target: int


@dataclass(slots=True)
class _Transaction:
    """One that was committed. `appended`: its elements by list, in order; `read`: what it saw of each list at first."""

    operation: Operation
    appended: dict[Hashable, list[Any]] = field(default_factory=lambda: defaultdict(list))
    read: dict[Hashable, list[Any]] = field(default_factory=dict)


def check_isolation(operations: Iterable[Operation], final: Lists) -> list[Anomaly]:
    """What transactions under snapshot isolation do not do; `final`: the lists when all is healed, of a majority.

    Elements are unique within their list. All transactions read the newest state of a primary.
    """
    transactions = [each for each in operations if each.kind is Kind.TRANSACTION]
    lists = _Lists(transactions, final)
    found = [*lists.elements(), *lists.reads()]
    if any(each.kind in ("phantom", "reordered", "duplicated append") for each in found):
        # The order in the end says nothing then.
        return found
    graph = _Graph(lists)
    return [*found, *graph.anomalies()]


def write_skews(operations: Iterable[Operation], final: Lists) -> list[list[Edge]]:
    """Cycles that snapshot isolation allows: one of each part of the history in which everything hangs together."""
    transactions = [each for each in operations if each.kind is Kind.TRANSACTION]
    return _Graph(_Lists(transactions, final)).skews()


class _Lists:
    """What is known of each list, and what can be said without looking at several together."""

    def __init__(self, transactions: Sequence[Operation], final: Lists) -> None:
        self.final = {key: list(elements) for key, elements in final.items()}
        self.places = {key: {element: at for at, element in enumerate(each)} for key, each in self.final.items()}
        self.writers: dict[tuple[Hashable, Any], Operation] = {}
        self._last: dict[tuple[int, Hashable], Any] = {}
        for each in transactions:
            for what, key, element in each.value:
                if what == APPEND:
                    self.writers[key, element] = each
                    self._last[id(each), key] = element
        self._all = transactions
        stands = {id(self.writers[key, element]) for key, element in self._standing() if (key, element) in self.writers}
        self.committed = [each for each in transactions if each.ok or (each.may_have_happened and id(each) in stands)]

    def _standing(self) -> Iterator[tuple[Hashable, Any]]:
        return ((key, element) for key, elements in self.final.items() for element in elements)

    # Elements, one by one

    def elements(self) -> list[Anomaly]:
        found = []
        for key, elements in self.final.items():
            for element, count in Counter(elements).items():
                writer = self.writers.get((key, element))
                if writer is None:
                    found.append(Anomaly("phantom", f"{key}: nobody appended {element}"))
                elif not writer.may_have_happened:
                    found.append(Anomaly("aborted and happened", f"{key}: {element} stands in the end", (writer,)))
                if count > 1:
                    story = () if writer is None else (writer,)
                    found.append(Anomaly("duplicated append", f"{key}: {element} stands {count} times", story))
        for each in self.committed:
            missing = [(key, element) for what, key, element in each.value if what == APPEND]
            present = [step for step in missing if step[1] in self.places.get(step[0], {})]
            missing = [step for step in missing if step not in present]
            if missing and present:
                found.append(Anomaly("half-committed", f"{present} stand in the end, {missing} do not", (each,)))
            elif missing and each.majority:
                found.append(Anomaly("lost transaction", f"a majority acknowledged {missing}", (each,)))
        return found

    # Reads, one by one

    def reads(self) -> list[Anomaly]:
        return [found for each in self.committed for found in self._reads_of(each)]

    def _reads_of(self, transaction: Operation) -> Iterator[Anomaly]:
        mine: dict[Hashable, list[Any]] = defaultdict(list)
        first: dict[Hashable, list[Any]] = {}
        for what, key, value in transaction.value:
            if what == APPEND:
                mine[key].append(value)
                continue
            others = value[: len(value) - len(mine[key])]
            if value[len(others) :] != mine[key]:
                text = f"{key}: {value} was read behind its own {mine[key]}"
                yield Anomaly("own writes not read", text, (transaction,))
                continue
            if others != first.setdefault(key, others):
                text = f"{key}: {first[key]} was read first, and {others} later"
                yield Anomaly("not repeatable", text, (transaction,))
                continue
            yield from self._external(transaction, key, others)

    def _external(self, transaction: Operation, key: Hashable, elements: list[Any]) -> Iterator[Anomaly]:
        """Of what others have appended."""
        for at, element in enumerate(elements):
            writer = self.writers.get((key, element))
            if writer is None:
                yield Anomaly("phantom", f"{key}: nobody appended {element}", (transaction,))
            elif writer is transaction:
                yield Anomaly("read of the future", f"{key}: {element} was read before its append", (transaction,))
            elif not writer.may_have_happened:
                yield Anomaly("G1a aborted read", f"{key}: {element}", (writer, transaction))
            elif at + 1 == len(elements) and self._last[id(writer), key] != element:
                yield Anomaly("G1b intermediate read", f"{key}: up to {element}", (writer, transaction))
        standing = self.final.get(key, [])
        if standing[: len(elements)] != elements:
            gone = [element for element in elements if element not in self.places.get(key, {})]
            if gone:
                yield Anomaly("read of rolled back", f"{key}: {gone} were read and are gone", (transaction,))
            else:
                yield Anomaly("reordered", f"{key}: read as {elements}, in the end {standing}", (transaction,))
        elif len(elements) < len(standing):
            yield from self._stale(transaction, key, standing[len(elements) :])

    def _stale(self, transaction: Operation, key: Hashable, missed: list[Any]) -> Iterator[Anomaly]:
        """A snapshot shows what was acknowledged before it was asked for."""
        for element in missed:
            writer = self.writers.get((key, element))
            if writer is not None and writer.ok and writer.ended < transaction.invoked:
                yield Anomaly("stale snapshot", f"{key}: {element} was acknowledged before", (writer, transaction))
                return


class _Graph:
    """Transactions by their place in `_Lists.committed`, and what depends on what."""

    def __init__(self, lists: _Lists) -> None:
        self._operations = lists.committed
        numbers = {id(each): number for number, each in enumerate(self._operations)}
        self.edges: list[list[Edge]] = [[] for _ in self._operations]
        seen: set[Edge] = set()

        def add(source: int | None, kind: Depends, key: Hashable, target: int | None) -> None:
            if source is not None and target is not None and source != target:
                edge = Edge(source, kind, key, target)
                if edge not in seen:
                    seen.add(edge)
                    self.edges[source].append(edge)

        def writer(key: Hashable, elements: Sequence[Any], at: int) -> int | None:
            found = lists.writers.get((key, elements[at])) if 0 <= at < len(elements) else None
            return None if found is None else numbers.get(id(found))

        for key, elements in lists.final.items():
            for at in range(1, len(elements)):
                add(writer(key, elements, at - 1), Depends.WW, key, writer(key, elements, at))
        for number, each in enumerate(self._operations):
            own: Counter[Hashable] = Counter()
            for what, key, value in each.value:
                if what == APPEND:
                    own[key] += 1
                    continue
                elements, length = lists.final.get(key, []), len(value) - own[key]
                if elements[:length] == value[:length]:
                    add(writer(key, elements, length - 1), Depends.WR, key, number)
                    # What follows may be its own: then whoever wrote behind that comes later anyway.
                    add(number, Depends.RW, key, writer(key, elements, length))

    # Cycles

    def anomalies(self) -> list[Anomaly]:
        """One for each part in which there are cycles without two rw in a row: the worst of these cycles."""
        found = []
        for part in _parts(range(2 * len(self.edges)), self._not_twice_rw):
            inside = {state // 2 for state in part}
            cycle = self._worst(inside)
            found.append(Anomaly(_name(cycle), _told(cycle), tuple(self._operations[edge.source] for edge in cycle)))
        return found

    def skews(self) -> list[list[Edge]]:
        """Cycles that have two rw in a row, of the parts where no others are."""
        forbidden = {state // 2 for part in _parts(range(2 * len(self.edges)), self._not_twice_rw) for state in part}
        found = []
        for part in _parts(range(len(self.edges)), lambda node: [edge.target for edge in self.edges[node]]):
            if forbidden.isdisjoint(part):
                found.append(self._shortest(set(part), lambda _before, _edge: True))
        return found

    def _not_twice_rw(self, state: int) -> list[int]:
        """States are twice the transaction's number, and one more where it was come to by a rw edge."""
        node, by_rw = divmod(state, 2)
        return [
            2 * edge.target + (edge.kind is Depends.RW)
            for edge in self.edges[node]
            if not (by_rw and edge.kind is Depends.RW)
        ]

    def _worst(self, inside: Collection[int]) -> list[Edge]:
        only_ww = self._shortest(inside, lambda _before, edge: edge.kind is Depends.WW)
        return (
            only_ww
            or self._shortest(inside, lambda _before, edge: edge.kind is not Depends.RW)
            or self._with_one_rw(inside)
            or self._shortest(inside, lambda before, edge: before is not Depends.RW or edge.kind is not Depends.RW)
        )

    def _with_one_rw(self, inside: Collection[int]) -> list[Edge]:
        best: list[Edge] = []
        for node in inside:
            for first in self.edges[node]:
                if first.kind is Depends.RW:
                    found = self._cycle(
                        first, inside, lambda _, edge, one=first: edge is one or edge.kind is not Depends.RW
                    )
                    best = min(filter(None, (best, found)), key=len, default=[])
        return best

    def _shortest(self, inside: Collection[int], may: Callable[[Depends, Edge], bool]) -> list[Edge]:
        """The shortest cycle of edges of which each may follow the one before; empty where there is none."""
        best: list[Edge] = []
        for node in inside:
            for first in self.edges[node]:
                found = self._cycle(first, inside, may)
                best = min(filter(None, (best, found)), key=len, default=[])
        return best

    def _cycle(self, first: Edge, inside: Collection[int], may: Callable[[Depends, Edge], bool]) -> list[Edge]:
        """The fewest edges that lead back from the end of the first one, which it is followed by; empty for none."""
        begin = (first.target, first.kind)
        came: dict[tuple[int, Depends], tuple[tuple[int, Depends], Edge]] = {}
        waiting = deque([begin] if first.target in inside else [])
        while waiting:
            state = waiting.popleft()
            for edge in self.edges[state[0]]:
                following = (edge.target, edge.kind)
                if edge.target not in inside or following == begin or following in came or not may(state[1], edge):
                    continue
                came[following] = (state, edge)
                if edge.target == first.source and may(edge.kind, first):
                    return [first, *_walked(came, following, begin)]
                waiting.append(following)
        return []


def _walked(
    came: Mapping[tuple[int, Depends], tuple[tuple[int, Depends], Edge]],
    last: tuple[int, Depends],
    first: tuple[int, Depends],
) -> list[Edge]:
    path = []
    while last != first:
        last, edge = came[last]
        path.append(edge)
    return path[::-1]


def _name(cycle: Sequence[Edge]) -> str:
    kinds = [edge.kind for edge in cycle]
    if Depends.RW not in kinds:
        return "G1c circular information flow" if Depends.WR in kinds else "G0 dirty write"
    if kinds.count(Depends.RW) > 1:
        return "G-nonadjacent"
    if len(cycle) == 2 and Depends.WW in kinds and cycle[0].key == cycle[1].key:
        return "lost update"
    return "G-single read skew"


def _told(cycle: Sequence[Edge]) -> str:
    return ", ".join(f"{number} -{edge.kind} {edge.key}->" for number, edge in enumerate(cycle)) + " 0"


def _parts(nodes: Iterable[int], after: Callable[[int], list[int]]) -> list[list[int]]:
    """The strongly connected parts of more than one node (Tarjan's algorithm, without recursion)."""
    order: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    stacked: set[int] = set()
    found: list[list[int]] = []
    for root in nodes:
        if root in order:
            continue
        work: list[tuple[int, Iterator[int]]] = []

        def enter(node: int, work: list[tuple[int, Iterator[int]]] = work) -> None:
            order[node] = lowest[node] = len(order)
            stack.append(node)
            stacked.add(node)
            work.append((node, iter(after(node))))

        enter(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        stacked.discard(part[-1])
                    if len(part) > 1:
                        found.append(part)
            elif following not in order:
                enter(following)
            elif following in stacked:
                lowest[node] = min(lowest[node], order[following])
    return found
