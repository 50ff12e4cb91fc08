"""The keys that a document has under an index, a sort or a shard key.

A `KeyPattern` is an ordered list of dotted paths with a direction. A document has one key for each combination that
its arrays give; two arrays of which neither lies inside the other cannot be combined (CannotIndexParallelArrays). A
missing field counts as null, an empty array as undefined, which sorts below null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.walk import EMPTY_DOCUMENT, Value, encoded_name, get_field, place_in_array, values
from docstore.errors import Code, CommandError
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.scan.covered import OPAQUE

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
        part,
        value_end,
    )
    from docstore.kernel.keys.encoding import append_key
    from docstore.kernel.scan.covered import ABSENT_MARK, OPAQUE_MARK, mark_of

_NULL: Value = (NULL, b"")
_UNDEFINED: Value = (UNDEFINED, b"")
_EMPTY_ARRAY: Value = (ARRAY, EMPTY_DOCUMENT)
_AMBIGUOUS_NUMBER = 16746


class KeyPattern:
    """An ordered list of (dotted path, 1 for ascending or -1 for descending). Used by one thread at a time.

    `fold` puts a value in the place of each that holds strings: what a collation compares by.
    """

    fields: tuple[tuple[str, int], ...]
    fold: Callable[[Value], Value] | None
    _paths: list[list[bytes]]
    _descending: list[bool]
    _out: KeyWriter
    _array_at: cython.Py_ssize_t
    _array_end: cython.Py_ssize_t
    _array_is_leaf: cython.bint
    _marking: cython.bint
    _marks: bytearray
    _marked: cython.Py_ssize_t
    _opaque: cython.bint
    _leaf_places: list[int]

    def __init__(self, fields: Sequence[tuple[str, int]], fold: Callable[[Value], Value] | None = None) -> None:
        self.fields = tuple([(path, direction) for path, direction in fields])
        self.fold = fold
        self._paths = [[encoded_name(name) for name in path.split(".")] for path, _ in self.fields]
        self._leaf_places = _leaf_places([path for path, _ in self.fields])
        self._descending = [direction < 0 for _, direction in self.fields]
        self._out = KeyWriter()
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
        """(distinct keys in order, where arrays were expanded); CannotIndexParallelArrays for arrays side by side.

        The places are a set of bits, see `array_places`; 0: there was no array.
        """
        key: bytes | None = self.plain_key(raw)
        if key is not None:
            return [key], 0
        return self._expanded_keys(raw)

    def _expanded_keys(self, raw: bytes) -> tuple[list[bytes], int]:
        """The keys of a document that has arrays on the way."""
        places: int
        found = self._leaf_array_keys(raw, b"", b"")
        if found is not None:
            return sorted(found[0]), self._leaf_places[found[1]]
        self._opaque = True
        combinations: list[tuple[Value, ...]] = []
        fields: list[_Field] = []
        for position, (path, _) in enumerate(self.fields):
            fields.append(_Field((OBJECT, raw), path.split("."), (), "", self._leaf_places[position]))
        places = _expand(fields, combinations)
        return sorted({self.encode(members) for members in combinations}), places

    def marked_keys(self, raw: bytes) -> tuple[list[bytes], int, bytes]:
        """As `keys`, and the marks of `docstore.kernel.scan.covered`; none where values were folded.

        A field whose own value is an array has no mark: its entries do not tell of it. Where a member's key cannot be
        read back, no entry of the document is.
        """
        key: bytes | None
        self._begin_marks()
        key = self.plain_key(raw)
        if key is not None:
            return [key], 0, self._taken_marks()
        self._begin_marks()
        keys, places = self._expanded_keys(raw)
        return keys, places, self._taken_marks()

    def add_entries(self, prefix: bytes, raw: bytes, rid: bytes, out: list[bytes], marked: dict[bytes, bytes]) -> int:
        """Append `marked_keys`, each between `prefix` and `rid`; those that have marks into `marked`; the places."""
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
            entry = self._out.taken()
            out.append(entry)
            if marks := self._taken_marks():
                marked[entry] = marks
            return 0
        self._begin_marks()
        found = self._leaf_array_keys(raw, prefix, rid)
        if found is None:
            keys, places, marks = self.marked_keys(raw)
            added = [prefix + key + rid for key in keys]
        else:
            places, marks, added = self._leaf_places[found[1]], self._taken_marks(), list(found[0])
        out += added
        if marks:
            marked.update(dict.fromkeys(added, marks))
        return places

    def _taken_marks(self) -> bytes:
        self._marking = False
        if self._opaque and self.fold is None:
            return OPAQUE
        return bytes(self._marks[: self._marked]) if self._marked else b""

    def _begin_marks(self) -> None:
        self._marking = self.fold is None
        self._marked = 0
        self._opaque = False

    def sort_key(self, raw: bytes) -> bytes:
        """The key that the document sorts by: the least of its keys; BadValue for arrays side by side."""
        key: bytes | None = self.plain_key(raw)
        if key is not None:
            return key
        try:
            return self.keys(raw)[0][0]
        except CommandError as error:
            if error.code != Code.CannotIndexParallelArrays:
                raise
            raise CommandError(Code.BadValue, "cannot sort with keys that are parallel arrays") from error

    def shard_key(self, raw: bytes) -> bytes:
        """The one key of a document under a shard key; ShardKeyNotFound when an array is in the way."""
        key: bytes | None = self.plain_key(raw)
        if key is None:
            raise CommandError(Code.ShardKeyNotFound, "Shard key cannot contain array values or array descendants.")
        return key

    def encode(self, members: Sequence[Value]) -> bytes:
        """The key of one value per field (fewer values: the beginning of a key), in the pattern's directions."""
        out = KeyWriter()
        for (code, raw), descending in zip(members, self._descending, strict=False):
            self._append_directed(out, code, raw, 0, len(raw), descending)
        return out.taken()

    def plain_key(self, raw: bytes) -> bytes | None:
        """The key when no array is on the way, else None."""
        position: cython.Py_ssize_t
        self._out.clear()
        for position in range(len(self._paths)):
            if not self._append_path(raw, position):
                return None
        return self._out.taken()

    def _append_path(self, raw: bytes, position: cython.Py_ssize_t) -> cython.int:
        """Append the key of one field and return 1; or 0 when there is an array, noting where it is."""
        start: cython.Py_ssize_t = 0
        limit: cython.Py_ssize_t = len(raw)
        left: cython.Py_ssize_t
        at: cython.Py_ssize_t
        code: cython.int = OBJECT
        names: list[bytes] = self._paths[position]
        name: bytes
        absent: cython.bint = False
        left = len(names)
        for name in names:
            at = find(raw, start, limit, name) if code == OBJECT else -1
            if at < 0:
                code = NULL
                absent = True
                break
            left -= 1
            code = raw[at]
            start = at + len(name) + 2
            limit = value_end(raw, code, start, limit)
            if code == ARRAY:
                self._array_at = start
                self._array_end = limit
                self._array_is_leaf = left == 0
                return 0
        self._append_directed(self._out, code, raw, start, limit, self._descending[position])
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

    def _leaf_array_keys(self, raw: bytes, prefix: bytes, suffix: bytes) -> tuple[set[bytes], int] | None:
        """(the keys between prefix and suffix, which field) where one field's value is the only array, else None."""
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
                before = self._out.taken()
                self._out.clear()
                if self._marking:
                    self._mark(position, 0)
        self._out.put_bytes(suffix)
        return self._member_keys(raw, self._descending[varying], before, self._out.taken()), varying

    def _member_keys(self, raw: bytes, descending: cython.bint, before: bytes, after: bytes) -> set[bytes]:
        """The keys of the members of the array that was noted, between those of the other fields."""
        stop: cython.Py_ssize_t = document_stop(raw, self._array_at, self._array_end)
        at: cython.Py_ssize_t = self._array_at + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        out: KeyWriter = self._out
        found: set[bytes] = set()
        while at < stop or not found:
            code, begin, end = UNDEFINED, stop, stop
            if at < stop:
                code = raw[at]
                begin = name_end(raw, at + 1, stop) + 1
                end = value_end(raw, code, begin, stop)
                if code == ARRAY or mark_of(code, raw, begin) == OPAQUE_MARK:
                    self._opaque = True
            out.clear()
            out.put_bytes(before)
            self._append_directed(out, code, raw, begin, end, descending)
            out.put_bytes(after)
            found.add(out.taken())
            at = end
        return found

    def _append_directed(
        self,
        out: KeyWriter,
        code: cython.int,
        raw: bytes,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        descending: cython.bint,
    ) -> cython.int:
        begin: cython.Py_ssize_t = out.size
        folded: bytes
        if self.fold is not None and code in (STRING, OBJECT, ARRAY):
            folded = self.fold((code, part(raw, at, end)))[1]
            append_key(out, code, folded, 0, len(folded))
        else:
            append_key(out, code, raw, at, end)
        return out.invert(begin) if descending else 0


def _leaf_places(paths: list[str]) -> list[int]:
    """The bit of the last name of each path, where every name of every path has one, in their order."""
    found: list[int] = []
    size = 0
    for path in paths:
        size += path.count(".") + 1
        found.append(1 << (size - 1))
    return found


def array_places(paths: Sequence[str], places: int) -> frozenset[str]:
    """The paths, each the beginning of a pattern's or the whole of one, at which `places` says that arrays were met."""
    found: set[str] = set()
    bit = 1
    for path in paths:
        names = path.split(".")
        for depth in range(1, len(names) + 1):
            if places & bit:
                found.add(".".join(names[:depth]))
            bit <<= 1
    return frozenset(found)


class _Field:
    """How far one field of the pattern has been followed: `value` is what was found at `place`, `rest` what is left.

    The place holds the number of every array's element on the way, named by the path or not: two fields that reach one
    array by different paths expand it together. `name` is the last name of the place that the path has.

    A field that is `done` has its value, even if that is an array. One that has just got it by the number of an array's
    element `counts` as one that expands an array, although the array stays whole. `leaf` is the bit of the last name of
    its path.
    """

    value: Value
    rest: list[str]
    place: tuple[str, ...]
    name: str
    leaf: int
    done: bool
    counts: bool

    def __init__(
        self,
        value: Value,
        rest: list[str],
        place: tuple[str, ...],
        name: str,
        leaf: int,
        done: bool = False,
        counts: bool = False,
    ) -> None:
        self.value = value
        self.rest = rest
        self.place = place
        self.name = name
        self.leaf = leaf
        self.done = done
        self.counts = counts

    def follow(self) -> None:
        """Go on to the end of the path, or to the first array on it."""
        while not self.done and self.value[0] != ARRAY:
            if not self.rest:
                self.done = True
                return
            found = get_field(self.value[1], self.rest[0]) if self.value[0] == OBJECT else None
            if found is None:
                self.value = _NULL
                self.done = True
                return
            self.value = found
            self.name = self.rest[0]
            self.place = (*self.place, self.name)
            self.rest = self.rest[1:]

    def enter(self, member: Value, number: int, members: list[Value]) -> _Field:
        """The field within the member of that number of the array that it has reached."""
        if not self.rest:
            return _Field(member, [], self.place, self.name, self.leaf, True)
        index = place_in_array(self.rest[0])
        if 0 <= index < len(members):
            named = members[index]
            last = len(self.rest) == 1
            counts = last and named[0] == ARRAY
            if last and named == _EMPTY_ARRAY:
                named = _UNDEFINED
            return _Field(named, self.rest[1:], (*self.place, str(index)), self.rest[0], self.leaf, last, counts)
        place = (*self.place, str(number))
        return _Field(member if member[0] == OBJECT else _NULL, self.rest, place, self.name, self.leaf)


def _expand(fields: list[_Field], combinations: list[tuple[Value, ...]]) -> int:
    """Add every tuple of values that the fields can have together; the bits of the places where arrays were met."""
    array: _Field | None = None
    counted: _Field | None = None
    places: int = 0
    for field in fields:
        field.follow()
        if field.done and not field.counts:
            continue
        if counted is not None and counted.place != field.place:
            raise CommandError(
                Code.CannotIndexParallelArrays, f"cannot index parallel arrays [{field.name}] [{counted.name}]"
            )
        counted = field
        if not field.done:
            array = field
            places |= field.leaf >> len(field.rest)
    if array is None:
        combinations.append(tuple([field.value for field in fields]))
        return 0
    members = values(array.value[1])
    if not members:
        for field in fields:
            if not field.done:
                field.value = _NULL if field.rest else _UNDEFINED
                field.done = True
        return places | _expand(fields, combinations)
    for number, member in enumerate(members):
        if member[0] == OBJECT:
            _refuse_ambiguous_numbers(fields, member[1], len(members))
        inner = [
            _Field(field.value, [], field.place, field.name, field.leaf, True)
            if field.done
            else field.enter(member, number, members)
            for field in fields
        ]
        places |= _expand(inner, combinations)
    return places


def _refuse_ambiguous_numbers(fields: list[_Field], member: bytes, size: int) -> None:
    """A number in a path may name an element of an array of that size or a field of its documents, but not both."""
    for field in fields:
        if field.done or not field.rest or not 0 <= place_in_array(field.rest[0]) < size:
            continue
        if get_field(member, field.rest[0]) is not None:
            raise CommandError(
                _AMBIGUOUS_NUMBER,
                f"Ambiguous field name found in array (do not use numeric field names in embedded elements in an "
                f"array), field: '{field.rest[0]}' for array: {field.name}",
            )
