"""The values at a path that `distinct` collects: through arrays on the way, and one level of an array at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from docstore.aggregation.sorted_runs import RUN_LENGTH, merged_runs
from docstore.bson import Value, get_field, values
from docstore.bson.walk import ARRAY, OBJECT
from docstore.errors import CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.value.collation import Collation

MAX_REPLY_BYTES = 16 * 1024 * 1024
_AT_A_TIME = 2048


class DistinctValues:
    """Values by their encoded key, so that equal ones of different types count once. Errors: 17217 over 16 MiB."""

    def __init__(self, path: str, collation: Collation | None = None) -> None:
        self._path = path.split(".")
        self._collation = collation
        self._found: dict[bytes, Value] = {}
        self._size = 0

    def add(self, documents: list[bytes]) -> None:
        """Take in the values of documents. Of those that are equal under the collation the first is kept."""
        collation = self._collation
        name = self._path[0] if len(self._path) == 1 else None
        for raw in documents:
            only = None if name is None else get_field(raw, name)
            if name is not None and (only is None or only[0] != ARRAY):
                found: Iterable[Value] = () if only is None else (only,)
            else:
                found = values_at((OBJECT, raw), self._path)
            for value in found:
                key = encode_key(value if collation is None else collation.fold(value))
                if key not in self._found:
                    self._found[key] = value
                    self._size += len(value[1]) + 8
        if self._size > MAX_REPLY_BYTES:
            raise CommandError(17217, "distinct too big, 16mb cap")

    def __len__(self) -> int:
        """The number of values found so far."""
        return len(self._found)

    def in_order(self) -> Iterator[list[Value]]:
        """The values in the order of their types and sizes, some at a time; the steps take a few milliseconds."""
        keys = iter(self._found)
        runs: list[list[tuple[bytes]]] = []
        while part := [(key,) for key in islice(keys, RUN_LENGTH)]:
            part.sort()
            runs.append(part)
            yield []
        ordered = merged_runs(runs)
        while found := [self._found[key] for (key,) in islice(ordered, _AT_A_TIME)]:
            yield found


def values_at(value: Value, path: list[str]) -> Iterator[Value]:
    """Every value at the path below `value`."""
    code, data = value
    if not path:
        if code == ARRAY:
            yield from values(data)
        else:
            yield value
    elif code == OBJECT:
        inner = get_field(data, path[0])
        if inner is not None:
            yield from values_at(inner, path[1:])
    elif code == ARRAY:
        members = values(data)
        if path[0].isdigit():
            # A number means a place in an array, never a field of its members.
            if int(path[0]) < len(members):
                yield from values_at(members[int(path[0])], path[1:])
            return
        for member in members:
            if member[0] == OBJECT:
                yield from values_at(member, path)
