"""Where the values come from that a grouping takes in: sources find them in a document, places say where they lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cython

from docstore.bson.build import document_from, enclosed
from docstore.bson.walk import Value, encoded_name
from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import ARRAY, OBJECT, find, part, value_end


class Place:
    """Where a value lies: the bytes [at, end) of `raw`, of type `code`; code 0 for a missing value."""

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
        """Let it be a value of its own."""
        self.code = code
        self.raw = raw
        self.at = 0
        self.end = len(raw)
        return 0

    def value(self) -> Value:
        if self.at == 0 and self.end == len(self.raw):
            return self.code, self.raw
        return self.code, part(self.raw, self.at, self.end)


class Source:
    """Where the values for a key, an accumulator or a calculated field come from. A function of the document."""

    def __call__(self, document: bytes) -> Value | None:
        """The value for a document; None where it is missing."""
        found: Place = Place()
        self.locate(document, None, found)
        return None if found.code == 0 else found.value()

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        """Let `found` be the value for a document, of which `member` is the unwound element."""
        raise NotImplementedError

    def bind(self, unwind: list[str]) -> None:
        """Learn which path is unwound; ValueError when the source needs the unwound document as a whole."""

    def same_as(self, other: Source) -> bool:
        """Whether the other source, bound in the same way, finds the same values."""
        return False


def put_result(found: Place, value: Value | None) -> cython.int:
    """Let it be a value that may be missing."""
    if value is None:
        return found.put(0, b"")
    return found.put(value[0], value[1])


class ConstantSource(Source):
    """The same value for every document."""

    _code: cython.int
    _raw: bytes

    def __init__(self, value: Value) -> None:
        self._code, self._raw = value

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        return found.put(self._code, self._raw)


class HeldSource(Source):
    """The value that was put here last, for whatever document; None for a missing one."""

    held: Value | None

    def __init__(self) -> None:
        self.held = None

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        return put_result(found, self.held)


class CallSource(Source):
    """What a function makes of the document. Cannot be used with `unwind`."""

    _function: Callable[[bytes], Value | None]

    def __init__(self, function: Callable[[bytes], Value | None]) -> None:
        self._function = function

    def bind(self, unwind: list[str]) -> None:
        raise ValueError("a function needs the unwound document")

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        return put_result(found, self._function(document))


class PathSource(Source):
    """The value at a dotted path. Where an array is on the way, `otherwise` is asked about the document instead."""

    _path: list[str]
    _names: list[bytes]
    _inside: cython.bint
    _otherwise: Callable[[bytes], Value | None]

    def __init__(self, path: str, otherwise: Callable[[bytes], Value | None]) -> None:
        self._path = path.split(".")
        self._names = [encoded_name(name) for name in self._path]
        self._inside = False
        self._otherwise = otherwise

    def bind(self, unwind: list[str]) -> None:
        depth = len(unwind)
        if self._path[:depth] == unwind:
            self._inside = True
            self._names = self._names[depth:]
        elif unwind[: len(self._path)] == self._path:
            raise ValueError("the path holds what is unwound")

    def same_as(self, other: Source) -> bool:
        if not isinstance(other, PathSource):
            return False
        path: PathSource = other
        return path._path == self._path

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        name: bytes
        at: cython.Py_ssize_t
        if self._inside and member is not None:
            found.code = member.code
            found.raw = member.raw
            found.at = member.at
            found.end = member.end
        else:
            found.code = OBJECT
            found.raw = document
            found.at = 0
            found.end = len(document)
        for name in self._names:
            if found.code == ARRAY:
                return put_result(found, self._otherwise(self._whole(document, member)))
            if found.code != OBJECT:
                found.code = 0
                return 0
            at = find(found.raw, found.at, found.end, name)
            if at < 0:
                found.code = 0
                return 0
            found.code = found.raw[at]
            found.at = at + len(name) + 2
            found.end = value_end(found.raw, found.code, found.at, found.end)
        return 0

    def _whole(self, document: bytes, member: Place | None) -> bytes:
        """A document in which the path leads to the same value as in the unwound one."""
        if not self._inside or member is None:
            return document
        value = member.value()
        for name in reversed(self._path[: len(self._path) - len(self._names)]):
            value = (OBJECT, document_from([(name, *value)]))
        return value[1]


class DocumentSource(Source):
    """A document of values from other sources; missing ones are left out."""

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

    def locate(self, document: bytes, member: Place | None, found: Place) -> cython.int:
        position: cython.Py_ssize_t
        source: Source
        out: KeyWriter = self._out
        out.clear()
        for position in range(len(self._sources)):
            source = self._sources[position]
            source.locate(document, member, found)
            if found.code != 0:
                out.put(found.code)
                out.put_bytes(self._names[position])
                out.put_part(found.raw, found.at, found.end)
        return found.put(OBJECT, enclosed(out.taken()))
