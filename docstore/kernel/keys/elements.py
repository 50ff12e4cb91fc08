"""Keys of values inside array elements.

Invariant: they are those of `docstore.kernel.keys.expansion` for the same paths, or None. The result is None for paths
with a number that may name an element. It is None for several paths through arrays, unless they meet in one array, and
each element has one value for each path.
"""

from __future__ import annotations

import cython

from docstore.kernel.keys.folding import TextFolding
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_PATH_NAMES

if not cython.compiled:
    from docstore.bson.walk import (
        ARRAY,
        NULL,
        OBJECT,
        STRING,
        UNDEFINED,
        document_stop,
        find,
        name_end,
        value_end,
    )
    from docstore.kernel.keys.encoding import append_key

_UNKNOWN: cython.int = -1


@cython.exceptval(-2)
def append_directed(
    out: KeyWriter,
    code: cython.int,
    raw: bytes,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    descending: cython.bint,
    fold: TextFolding | None,
) -> cython.int:
    """Append the key of the value at [at, end), folded by a collation, and inverted for a descending field."""
    begin: cython.Py_ssize_t = out.size
    folded: bytes
    if fold is not None and code in (STRING, OBJECT, ARRAY):
        folded = fold.folded(code, raw, at, end)
        append_key(out, code, folded, 0, len(folded))
    else:
        append_key(out, code, raw, at, end)
    return out.invert(begin) if descending else 0


class _Path:
    """One path, with the keys of its values found so far. Bit n of `depth_bits` is set if there was an array with n
    names of the path still to follow.
    """

    names: list[bytes]
    descending: cython.bint
    fold: TextFolding | None
    keys: list[bytes]
    depth_bits: cython.longlong
    _out: KeyWriter

    def __init__(self, names: list[bytes], descending: cython.bint, fold: TextFolding | None) -> None:
        self.names = names
        self.descending = descending
        self.fold = fold
        self.keys = []
        self.depth_bits = 0
        self._out = KeyWriter()

    @cython.exceptval(-2)
    def follow(
        self,
        raw: bytes,
        code: cython.int,
        start: cython.Py_ssize_t,
        limit: cython.Py_ssize_t,
        depth: cython.Py_ssize_t,
    ) -> cython.int:
        """Add the keys at the names from `depth` on in the value at [start, limit); return `_UNKNOWN` or 0."""
        at: cython.Py_ssize_t
        name: bytes
        count: cython.Py_ssize_t = len(self.names)
        while depth < count:
            if code == ARRAY:
                return self._enter(raw, start, limit, depth)
            name = self.names[depth]
            at = find(raw, start, limit, name) if code == OBJECT else -1
            if at < 0:
                return self._give(NULL, raw, 0, 0)
            code = raw[at]
            start = at + len(name) + 2
            limit = value_end(raw, code, start, limit)
            depth += 1
        return self._enter(raw, start, limit, depth) if code == ARRAY else self._give(code, raw, start, limit)

    @cython.exceptval(-2)
    def _enter(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, depth: cython.Py_ssize_t
    ) -> cython.int:
        """Call `follow` for the elements of the array at `start`."""
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        begin: cython.Py_ssize_t
        code: cython.int
        remaining: cython.Py_ssize_t = len(self.names) - depth
        if remaining and self.names[depth].isdigit():
            return _UNKNOWN
        self.depth_bits |= cython.cast(cython.longlong, 1) << remaining
        if at >= stop:
            return self._give(NULL if remaining else UNDEFINED, raw, 0, 0)
        while at < stop:
            code = raw[at]
            begin = name_end(raw, at + 1, stop) + 1
            at = value_end(raw, code, begin, stop)
            if not remaining:
                self._give(code, raw, begin, at)
            elif code != OBJECT:
                self._give(NULL, raw, 0, 0)
            elif self.follow(raw, code, begin, at, depth) == _UNKNOWN:
                return _UNKNOWN
        return 0

    @cython.exceptval(-2)
    def _give(self, code: cython.int, raw: bytes, at: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        self._out.clear()
        append_directed(self._out, code, raw, at, end, self.descending, self.fold)
        self.keys.append(self._out.contents())
        return 0

    def bits(self, leaf: int) -> int:
        """Return the bits of the arrays; `leaf` is that of the path's last name."""
        remaining: cython.int
        array_bits: int = 0
        for remaining in range(len(self.names) + 1):
            if self.depth_bits >> remaining & 1:
                array_bits |= leaf >> remaining
        return array_bits


def element_keys(
    raw: bytes, names: list[list[bytes]], descending: list[bool], leaves: list[int], fold: TextFolding | None
) -> tuple[set[bytes], int] | None:
    """Return (the distinct keys of a document for some paths, the bits of arrays), or None."""
    index: cython.Py_ssize_t
    path: _Path
    array_bits: int = 0
    paths: list[_Path] = []
    through: list[_Path] = []
    for index in range(len(names)):
        path = _Path(names[index], descending[index], fold)
        if len(path.names) > MAX_PATH_NAMES or path.follow(raw, OBJECT, 0, len(raw), 0) == _UNKNOWN:
            return None
        if path.depth_bits:
            through.append(path)
            array_bits |= path.bits(leaves[index])
        paths.append(path)
    if len(through) > 1:
        if not _meet(through):
            return None
    elif not through:
        return {b"".join([path.keys[0] for path in paths])}, 0
    count: cython.Py_ssize_t = len(through[0].keys)
    if len(paths) == 1:
        return set(through[0].keys), array_bits
    columns = [path.keys if path.depth_bits else path.keys * count for path in paths]
    return {b"".join(row) for row in zip(*columns, strict=True)}, array_bits


def _meet(paths: list[_Path]) -> bool:
    """True if each path has one array, and it is the same one, in whose elements the paths continue."""
    first: _Path = paths[0]
    path: _Path
    shared: cython.Py_ssize_t = _names_before(first)
    if shared < 0:
        return False
    for path in paths[1:]:
        if _names_before(path) != shared or path.names[:shared] != first.names[:shared]:
            return False
    return True


@cython.exceptval(-2)
def _names_before(path: _Path) -> cython.Py_ssize_t:
    """Return the number of names that lead to the only array on a path that continues in its elements; -1 if there are
    more.
    """
    remaining: cython.int
    for remaining in range(1, len(path.names)):
        if path.depth_bits == cython.cast(cython.longlong, 1) << remaining:
            return len(path.names) - remaining
    return -1
