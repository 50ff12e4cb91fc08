"""What was acknowledged is there: majority writes for ever, others at least in rollback files, retried ones once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any

from tests.checkers.history import Anomaly, Kind, Operation, by_key
from tests.checkers.lists import Lists


def check_inserts(operations: Iterable[Operation], final: Collection[Hashable]) -> list[Anomaly]:
    """Inserts and deletes of ids, against the ids that are there in the end. Every id is inserted by one operation."""
    found = []
    histories = by_key(operations, Kind.INSERT, Kind.DELETE)
    for key, history in histories.items():
        inserts = [each for each in history if each.kind is Kind.INSERT]
        deletes = [each for each in history if each.kind is Kind.DELETE and each.may_have_happened]
        if any(each.majority for each in inserts) and not deletes and key not in final:
            found.append(
                Anomaly("lost write", f"a majority acknowledged the insert of {key}, which is gone", (*history,))
            )
        for delete in deletes:
            if delete.majority and key in final and all(each.ended < delete.invoked for each in inserts):
                found.append(Anomaly("lost delete", f"a majority acknowledged the deletion of {key}", (*history,)))
        if key in final and not any(each.may_have_happened for each in inserts):
            found.append(Anomaly("phantom", f"{key} is there, and its insert had failed", (*history,)))
    strangers = sorted((key for key in final if key not in histories), key=repr)
    return found + [Anomaly("phantom", f"nobody inserted {key}") for key in strangers]


def check_counters(operations: Iterable[Operation], final: Mapping[Any, int]) -> list[Anomaly]:
    """Increments, each counted once: the end and every read lie between what must and what may have been counted.

    Increments are positive. A read of a majority counts what a majority had acknowledged before it began, if it is
    linearizable; no read counts what began after it.
    """
    found = []
    for key, history in by_key(operations, Kind.ADD, Kind.READ_COUNTER).items():
        adds = [each for each in history if each.kind is Kind.ADD]
        least = sum(each.value for each in adds if each.majority)
        most = sum(each.value for each in adds if each.may_have_happened)
        number = final.get(key, 0)
        if number < least:
            found.append(Anomaly("lost increment", f"{key} is {number} where a majority acknowledged {least}"))
        if number > most:
            found.append(Anomaly("counted twice", f"{key} is {number} where at most {most} can have been added"))
        for read in history:
            if read.kind is Kind.READ_COUNTER and read.ok:
                found += _counter_read(read, adds, number)
    return found


def _counter_read(read: Operation, adds: list[Operation], final: int) -> list[Anomaly]:
    most = sum(each.value for each in adds if each.may_have_happened and each.invoked < read.ended)
    if read.result > most:
        return [Anomaly("counted twice", f"{read.key}: read where at most {most} can have been added", (read,))]
    if read.majority and read.result > final:
        return [Anomaly("lost increment", f"{read.key}: a majority had more than the {final} in the end", (read,))]
    least = sum(each.value for each in adds if each.majority and each.ended < read.invoked)
    if read.read_concern == "linearizable" and read.result < least:
        return [Anomaly("stale read", f"{read.key}: read where {least} had been acknowledged", (read,))]
    return []


def check_rollback_files(
    operations: Iterable[Operation],
    *,
    final_ids: Collection[Hashable],
    final_lists: Lists,
    kept_ids: Collection[Hashable],
    kept_elements: Collection[tuple[Hashable, Any]],
) -> list[Anomaly]:
    """What was acknowledged and is gone is in the rollback files of some member: documents by id, elements by list."""
    operations = list(operations)
    deleted = {each.key for each in operations if each.kind is Kind.DELETE and each.may_have_happened}
    lists = {key: set(elements) for key, elements in final_lists.items()}

    def inserted_is_known(each: Operation) -> bool:
        return each.key in final_ids or each.key in deleted or each.key in kept_ids

    def appended_is_known(each: Operation) -> bool:
        return each.value in lists.get(each.key, ()) or (each.key, each.value) in kept_elements

    known: dict[Kind, Callable[[Operation], bool]] = {Kind.INSERT: inserted_is_known, Kind.APPEND: appended_is_known}
    return [
        Anomaly("lost without a trace", f"{each.key} was acknowledged, is gone, and in no rollback file", (each,))
        for each in operations
        if each.ok and each.kind in known and not known[each.kind](each)
    ]
