"""Sources, which locate values in documents for groupings and calculations, and references to such values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.build import enclosed
from docstore.bson.walk import Value, encoded_name
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import WALKED_SHIFT

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, NULL, OBJECT, document_stop, find, name_end, part, value_end

_SHORT_WALK: cython.Py_ssize_t = 512
"""Walks of fewer bytes count for nothing beside the rest of a document's cost."""
_KEPT_ROOM = 1 << 16
"""Most bytes of a buffer that is kept for reuse."""


class ValueRef:
    """A reference to a value: the bytes [at, end) of `raw`, of type `code`; code 0 for a missing value."""

    code: cython.int
    raw: bytes
    at: cython.Py_ssize_t
    end: cython.Py_ssize_t

    def __init__(self) -> None:
        self.code = 0
        self.raw = b""
        self.at = 0
        self.end = 0

    def put(self, code: cython.int, raw: bytes) -> cython.int:
        """Refer to a new value."""
        self.code = code
        self.raw = raw
        self.at = 0
        self.end = len(raw)
        return 0

    def take(self, other: ValueRef) -> cython.int:
        """Refer to the value of another reference."""
        self.code = other.code
        self.raw = other.raw
        self.at = other.at
        self.end = other.end
        return 0

    def take_member(self, raw: bytes, at: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Refer to the member at `at` of an array that ends at `stop`; return the offset after it."""
        self.raw = raw
        self.code = raw[at]
        self.at = name_end(raw, at + 1, stop) + 1
        self.end = value_end(raw, self.code, self.at, stop)
        return self.end

    @cython.cfunc
    def value(self) -> Value:
        if self.at == 0 and self.end == len(self.raw):
            return self.code, self.raw
        return self.code, part(self.raw, self.at, self.end)


class Source:
    """A source of the values for a key, an accumulator or a calculated field. A function of the document."""

    def __call__(self, document: bytes) -> Value | None:
        """Return the value for a document; None if it is missing."""
        result: ValueRef = ValueRef()
        self.locate(document, None, result)
        return None if result.code == 0 else result.value()

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        """Locate in `result` the value for a document, whose unwound element is `member`."""
        raise NotImplementedError

    def bind(self, unwind: list[str]) -> None:
        """Set the path that is unwound; ValueError if the source needs the unwound document as a whole."""

    def same_as(self, other: Source) -> bool:
        """True if the other source, bound in the same way, is known to yield the same values."""
        return False


def put_result(result: ValueRef, value: Value | None) -> cython.int:
    """Refer to a value that may be missing."""
    if value is None:
        return result.put(0, b"")
    return result.put(value[0], value[1])


class ConstantSource(Source):
    """The same value for every document."""

    _code: cython.int
    _raw: bytes

    def __init__(self, value: Value) -> None:
        self._code, self._raw = value

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        return result.put(self._code, self._raw)


class HeldSource(Source):
    """The value that was last put here, for any document; None for a missing one."""

    current_value: Value | None

    def __init__(self) -> None:
        self.current_value = None

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        return put_result(result, self.current_value)


class CallSource(Source):
    """The value of a function of the document. Cannot be used with `unwind`."""

    _function: Callable[[bytes], Value | None]

    def __init__(self, function: Callable[[bytes], Value | None]) -> None:
        self._function = function

    def bind(self, unwind: list[str]) -> None:
        raise ValueError("a function needs the unwound document")

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        return put_result(result, self._function(document))


class PathSource(Source):
    """The value at a dotted path. For an array on the path it is the array of its documents' values; without `through`
    it is missing then.
    """

    _path: list[str]
    _names: list[bytes]
    _inside: cython.bint
    _through: cython.bint
    _out: KeyWriter | None

    def __init__(self, path: str, through: bool = True) -> None:
        self._path = path.split(".") if path else []
        self._names = [encoded_name(name) for name in self._path]
        self._inside = False
        self._through = through
        self._out = None

    def bind(self, unwind: list[str]) -> None:
        depth = len(unwind)
        if self._path[:depth] == unwind:
            self._inside = True
            self._names = self._names[depth:]
        elif unwind[: len(self._path)] == self._path:
            raise ValueError("the path holds what is unwound")

    def same_as(self, other: Source) -> bool:
        if type(other) is not PathSource:
            return False
        path: PathSource = other
        return path._path == self._path

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        if self._inside and member is not None:
            result.take(member)
        else:
            result.code = OBJECT
            result.raw = document
            result.at = 0
            result.end = len(document)
        return self._follow(result)

    def _follow(self, result: ValueRef) -> cython.int:
        """Locate the value at the path below the value in `result`."""
        name: bytes
        at: cython.Py_ssize_t
        depth: cython.Py_ssize_t
        walked: cython.Py_ssize_t
        for depth in range(len(self._names)):
            if result.code != OBJECT:
                if result.code == ARRAY and self._through:
                    return self._gather(result, depth)
                result.code = 0
                return 0
            name = self._names[depth]
            at = find(result.raw, result.at, result.end, name)
            walked = (result.end if at < 0 else at) - result.at
            if walked > _SHORT_WALK:
                spend(walked >> WALKED_SHIFT)
            if at < 0:
                result.code = 0
                return 0
            result.code = result.raw[at]
            result.at = at + len(name) + 2
            result.end = value_end(result.raw, result.code, result.at, result.end)
        return 0

    def _gather(self, result: ValueRef, depth: cython.Py_ssize_t) -> cython.int:
        """Replace the array in `result` by the array of its documents' values at the remaining path."""
        out: KeyWriter
        if self._out is None:
            self._out = KeyWriter()
        out = self._out
        out.clear()
        self._put_members(result.raw, result.at, result.end, depth)
        spend(out.size + ((result.end - result.at) >> WALKED_SHIFT))
        result.put(ARRAY, out.contents())
        if out.size > _KEPT_ROOM:
            self._out = None
        return 0

    def _put_members(
        self, raw: bytes, start: cython.Py_ssize_t, limit: cython.Py_ssize_t, depth: cython.Py_ssize_t
    ) -> cython.int:
        out: KeyWriter | None = self._out
        assert out is not None
        stop: cython.Py_ssize_t = document_stop(raw, start, limit)
        at: cython.Py_ssize_t = start + 4
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        position: cython.Py_ssize_t = 0
        first: cython.Py_ssize_t = out.begin_document()
        while at < stop:
            begin = name_end(raw, at + 1, stop) + 1
            end = value_end(raw, raw[at], begin, stop)
            if raw[at] == OBJECT:
                position += self._put_below(raw, begin, end, depth, position)
            at = end
        return out.end_document(first)

    def _put_below(
        self,
        raw: bytes,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        depth: cython.Py_ssize_t,
        position: cython.Py_ssize_t,
    ) -> cython.int:
        """Append the value at the rest of the path in a document, as a member of the array; return the number
        appended.
        """
        out: KeyWriter | None = self._out
        assert out is not None
        name: bytes
        code: cython.int = OBJECT
        field: cython.Py_ssize_t
        while depth < len(self._names):
            if code == ARRAY:
                out.put_member(ARRAY, position)
                self._put_members(raw, at, end, depth)
                return 1
            if code != OBJECT:
                return 0
            name = self._names[depth]
            field = find(raw, at, end, name)
            if field < 0:
                return 0
            code = raw[field]
            at = field + len(name) + 2
            end = value_end(raw, code, at, end)
            depth += 1
        out.put_member(code, position)
        out.put_part(raw, at, end)
        return 1


class Variable:
    """The value of a name during a calculation for each of many values."""

    reference: ValueRef

    def __init__(self) -> None:
        self.reference = ValueRef()

    def value(self) -> Value | None:
        """Return the value; None if it is missing."""
        return None if self.reference.code == 0 else self.reference.value()


class VariableSource(PathSource):
    """The value of a variable, or of a path below it. Cannot be used with `unwind`."""

    _variable: Variable

    def __init__(self, variable: Variable, path: str) -> None:
        super().__init__(path)
        self._variable = variable

    def bind(self, unwind: list[str]) -> None:
        raise ValueError("a variable is bound for a whole document")

    def same_as(self, other: Source) -> bool:
        return self is other

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        result.take(self._variable.reference)
        return self._follow(result)


class FilledSource(Source):
    """The value of another source, null if it is missing."""

    _source: Source

    def __init__(self, source: Source) -> None:
        self._source = source

    def bind(self, unwind: list[str]) -> None:
        self._source.bind(unwind)

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        self._source.locate(document, member, result)
        if result.code == 0:
            result.put(NULL, b"")
        return 0


class DocumentSource(Source):
    """A document of values from other sources; missing ones are omitted."""

    _names: list[bytes]
    _sources: list[Source]
    _out: KeyWriter

    def __init__(self, fields: Sequence[tuple[str, Source]]) -> None:
        self._names = [encoded_name(name) + b"\0" for name, _ in fields]
        self._sources = [source for _, source in fields]
        self._out = KeyWriter()

    def bind(self, unwind: list[str]) -> None:
        for source in self._sources:
            source.bind(unwind)

    def locate(self, document: bytes, member: ValueRef | None, result: ValueRef) -> cython.int:
        position: cython.Py_ssize_t
        source: Source
        out: KeyWriter = self._out
        out.clear()
        for position in range(len(self._sources)):
            source = self._sources[position]
            source.locate(document, member, result)
            if result.code != 0:
                out.put(result.code)
                out.put_bytes(self._names[position])
                out.put_part(result.raw, result.at, result.end)
        size: cython.Py_ssize_t = out.size
        result.put(OBJECT, enclosed(out.contents()))
        spend(size)
        return 0
