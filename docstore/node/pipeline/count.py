"""A pipeline that only counts: `[$match, {$group: {_id: constant, n: {$sum: 1}}}]`, what drivers send for
countDocuments.

It is answered by counting instead of grouping: no document leaves the scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.aggregation.stage import Stage
from docstore.aggregation.stages.group import Group
from docstore.bson import Value, document_from, elements, get_field
from docstore.bson.walk import ARRAY, INT32, OBJECT, STRING
from docstore.collection.read.counting import Counting
from docstore.node.read.sources import Batch, Documents
from docstore.query.value.values import int32_value, int64_value

_INT32_END = 1 << 31
_ONE = (1).to_bytes(4, "little")
_NOT_CONSTANT = frozenset((ARRAY, OBJECT))


@dataclass(frozen=True, slots=True)
class CountedGroup:
    """The constant key, and the fields that hold the count."""

    key: Value
    names: tuple[str, ...]

    def document(self, count: int) -> bytes:
        """The one group there is."""
        counted = int32_value(count) if count < _INT32_END else int64_value(count)
        return document_from([("_id", *self.key), *((name, *counted) for name in self.names)])


def counted_group(stages: Sequence[Stage]) -> CountedGroup | None:
    """The group that the stages come to, if they are nothing but a count."""
    if len(stages) != 1 or not isinstance(stages[0], Group):
        return None
    specification = get_field(stages[0].raw, "$group")
    assert specification is not None, "a $group stage without its specification"
    key: Value | None = None
    names: list[str] = []
    for name, code, data in elements(specification[1]):
        if name == "_id":
            if code in _NOT_CONSTANT or (code == STRING and data[4:5] == b"$"):
                return None
            key = (code, data)
        elif code == OBJECT and elements(data) == [("$sum", INT32, _ONE)]:
            names.append(name)
        else:
            return None
    return None if key is None else CountedGroup(key, tuple(names))


class CountSource:
    """The group's document, once everything has been counted; nothing where there was nothing to count."""

    def __init__(self, counting: Counting, group: CountedGroup) -> None:
        self._counting = counting
        self._group = group
        self._given = False

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        del max_bytes
        if self._given:
            return Documents([], True)
        if max_docs <= 0 or not self._counting.advance(deadline):
            return Documents([], False)
        self._given = True
        count = self._counting.count
        return Documents([self._group.document(count)] if count else [], True)

    def close(self) -> None:
        """The count holds nothing but iterators of the view."""
