"""What was dropped stays away, and what came after the drop stays."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from tests.checkers.history import Anomaly, Kind, Operation, by_key


def check_drops(operations: Iterable[Operation], final: Collection[Hashable]) -> list[Anomaly]:
    """Inserts whose `value` is their namespace, drops whose key is one, and the ids that are there in the end."""
    operations = list(operations)
    drops = by_key(operations, Kind.DROP)
    found = []
    for insert in operations:
        if insert.kind is not Kind.INSERT or insert.value is None:
            continue
        concerned = [each for each in drops.get(insert.value, []) if each.may_have_happened]
        later = [each for each in concerned if each.ok and each.invoked > insert.ended]
        if insert.key in final and later:
            text = f"{insert.key} was there before {insert.value} was dropped, and is there"
            found.append(Anomaly("dropped and back", text, (insert, later[-1])))
        if insert.key not in final and insert.majority and all(each.ended < insert.invoked for each in concerned):
            last = concerned[-1:]
            text = f"{insert.key} came after every drop of {insert.value}, and is gone"
            found.append(Anomaly("lost write", text, (insert, *last)))
    return found
