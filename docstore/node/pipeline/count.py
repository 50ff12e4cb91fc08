"""Pipelines that begin with a count, executed without grouping: no document leaves the scan.

They are `[$match, {$group: {_id: constant, n: {$sum: 1}}}]`, which drivers send for countDocuments, and `[$match,
$count]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.aggregation.accumulators.accumulators import ACCUMULATORS
from docstore.aggregation.stage import WILL_BE_MERGED, Stage
from docstore.aggregation.stages.group import Group
from docstore.bson import Value, document_from, elements, get_field
from docstore.bson.walk import ARRAY, INT32, OBJECT, STRING
from docstore.collection.read.counting import Counting
from docstore.query.value.values import int32_value, int64_value

_INT32_END = 1 << 31
_ONE = (1).to_bytes(4, "little")
_NOT_CONSTANT = frozenset((ARRAY, OBJECT))


@dataclass(frozen=True, slots=True)
class CountedGroup:
    """A group that is only a count: its constant key and the count's fields.

    `partly`: a partial state, to be merged.
    """

    key: Value
    names: tuple[str, ...]
    partly: bool = False

    def documents(self, count: int) -> list[bytes]:
        """Return the group's document; none for a count of 0."""
        if not count:
            return []
        counted = int32_value(count) if count < _INT32_END else int64_value(count)
        if self.partly:
            state = ACCUMULATORS["$sum"]()
            state.add(counted)
            counted = state.partial()
        return [document_from([("_id", *self.key), *((name, *counted) for name in self.names)])]


def counted_group(stages: Sequence[Stage]) -> CountedGroup | None:
    """Return the first stage as a count, if it is a group that only counts; else None."""
    if not stages or not isinstance(stages[0], Group):
        return None
    specification = get_field(stages[0].raw, "$group")
    if specification is None:
        # The group of a `$bucket`, whose key is computed.
        return None
    key: Value | None = None
    names: list[str] = []
    for name, code, data in elements(specification[1]):
        if name == "_id":
            if code in _NOT_CONSTANT or (code == STRING and data[4:5] == b"$"):
                return None
            key = (code, data)
        elif code == OBJECT and elements(data) == [("$sum", INT32, _ONE)]:
            names.append(name)
        elif name != WILL_BE_MERGED:
            return None
    return None if key is None else CountedGroup(key, tuple(names), stages[0].will_be_merged)


class CountStream:
    """Returns the group's document after all input was counted; none for a count of 0."""

    def __init__(self, counting: Counting, group: CountedGroup) -> None:
        self._counting = counting
        self._group = group

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        if not self._counting.advance(deadline):
            return [], False
        return self._group.documents(self._counting.count), True
