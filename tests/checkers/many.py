"""Statements over many documents while chunks move: each document that was there throughout is met exactly once.

Every such update puts a tag of its own on the documents that it meets, so their tags tell in the end what met them how
often. A statement that failed may have met some, and none twice; so may one of unknown outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.checkers.history import Anomaly, Kind, Operation, by_key

Tags = Mapping[Any, Sequence[Any]]
Concerns = Callable[[Operation, Hashable], bool]


def _all(_operation: Operation, _id: Hashable) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Life:
    """A document is certainly there from `begins` on and before `ends`."""

    begins: float
    ends: float

    def covers(self, operation: Operation) -> bool:
        return self.begins < operation.invoked and operation.ended < self.ends


def check_many(operations: Iterable[Operation], final: Tags, *, concerns: Concerns = _all) -> list[Anomaly]:
    """Updates of many, updates by id and finds of all, against the tags of the documents in the end.

    Ids are inserted once, by a majority. `concerns(operation, id)`: whether an update or find of many means that
    document at all, which must not change while it lives.
    """
    operations = list(operations)
    lives = _lives(operations)
    counts = {id_: Counter(tags) for id_, tags in final.items()}
    found: list[Anomaly] = []
    for each in operations:
        if each.kind is Kind.UPDATE_MANY:
            met = [id_ for id_ in lives if concerns(each, id_)]
            found += _tagged(each, met, lives, counts)
        elif each.kind is Kind.UPDATE_BY_ID:
            found += _tagged(each, [each.key], lives, counts)
            life = lives.get(each.key)
            if each.ok and each.result == 0 and life is not None and life.covers(each):
                found.append(Anomaly("not found by id", f"{each.key!r} was there throughout", (each,)))
        elif each.kind is Kind.FIND_ALL and each.ok:
            found += _shown(each, [id_ for id_ in lives if concerns(each, id_)], lives)
    return found


def _lives(operations: list[Operation]) -> dict[Hashable, _Life]:
    lives = {}
    for id_, history in by_key(operations, Kind.INSERT, Kind.DELETE).items():
        begins = [each.ended for each in history if each.kind is Kind.INSERT and each.majority]
        ends = [each.invoked for each in history if each.kind is Kind.DELETE and each.may_have_happened]
        if begins:
            lives[id_] = _Life(min(begins), min(ends, default=float("inf")))
    return lives


def _tagged(
    update: Operation, ids: list[Hashable], lives: Mapping[Hashable, _Life], counts: Mapping[Hashable, Counter[Any]]
) -> list[Anomaly]:
    found = []
    for id_ in ids:
        if id_ not in counts:
            continue
        times = counts[id_][update.value]
        if times > 1:
            found.append(Anomaly("updated twice", f"{id_!r} was met {times} times", (update,)))
        elif times and not update.may_have_happened and update.kind is Kind.UPDATE_BY_ID:
            found.append(Anomaly("failed and happened", f"{id_!r} was met", (update,)))
        elif not times and update.majority and (update.kind is Kind.UPDATE_MANY or update.result):
            life = lives.get(id_)
            if life is not None and life.covers(update):
                found.append(Anomaly("not updated", f"{id_!r} was there throughout", (update,)))
    return found


def _shown(find: Operation, ids: list[Hashable], lives: Mapping[Hashable, _Life]) -> list[Anomaly]:
    shown = Counter(find.result)
    twice = [id_ for id_, count in shown.items() if count > 1]
    missed = [id_ for id_ in ids if id_ not in shown and lives[id_].covers(find)]
    found = []
    if twice:
        found.append(Anomaly("shown twice", f"{twice[:5]!r} ({len(twice)} in all)", (_brief(find),)))
    if missed:
        text = f"{missed[:5]!r} ({len(missed)} in all) were there throughout"
        found.append(Anomaly("not shown", text, (_brief(find),)))
    return found


def _brief(find: Operation) -> Operation:
    return Operation(
        process=find.process, kind=find.kind, key=find.key, invoked=find.invoked, ended=find.ended, outcome=find.outcome
    )
