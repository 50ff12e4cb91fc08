"""The values that `distinct` collects, and the order that it gives them in."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from docstore.aggregation.sorted_runs import RUN_LENGTH, merged_runs
from docstore.bson import Value
from docstore.errors import CommandError
from docstore.kernel.group.value_set import ValueSet
from docstore.query.value.collation import Collation

MAX_REPLY_BYTES = 16 * 1024 * 1024
_AT_A_TIME = 2048


class DistinctValues:
    """The different values at a path. Errors: 17217 over 16 MiB."""

    def __init__(self, path: str, collation: Collation | None = None) -> None:
        self._values = ValueSet(path, None if collation is None else collation.fold)

    def add(self, documents: list[bytes]) -> None:
        """Take in the values of documents. Of those that are equal under the collation the first is kept."""
        self._values.add(documents)
        if self._values.size > MAX_REPLY_BYTES:
            raise CommandError(17217, "distinct too big, 16mb cap")

    def __len__(self) -> int:
        """The number of values found so far."""
        return len(self._values.found)

    def few_in_order(self) -> list[Value] | None:
        """The values in order, where they are no more than a step puts in order and together."""
        found = self._values.found
        return [found[key] for key in sorted(found)] if len(found) <= _AT_A_TIME else None

    def in_order(self) -> Iterator[list[Value]]:
        """The values in the order of their types and sizes, some at a time; the steps take a few milliseconds."""
        keys = iter(self._values.found)
        runs: list[list[tuple[bytes]]] = []
        while part := [(key,) for key in islice(keys, RUN_LENGTH)]:
            part.sort()
            runs.append(part)
            yield []
        ordered = merged_runs(runs)
        while found := [self._values.found[key] for (key,) in islice(ordered, _AT_A_TIME)]:
            yield found
