"""The distinct values that `distinct` collects, and their order."""

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
    """The distinct values at a path. Errors: 17217 over 16 MiB."""

    def __init__(self, path: str, collation: Collation | None = None) -> None:
        self._values = ValueSet(path, None if collation is None else collation.fold)

    def add(self, documents: list[bytes]) -> None:
        """Add the values of documents; of values equal under the collation the first is kept."""
        self._values.add(documents)
        if self._values.size > MAX_REPLY_BYTES:
            raise CommandError(17217, "distinct too big, 16mb cap")

    def __len__(self) -> int:
        """Return the number of distinct values so far."""
        return len(self._values.by_key)

    def few_in_order(self) -> list[Value] | None:
        """Return the values in order if they are few enough for one step; else None."""
        values_by_key = self._values.by_key
        return [values_by_key[key] for key in sorted(values_by_key)] if len(values_by_key) <= _AT_A_TIME else None

    def in_order(self) -> Iterator[list[Value]]:
        """Yield the values in order of type and value, in batches; each step takes a few milliseconds."""
        keys = iter(self._values.by_key)
        runs: list[list[tuple[bytes]]] = []
        while part := [(key,) for key in islice(keys, RUN_LENGTH)]:
            part.sort()
            runs.append(part)
            yield []
        ordered = merged_runs(runs)
        while batch := [self._values.by_key[key] for (key,) in islice(ordered, _AT_A_TIME)]:
            yield batch
