"""The keys of a document under an index, a sort or a shard key.

A `KeyPattern` is an ordered list of dotted paths with a direction. A document has one key for each combination of its
arrays' elements; parallel arrays cannot be combined (CannotIndexParallelArrays). A missing field counts as null, an
empty array as undefined, which sorts below null.
"""

from __future__ import annotations

from collections.abc import Sequence

import cython

from docstore.bson.walk import Value, encoded_name
from docstore.errors import Code, CommandError
from docstore.kernel.keys.elements import element_keys
from docstore.kernel.keys.expansion import Field, expand
from docstore.kernel.keys.folding import TextFolding
from docstore.kernel.keys.gathered import GatheredEntries
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.scan.covered import OPAQUE

if not cython.compiled:
    from docstore.bson.walk import (
        ARRAY,
        NULL,
        OBJECT,
        UNDEFINED,
        document_stop,
        find,
        name_end,
        value_end,
    )
    from docstore.kernel.keys.elements import append_directed
    from docstore.kernel.scan.covered import ABSENT_MARK, OPAQUE_MARK, mark_of


class KeyPattern:
    """An ordered list of (dotted path, 1 for ascending or -1 for descending). Not thread-safe.

    `fold` replaces each value that holds strings by its folded value under a collation.
    """

    fields: tuple[tuple[str, int], ...]
    fold: TextFolding | None
    _paths: list[list[bytes]]
    _descending: list[bool]
    _out: KeyWriter
    _suffix: KeyWriter
    _array_at: cython.Py_ssize_t
    _array_end: cython.Py_ssize_t
    _array_is_leaf: cython.bint
    _marking: cython.bint
    _marks: bytearray
    _marked: cython.Py_ssize_t
    _opaque: cython.bint
    _leaf_places: list[int]

    def __init__(self, fields: Sequence[tuple[str, int]], fold: TextFolding | None = None) -> None:
        self.fields = tuple([(path, direction) for path, direction in fields])
        self.fold = fold
        self._paths = [[encoded_name(name) for name in path.split(".")] for path, _ in self.fields]
        self._leaf_places = _leaf_places([path for path, _ in self.fields])
        self._descending = [direction < 0 for _, direction in self.fields]
        self._out = KeyWriter()
        self._suffix = KeyWriter()
        self._array_at = 0
        self._array_end = 0
        self._array_is_leaf = False
        self._marking = False
        self._marks = bytearray(len(self.fields))
        self._marked = 0
        self._opaque = False

    def __repr__(self) -> str:
        return f"KeyPattern({list(self.fields)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyPattern) and self.fields == other.fields and self.fold == other.fold

    def __hash__(self) -> int:
        return hash(self.fields)

    def keys(self, raw: bytes) -> tuple[list[bytes], int]:
        """Return (distinct keys in order, bits of expanded arrays); CannotIndexParallelArrays for parallel arrays.

        For the bits see `array_places`; 0: there was no array.
        """
        key: bytes | None = self.plain_key(raw)
        if key is not None:
            return [key], 0
        keys, array_bits = self._expanded_keys(raw)
        return sorted(keys), array_bits

    @cython.cfunc
    def _expanded_keys(self, raw: bytes) -> tuple[set[bytes], int]:
        """Return the keys of a document that has arrays on the paths."""
        array_bits: int
        leaf_keys = self._leaf_array_keys(raw, b"", b"")
        if leaf_keys is not None:
            return leaf_keys[0], self._leaf_places[leaf_keys[1]]
        self._opaque = True
        nested = element_keys(raw, self._paths, self._descending, self._leaf_places, self.fold)
        if nested is not None:
            return nested
        combinations: list[tuple[Value, ...]] = []
        fields: list[Field] = []
        for position, (path, _) in enumerate(self.fields):
            fields.append(Field((OBJECT, raw), path.split("."), (), "", self._leaf_places[position]))
        array_bits = expand(fields, combinations)
        return {self.encode(members) for members in combinations}, array_bits

    def marked_keys(self, raw: bytes) -> tuple[list[bytes], int, bytes]:
        """Return `keys`, and the marks of `docstore.kernel.scan.covered`; no marks if values were folded.

        A field whose own value is an array has no mark: its entries do not cover it. If a member's key cannot be read
        back, the document has no marks.
        """
        key: bytes | None
        self._begin_marks()
        key = self.plain_key(raw)
        if key is not None:
            return [key], 0, self._taken_marks()
        self._begin_marks()
        keys, array_bits = self._expanded_keys(raw)
        return sorted(keys), array_bits, self._taken_marks()

    def add_entries(self, prefix: bytes, raw: bytes, rid: bytes, out: list[bytes], marked: dict[bytes, bytes]) -> int:
        """Append `marked_keys`, each between `prefix` and `rid`; add those with marks to `marked`. Return the
        bits of arrays.
        """
        position: cython.Py_ssize_t
        entry: bytes
        self._begin_marks()
        self._out.clear()
        self._out.put_bytes(prefix)
        for position in range(len(self._paths)):
            if not self._append_path(raw, position):
                break
        else:
            self._out.put_bytes(rid)
            entry = self._out.contents()
            out.append(entry)
            if marks := self._taken_marks():
                marked[entry] = marks
            return 0
        self._begin_marks()
        leaf_keys = self._leaf_array_keys(raw, prefix, rid)
        if leaf_keys is None:
            keys, array_bits, marks = self.marked_keys(raw)
            added = [prefix + key + rid for key in keys]
        else:
            array_bits, marks, added = self._leaf_places[leaf_keys[1]], self._taken_marks(), list(leaf_keys[0])
        out += added
        if marks:
            marked.update(dict.fromkeys(added, marks))
        return array_bits

    def add_each(
        self,
        prefix: bytes,
        documents: list[bytes],
        rids: list[bytes],
        outs: list[list[bytes]],
        marked: dict[bytes, bytes],
    ) -> int:
        """Call `add_entries` for many documents, with a list for each; return all bits of arrays."""
        index: cython.Py_ssize_t
        array_bits: int = 0
        for index in range(len(documents)):
            array_bits |= self.add_entries(prefix, documents[index], rids[index], outs[index], marked)
        return array_bits

    @cython.ccall
    def gather(self, prefix: bytes, raw: bytes, rid: bytes, into: GatheredEntries) -> int:
        """Add entries as `add_entries` does, to a collection that sorts them; an entry may be added twice."""
        position: cython.Py_ssize_t
        self._begin_marks()
        self._out.clear()
        self._out.put_bytes(prefix)
        for position in range(len(self._paths)):
            if not self._append_path(raw, position):
                return self._gather_array(prefix, raw, rid, into, position)
        self._out.put_bytes(rid)
        into.add_written(self._out)
        self._give_marks(into, into.count - 1)
        return 0

    def _gather_array(
        self, prefix: bytes, raw: bytes, rid: bytes, into: GatheredEntries, varying: cython.Py_ssize_t
    ) -> int:
        """Continue `gather` at a field with an array; the buffer holds the key up to that field."""
        out: KeyWriter = self._out
        suffix: KeyWriter = self._suffix
        position: cython.Py_ssize_t = varying
        stop: cython.Py_ssize_t = self._array_end
        at: cython.Py_ssize_t = self._array_at
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        split: cython.Py_ssize_t
        first: cython.Py_ssize_t = into.count
        after: bytes
        code: cython.int
        single: cython.bint = self._array_is_leaf
        descending: cython.bint = self._descending[varying]
        if single:
            if self._marking:
                self._mark(varying, 0)
            suffix.clear()
            self._out = suffix
            try:
                while single and position + 1 < len(self._paths):
                    position += 1
                    single = self._append_path(raw, position) == 1
            finally:
                self._out = out
        if not single:
            keys, array_bits, marks = self.marked_keys(raw)
            for key in keys:
                into.add(prefix + key + rid, marks)
            return array_bits
        suffix.put_bytes(rid)
        after = suffix.contents()
        split = out.size
        stop = document_stop(raw, at, stop)
        at += 4
        while at < stop or into.count == first:
            code, begin, end = UNDEFINED, stop, stop
            if at < stop:
                code = raw[at]
                begin = name_end(raw, at + 1, stop) + 1
                end = value_end(raw, code, begin, stop)
                if code == ARRAY or mark_of(code, raw, begin) == OPAQUE_MARK:
                    self._opaque = True
            out.size = split
            append_directed(out, code, raw, begin, end, descending, self.fold)
            out.put_bytes(after)
            into.add_written(out)
            at = end
        self._give_marks(into, first)
        return self._leaf_places[varying]

    def _give_marks(self, into: GatheredEntries, first: cython.Py_ssize_t) -> cython.int:
        marks: bytes
        if self._marked or self._opaque:
            marks = self._taken_marks()
            if marks:
                into.give_value(first, marks)
        self._marking = False
        return 0

    @cython.cfunc
    def _taken_marks(self) -> bytes:
        self._marking = False
        if self._opaque and self.fold is None:
            return OPAQUE
        if not self._marked:
            return b""
        if cython.compiled:
            return cython.cast(cython.p_char, self._marks)[: self._marked]  # type: ignore[index, return-value]
        return bytes(self._marks[: self._marked])

    @cython.cfunc
    def _begin_marks(self) -> None:
        self._marking = self.fold is None
        self._marked = 0
        self._opaque = False

    @cython.ccall
    def sort_key(self, raw: bytes) -> bytes:
        """Return the sort key of the document: the least of its keys; BadValue for parallel arrays."""
        key: bytes | None = self.plain_key(raw)
        if key is not None:
            return key
        try:
            key = self._least_leaf_key(raw)
            return min(self._expanded_keys(raw)[0]) if key is None else key
        except CommandError as error:
            if error.code != Code.CannotIndexParallelArrays:
                raise
            raise CommandError(Code.BadValue, "cannot sort with keys that are parallel arrays") from error

    def shard_key(self, raw: bytes) -> bytes:
        """Return the one key of a document under a shard key; ShardKeyNotFound if there is an array on a path."""
        key: bytes | None = self.plain_key(raw)
        if key is None:
            raise CommandError(Code.ShardKeyNotFound, "Shard key cannot contain array values or array descendants.")
        return key

    def encode(self, members: Sequence[Value]) -> bytes:
        """Return the key of one value per field (fewer values: a prefix of keys), in the pattern's directions."""
        out = KeyWriter()
        for (code, raw), descending in zip(members, self._descending, strict=False):
            append_directed(out, code, raw, 0, len(raw), descending, self.fold)
        return out.contents()

    @cython.ccall
    def plain_key(self, raw: bytes) -> bytes | None:
        """Return the key if there is no array on the paths, else None."""
        position: cython.Py_ssize_t
        self._out.clear()
        for position in range(len(self._paths)):
            if not self._append_path(raw, position):
                return None
        return self._out.contents()

    def _append_path(self, raw: bytes, position: cython.Py_ssize_t) -> cython.int:
        """Append the key of one field and return 1; or return 0 if there is an array, and record its offset."""
        start: cython.Py_ssize_t = 0
        limit: cython.Py_ssize_t = len(raw)
        remaining: cython.Py_ssize_t
        at: cython.Py_ssize_t
        code: cython.int = OBJECT
        names: list[bytes] = self._paths[position]
        name: bytes
        absent: cython.bint = False
        remaining = len(names)
        for name in names:
            at = find(raw, start, limit, name) if code == OBJECT else -1
            if at < 0:
                code = NULL
                absent = True
                break
            remaining -= 1
            code = raw[at]
            start = at + len(name) + 2
            limit = value_end(raw, code, start, limit)
            if code == ARRAY:
                self._array_at = start
                self._array_end = limit
                self._array_is_leaf = remaining == 0
                return 0
        append_directed(self._out, code, raw, start, limit, self._descending[position], self.fold)
        if self._marking:
            if not absent:
                self._mark(position, mark_of(code, raw, start))
            else:
                self._mark(position, ABSENT_MARK if len(names) == 1 else OPAQUE_MARK)
        return 1

    def _mark(self, position: cython.Py_ssize_t, mark: cython.int) -> cython.int:
        self._marks[position] = mark
        if mark:
            self._marked = position + 1
            self._opaque = self._opaque or mark == OPAQUE_MARK
        return 0

    @cython.cfunc
    def _leaf_array_keys(self, raw: bytes, prefix: bytes, suffix: bytes) -> tuple[set[bytes], int] | None:
        """Return (the keys between prefix and suffix, the field) if one field's value is the only array, else None."""
        ends = self._leaf_ends(raw, prefix, suffix)
        if ends is None:
            return None
        varying, before, after = ends
        return self._member_keys(raw, self._descending[varying], before, after), varying

    def _leaf_ends(self, raw: bytes, prefix: bytes, suffix: bytes) -> tuple[int, bytes, bytes] | None:
        """Return (the field whose value is the only array, the bytes before its keys, and after), None for other
        documents. The array's offset is recorded.
        """
        varying: cython.Py_ssize_t = -1
        position: cython.Py_ssize_t
        before: bytes = b""
        self._out.clear()
        self._out.put_bytes(prefix)
        for position in range(len(self._paths)):
            if not self._append_path(raw, position):
                if varying >= 0 or not self._array_is_leaf:
                    return None
                varying = position
                before = self._out.contents()
                self._out.clear()
                if self._marking:
                    self._mark(position, 0)
        self._out.put_bytes(suffix)
        return varying, before, self._out.contents()

    def _least_leaf_key(self, raw: bytes) -> bytes | None:
        """Return the least of `_leaf_array_keys`. The least member key determines it: no key is a prefix of another."""
        ends = self._leaf_ends(raw, b"", b"")
        if ends is None:
            return None
        varying, before, after = ends
        stop: cython.Py_ssize_t = document_stop(raw, self._array_at, self._array_end)
        at: cython.Py_ssize_t = self._array_at + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        descending: cython.bint = self._descending[varying]
        out: KeyWriter = self._out
        key: bytes
        least: bytes | None = None
        while at < stop or least is None:
            code, begin, end = UNDEFINED, stop, stop
            if at < stop:
                code = raw[at]
                begin = name_end(raw, at + 1, stop) + 1
                end = value_end(raw, code, begin, stop)
            out.clear()
            append_directed(out, code, raw, begin, end, descending, self.fold)
            key = out.contents()
            if least is None or key < least:
                least = key
            at = end
        return before + least + after

    def _member_keys(self, raw: bytes, descending: cython.bint, before: bytes, after: bytes) -> set[bytes]:
        """Return the keys of the members of the recorded array, between those of the other fields."""
        stop: cython.Py_ssize_t = document_stop(raw, self._array_at, self._array_end)
        at: cython.Py_ssize_t = self._array_at + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        out: KeyWriter = self._out
        keys: set[bytes] = set()
        while at < stop or not keys:
            code, begin, end = UNDEFINED, stop, stop
            if at < stop:
                code = raw[at]
                begin = name_end(raw, at + 1, stop) + 1
                end = value_end(raw, code, begin, stop)
                if code == ARRAY or mark_of(code, raw, begin) == OPAQUE_MARK:
                    self._opaque = True
            out.clear()
            out.put_bytes(before)
            append_directed(out, code, raw, begin, end, descending, self.fold)
            out.put_bytes(after)
            keys.add(out.contents())
            at = end
        return keys


def _leaf_places(paths: list[str]) -> list[int]:
    """Return the bit of the last name of each path; every name of every path has one, in their order."""
    bits: list[int] = []
    size = 0
    for path in paths:
        size += path.count(".") + 1
        bits.append(1 << (size - 1))
    return bits


def array_places(paths: Sequence[str], array_bits: int) -> frozenset[str]:
    """Return the paths, each a pattern's or the beginning of one, at which `array_bits` records arrays."""
    array_paths: set[str] = set()
    bit = 1
    for path in paths:
        names = path.split(".")
        for depth in range(1, len(names) + 1):
            if array_bits & bit:
                array_paths.add(".".join(names[:depth]))
            bit <<= 1
    return frozenset(array_paths)
