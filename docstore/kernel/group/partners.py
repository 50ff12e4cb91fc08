"""Joins of documents with their partners in another collection, which are found by the keys of values.

Invariant: the result is what `docstore.bson.build.document_from` makes of the same fields in the same order. The caller
handles cases that are not plain: an array as the local value, or an existing field of the target's name.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from docstore.bson.walk import Value, encoded_name
from docstore.kernel.keys.encoding import encode_key
from docstore.kernel.keys.folding import TextFolding
from docstore.kernel.keys.pattern import KeyPattern
from docstore.kernel.keys.writer import KeyWriter
from docstore.kernel.limits import MAX_REACHED_DOCUMENTS, MAX_STEP_BYTES

if not cython.compiled:
    from docstore.bson.walk import ARRAY, NULL, OBJECT, REGEX, UNDEFINED, find

_CLOCK_EVERY = 128
_LARGE: cython.Py_ssize_t = 16 * 1024 * 1024
"""Bytes of partners that do not fit into one document, and of a document to which no partners can be added."""


Leads = list[tuple[bytes, Value]]
"""Values that lead to documents, with their keys."""
Node = tuple[bytes, bytes, Leads]
"""A document in a graph: its encoded `_id`, itself, and the values that lead on from it with their keys."""

ASKED_ALONE = frozenset((ARRAY, NULL, REGEX, UNDEFINED))
"""Types of values whose equality is not that of their keys: these do not determine the order of the documents found."""

_NOT_BY_KEYS: frozenset[int] = frozenset(
    [encode_key(value)[0] for value in ((NULL, b""), (UNDEFINED, b""), (REGEX, b"\0\0"))]
)
"""First bytes of the keys of such values."""


class KeyedDocuments:
    """Documents by the keys of their values at a path; `fold` as in `KeyPattern`. `size`: their bytes."""

    size: cython.Py_ssize_t
    documents: list[bytes]
    _pattern: KeyPattern
    _by_key: dict[bytes, object]
    """The position of the only document with a key, or the list of the positions of all."""

    def __init__(self, path: str, fold: TextFolding | None) -> None:
        self.size = 0
        self.documents = []
        self._pattern = KeyPattern([(path, 1)], fold)
        self._by_key = {}

    def add(self, documents: list[bytes]) -> None:
        """Add documents, in the order in which lookups return them."""
        document: bytes
        key: bytes | None
        for document in documents:
            key = self._pattern.plain_key(document)
            if key is not None:
                self._add_position(key)
            else:
                for key in self._pattern.keys(document)[0]:
                    self._add_position(key)
            self.documents.append(document)
            self.size += len(document)

    def _add_position(self, key: bytes) -> cython.int:
        """Add the next document under a key."""
        position: object = len(self.documents)
        entry: object = self._by_key.get(key)
        if entry is None:
            self._by_key[key] = position
        elif isinstance(entry, list):
            entry.append(position)
        else:
            self._by_key[key] = [entry, position]
        return 0

    def positions_of(self, key: bytes) -> list[int]:
        """Return the positions of the documents that have a key."""
        entry: object = self._by_key.get(key)
        if entry is None:
            return []
        return entry if isinstance(entry, list) else [entry]  # type: ignore[list-item]

    @cython.ccall
    def with_key(self, key: bytes) -> list[bytes]:
        """Return the documents that have a key."""
        entry: object = self._by_key.get(key)
        position: cython.Py_ssize_t
        if entry is None:
            return []
        if isinstance(entry, list):
            return [self.documents[position] for position in entry]
        position = entry  # type: ignore[assignment]
        return [self.documents[position]]


def plain_keys(pattern: KeyPattern, documents: list[bytes]) -> list[bytes | None]:
    """Return the key of each document under a pattern of one field. None if an array is on the way, or if equality with
    the value is not that of the keys: null, a missing value, undefined and regular expressions.
    """
    document: bytes
    key: bytes | None
    keys: list[bytes | None] = []
    for document in documents:
        key = pattern.plain_key(document)
        if key is not None and key[0] in _NOT_BY_KEYS:
            key = None
        keys.append(key)
    return keys


class PartnerJoin:
    """Puts partners into documents: at `name` an array of all, or, if it `unwinds`, each into a document of its own. A
    document without partners is kept in that case if `keeps_lonely`.
    """

    _name: bytes
    _unwinds: cython.bint
    _keeps_lonely: cython.bint
    _out: KeyWriter

    def __init__(self, name: str, *, unwinds: bool, keeps_lonely: bool) -> None:
        self._name = encoded_name(name)
        self._unwinds = unwinds
        self._keeps_lonely = keeps_lonely
        self._out = KeyWriter()

    def join(
        self,
        documents: list[bytes],
        keys: list[bytes | None],
        at: int,
        partners: KeyedDocuments,
        results: list[bytes],
        most_bytes: int,
        clock: Callable[[], float],
        deadline: float,
    ) -> tuple[int, int]:
        """Append to `results` the documents from `at` on joined with their partners, whose keys equal theirs in `keys`.

        Return (the position of the first document not joined, the bytes appended). The join stops at the last document,
        before one that has no key or is not plain, after `most_bytes` bytes, or at the deadline.
        """
        position: cython.Py_ssize_t = at
        size: cython.Py_ssize_t = 0
        most: cython.Py_ssize_t = most_bytes
        until_clock: cython.int = _CLOCK_EVERY
        document: bytes
        key: bytes | None
        result_bytes: cython.Py_ssize_t
        while position < len(documents) and size < most:
            key = keys[position]
            if key is None:
                break
            document = documents[position]
            result_bytes = self._join(document, partners.with_key(key), results)
            if result_bytes < 0:
                break
            size += result_bytes
            position += 1
            until_clock -= 1
            if until_clock == 0:
                until_clock = _CLOCK_EVERY
                if clock() >= deadline:
                    break
        return position, size

    @cython.exceptval(-2, check=True)
    def _join(self, document: bytes, partners: list[bytes], results: list[bytes]) -> cython.Py_ssize_t:
        """Append the join of one document; return its bytes, or -1 if it is not plain."""
        partner: bytes
        size: cython.Py_ssize_t = 0
        if len(document) > _LARGE or find(document, 0, len(document), self._name) >= 0:
            return -1
        if not self._unwinds:
            for partner in partners:
                size += len(partner)
            if size > _LARGE:
                return -1
            return self._append_all(document, partners, results)
        if len(partners) == 0 and self._keeps_lonely:
            results.append(document)
            return len(document)
        for partner in partners:
            self._begin(document, OBJECT)
            self._out.put_bytes(partner)
            size += self._append(results)
        return size

    @cython.exceptval(-2, check=True)
    def _append_all(self, document: bytes, partners: list[bytes], results: list[bytes]) -> cython.Py_ssize_t:
        """Append the document with the array of its partners."""
        out: KeyWriter = self._out
        position: cython.Py_ssize_t
        array: cython.Py_ssize_t
        self._begin(document, ARRAY)
        array = out.begin_document()
        for position in range(len(partners)):
            out.put_member(OBJECT, position)
            out.put_bytes(partners[position])
        out.end_document(array)
        return self._append(results)

    def _begin(self, document: bytes, code: cython.int) -> cython.int:
        """Write the document up to a value at its end; its length is set later."""
        self._out.clear()
        self._out.put_part(document, 0, len(document) - 1)
        self._out.put(code)
        self._out.put_bytes(self._name)
        return self._out.put(0)

    @cython.exceptval(-2, check=True)
    def _append(self, results: list[bytes]) -> cython.Py_ssize_t:
        """Append the document that was written; return its bytes."""
        self._out.put(0)
        self._out.set_little(0, self._out.size, 4)
        results.append(self._out.contents())
        return self._out.size


def reached(leads: Leads, nodes: dict[bytes, list[Node]], most: int, *, in_order: bool) -> list[bytes] | None:
    """Return the documents that values lead to, breadth first and each once; `nodes` has them by keys of values.

    `most`: the greatest depth, below 0 for any. `in_order`: the documents of several values are in the order of the
    values' keys. None if `nodes` lacks a document, or there are more than a few.
    """
    visited_keys: set[bytes] = set()
    visited_ids: set[bytes] = set()
    documents: list[bytes] = []
    asking: list[bytes]
    key: bytes
    node: tuple[bytes, bytes, Leads]
    depth: cython.Py_ssize_t = 0
    remaining: cython.Py_ssize_t = MAX_REACHED_DOCUMENTS
    room: cython.Py_ssize_t = MAX_STEP_BYTES
    deepest: cython.Py_ssize_t = most
    several: cython.bint = in_order
    frontier: list[tuple[bytes, Value]] = []
    _lead_to(leads, visited_keys, frontier)
    while len(frontier) > 0 and (deepest < 0 or depth <= deepest):
        depth += 1
        if len(frontier) > 1 and (not several or not _are_by_keys(frontier)):
            return None
        asking = [lead[0] for lead in frontier]
        if len(asking) > 1:
            asking.sort()
        frontier = []
        for key in asking:
            key_nodes: object = nodes.get(key)
            if key_nodes is None:
                return None
            for node in key_nodes:  # type: ignore[attr-defined]
                if node[0] in visited_ids:
                    continue
                visited_ids.add(node[0])
                _lead_to(node[2], visited_keys, frontier)
                documents.append(node[1])
                remaining -= 1
                room -= len(node[1])
                if remaining < 0 or room < 0:
                    return None
    return documents


def _lead_to(leads: Leads, visited_keys: set[bytes], frontier: Leads) -> cython.int:
    """Add the values not looked up yet."""
    lead: tuple[bytes, Value]
    for lead in leads:
        if lead[0] not in visited_keys:
            visited_keys.add(lead[0])
            frontier.append(lead)
    return 0


def _are_by_keys(leads: Leads) -> cython.bint:
    """True if the keys of all these values determine the documents that they lead to, and their order."""
    lead: tuple[bytes, Value]
    for lead in leads:
        if lead[1][0] in ASKED_ALONE:
            return False
    return True
