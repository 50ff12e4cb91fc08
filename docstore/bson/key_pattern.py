"""The keys that a document has under an index, a sort or a shard key.

A `KeyPattern` is an ordered list of dotted paths with a direction. A document has one key for each combination that
its arrays give; two arrays of which neither lies inside the other cannot be combined (CannotIndexParallelArrays). A
missing field counts as null, an empty array as undefined, which sorts below null.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from docstore.bson.keys import INVERTED
from docstore.bson.walk import Value, encoded_name, get_field, values
from docstore.errors import Code, CommandError

if not cython.compiled:
    from docstore.bson.keys import append_key
    from docstore.bson.walk import ARRAY, NULL, OBJECT, UNDEFINED, find, value_end

_NULL: Value = (NULL, b"")
_UNDEFINED: Value = (UNDEFINED, b"")


class KeyPattern:
    """An ordered list of (dotted path, 1 for ascending or -1 for descending)."""

    fields: tuple[tuple[str, int], ...]
    _paths: list[list[bytes]]
    _descending: list[bool]

    def __init__(self, fields: Sequence[tuple[str, int]]) -> None:
        self.fields = tuple([(path, direction) for path, direction in fields])
        self._paths = [[encoded_name(name) for name in path.split(".")] for path, _ in self.fields]
        self._descending = [direction < 0 for _, direction in self.fields]

    def __repr__(self) -> str:
        return f"KeyPattern({list(self.fields)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyPattern) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def keys(self, raw: bytes) -> tuple[list[bytes], bool]:
        """(distinct keys in order, whether arrays were expanded); CannotIndexParallelArrays for arrays side by side."""
        key: bytes | None = self.plain_key(raw)
        if key is not None:
            return [key], False
        combinations: list[tuple[Value, ...]] = []
        paths = [path.split(".") for path, _ in self.fields]
        _expand(raw, paths, [None] * len(paths), combinations)
        return sorted({self.encode(members) for members in combinations}), True

    def sort_key(self, raw: bytes) -> bytes:
        """The key that the document sorts by: the least of its keys; BadValue for arrays side by side."""
        key: bytes | None = self.plain_key(raw)
        if key is not None:
            return key
        try:
            return self.keys(raw)[0][0]
        except CommandError as error:
            raise CommandError(Code.BadValue, "cannot sort with keys that are parallel arrays") from error

    def shard_key(self, raw: bytes) -> bytes:
        """The one key of a document under a shard key; ShardKeyNotFound when an array is in the way."""
        key: bytes | None = self.plain_key(raw)
        if key is None:
            raise CommandError(Code.ShardKeyNotFound, "Shard key cannot contain array values or array descendants.")
        return key

    def encode(self, members: Sequence[Value]) -> bytes:
        """The key of one value per field (fewer values: the beginning of a key), in the pattern's directions."""
        out = bytearray()
        for (code, raw), descending in zip(members, self._descending, strict=False):
            _append_directed(out, code, raw, 0, len(raw), descending)
        return bytes(out)

    def plain_key(self, raw: bytes) -> bytes | None:
        """The key when no array is on the way, else None."""
        out: bytearray = bytearray()
        position: cython.Py_ssize_t
        for position in range(len(self._paths)):
            if not _append_path(out, raw, self._paths[position], self._descending[position]):
                return None
        return bytes(out)


def _append_directed(
    out: bytearray, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t, descending: cython.bint
) -> cython.int:
    inverse: bytearray
    if descending:
        inverse = bytearray()
        append_key(inverse, code, raw, at, end)
        out += inverse.translate(INVERTED)
        return 0
    return append_key(out, code, raw, at, end)


def _append_path(out: bytearray, raw: bytes, names: list[bytes], descending: cython.bint) -> cython.int:
    """Append the key of the value at a path; 0 when there is an array at it or on the way to it, else 1."""
    start: cython.Py_ssize_t = 0
    limit: cython.Py_ssize_t = len(raw)
    at: cython.Py_ssize_t
    code: cython.int = OBJECT
    name: bytes
    for name in names:
        if code != OBJECT:
            code = NULL
            break
        at = find(raw, start, limit, name)
        if at < 0:
            code = NULL
            break
        code = raw[at]
        start = at + len(name) + 2
        limit = value_end(raw, code, start, limit)
        if code == ARRAY:
            return 0
    _append_directed(out, code, raw, start, limit, descending)
    return 1


def _walk_to_array(raw: bytes, path: list[str]) -> tuple[Value, list[str]]:
    """Follow a path to its end or to the first array: (value there, what is left of the path)."""
    value: Value = (OBJECT, raw)
    for depth, name in enumerate(path):
        if value[0] == ARRAY:
            return value, path[depth:]
        found = get_field(value[1], name) if value[0] == OBJECT else None
        if found is None:
            return _NULL, []
        value = found
    return value, []


def _expand(
    raw: bytes, paths: list[list[str]], fixed: list[Value | None], combinations: list[tuple[Value, ...]]
) -> None:
    """Add the value tuples of a document; `fixed` holds what is known already, `paths` what is left of the others."""
    fixed = list(fixed)
    array: bytes | None = None
    array_path: tuple[str, ...] = ()
    rests: dict[int, list[str]] = {}
    for position, path in enumerate(paths):
        if fixed[position] is not None:
            continue
        value, rest = _walk_to_array(raw, path)
        if value[0] != ARRAY:
            fixed[position] = value
            continue
        place = tuple(path[: len(path) - len(rest)])
        if array is not None and place != array_path:
            raise CommandError(
                Code.CannotIndexParallelArrays,
                f"cannot index parallel arrays [{place[len(place) - 1]}] [{array_path[len(array_path) - 1]}]",
            )
        array, array_path = value[1], place
        rests[position] = rest
    if array is None:
        combinations.append(tuple([value for value in fixed if value is not None]))
        return
    members = values(array)
    if not members:
        for position, rest in rests.items():
            fixed[position] = _NULL if rest else _UNDEFINED
        _expand(raw, paths, fixed, combinations)
        return
    for member in members:
        inner = list(fixed)
        inner_paths: list[list[str]] = [[] for _ in paths]
        for position, rest in rests.items():
            if not rest:
                inner[position] = member
            elif member[0] == OBJECT:
                inner_paths[position] = rest
            else:
                inner[position] = _NULL
        _expand(member[1], inner_paths, inner, combinations)
