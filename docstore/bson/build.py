"""Assembly of raw BSON from encoded parts, without decoding.

Inputs are trusted to be well formed: values as `docstore.bson.walk` returns them, validated documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

import cython

from docstore.bson.limits import MAX_BUILT_ARRAY_BYTES, MAX_BUILT_DOCUMENT_BYTES, MAX_CACHED_MEMBER_NAMES
from docstore.bson.walk import EMPTY_DOCUMENT, Value, encoded_name
from docstore.errors import Code, CommandError

if not cython.compiled:
    from docstore.bson.allowance import spend
    from docstore.bson.walk import ARRAY, OBJECT, document_stop, find, name_end, part, value_end


_members: list[bytes] = []
"""The encoded type and name of each element in an array of documents; grows with the longest array built."""


_COPIED_FREELY = 16 * 1024
"""Up to this size, extra copies cost less than avoiding them."""


_SPENT_AT_ONCE = 16 * 1024


_PIECE = 8192
"""Array parts joined before all are there: many small byte strings take more memory than one."""


def enclosed(body: bytes) -> bytes:
    """Return a document of encoded elements."""
    return b"".join(((len(body) + 5).to_bytes(4, "little"), body, b"\0"))


class DocumentParts:
    """A large document in `pieces`, joined once with elements that others append.

    The pieces are its elements, without its length and final NUL; `size`: their bytes.
    """

    def __init__(self, pieces: list[bytes], size: int) -> None:
        self.pieces = pieces
        self.size: cython.Py_ssize_t = size

    @cython.ccall
    def document(self, tail: bytes = b"") -> bytes:
        """Return the document, with encoded elements appended."""
        length: bytes = (self.size + len(tail) + 5).to_bytes(4, "little")
        return b"".join([length, *self.pieces, tail, b"\0"])


def bytes_of(pieces: list[bytes]) -> int:
    """Return the total length of the pieces."""
    size: cython.Py_ssize_t = 0
    piece: bytes
    for piece in pieces:
        size += len(piece)
    return size


def document_from(fields: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return a document of (name, type byte, value bytes) in order.

    Errors: BadValue for a name that contains a NUL, 13548 above 64 MiB.
    """
    parts: list[bytes] = [b""]
    size: cython.Py_ssize_t = 5
    spent: cython.Py_ssize_t = 0
    due: cython.Py_ssize_t = _SPENT_AT_ONCE
    key: bytes
    for name, code, value in fields:
        key = encoded_name(name)
        size += len(key) + len(value) + 2
        if size > MAX_BUILT_DOCUMENT_BYTES:
            raise _too_long(size)
        parts += (code.to_bytes(1, "little"), key, b"\0", value)
        if size > due:
            spend(size - spent)
            spent = size
            due = size + _SPENT_AT_ONCE
    spend(size - spent)
    parts[0] = size.to_bytes(4, "little")
    parts.append(b"\0")
    return b"".join(parts)


def array_from(members: Iterable[Value]) -> bytes:
    """Return an array of values; equally the bytes of a document with the names "0", "1", ...

    Errors: ExceededMemoryLimit above 100 MiB.
    """
    parts: list[bytes] = [b""]
    pieces: list[bytes] = []
    size: cython.Py_ssize_t = 5
    before: cython.Py_ssize_t = 0
    key: bytes
    for position, (code, value) in enumerate(members):
        key = b"%d\0" % position
        size += len(key) + len(value) + 1
        if size > MAX_BUILT_ARRAY_BYTES:
            raise _too_much(size)
        parts += (code.to_bytes(1, "little"), key, value)
        if len(parts) > _PIECE:
            pieces.append(b"".join(parts))
            parts = []
            spend(size - before)
            before = size
    spend(size - before)
    parts.append(b"\0")
    if pieces:
        parts = [size.to_bytes(4, "little"), *pieces, *parts]
    else:
        parts[0] = size.to_bytes(4, "little")
    return b"".join(parts)


def _too_long(size: int) -> CommandError:
    return CommandError(13548, f"BufBuilder attempted to grow() to {size} bytes, past the 64MB limit.")


def _too_much(size: int) -> CommandError:
    return CommandError(
        Code.ExceededMemoryLimit,
        f"an array would use too much memory ({size} bytes) and cannot spill to disk. Memory limit:"
        f" {MAX_BUILT_ARRAY_BYTES} bytes",
    )


def documents_array(documents: Iterable[bytes]) -> bytes:
    """Return an array of documents, as in a cursor's batch."""
    return b"".join(documents_array_parts(documents)[0])


def documents_array_parts(
    documents: Iterable[bytes], first: int = 0, before: Iterable[bytes] = ()
) -> tuple[list[bytes], int]:
    """Return (pieces of `documents_array`, their total bytes), so that a caller joins them only once.

    `before`: the first `first` members of the array, as `members_of_array` encodes them.
    """
    parts: list[bytes] = [b"", *before]
    size: cython.Py_ssize_t = 5
    piece: bytes
    for piece in parts:
        size += len(piece)
    size += _add_members(parts, documents, first)
    parts[0] = size.to_bytes(4, "little")
    parts.append(b"\0")
    return parts, size


def with_documents(raw: bytes, name: str, documents: Iterable[bytes]) -> bytes | None:
    """Return the document with an array of documents appended as a field; None if a field of that name exists."""
    encoded: bytes = encoded_name(name)
    size: cython.Py_ssize_t
    if find(raw, 0, len(raw), encoded) >= 0:
        return None
    if isinstance(documents, list) and not documents:
        return append_fields(raw, b"\x04" + encoded + b"\0" + EMPTY_DOCUMENT)
    parts, size = documents_array_parts(documents)
    size += len(raw) + len(encoded) + 2
    parts[0] = b"".join((size.to_bytes(4, "little"), part(raw, 4, len(raw) - 1), b"\x04", encoded, b"\0", parts[0]))
    parts.append(b"\0")
    return b"".join(parts)


def members_of_array(documents: Iterable[bytes], first: int) -> bytes:
    """Return documents as array members, numbered from `first`, without the array's length and end."""
    parts: list[bytes] = []
    _add_members(parts, documents, first)
    return b"".join(parts)


def _add_members(parts: list[bytes], documents: Iterable[bytes], first: int) -> int:
    """Append the pieces of numbered members; return their total bytes."""
    size: cython.Py_ssize_t = 0
    position: cython.Py_ssize_t = first
    document: bytes
    member: bytes
    for document in documents:
        if position < len(_members):
            member = _members[position]
        else:
            member = b"\x03%d\0" % position
            if position == len(_members) < MAX_CACHED_MEMBER_NAMES:
                _members.append(member)
        parts.append(member)
        parts.append(document)
        size += len(member) + len(document)
        position += 1
    return size


def array_documents(raw: bytes) -> list[bytes]:
    """Return the documents in an array. Errors: TypeMismatch for another element."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    end: cython.Py_ssize_t
    code: cython.int
    documents: list[bytes] = []
    while at < stop:
        code = raw[at]
        if code != OBJECT:
            raise CommandError(Code.TypeMismatch, f"an array of documents holds a value of type {code}")
        at = name_end(raw, at + 1, stop) + 1
        end = value_end(raw, code, at, stop)
        documents.append(part(raw, at, end))
        at = end
    return documents


def consecutive_documents(raw: bytes, at: int, end: int) -> list[bytes]:
    """Return the consecutive documents from `at` to `end`. Errors: InvalidBSON if they do not fill the range."""
    begin: cython.Py_ssize_t = at
    limit: cython.Py_ssize_t = end
    after: cython.Py_ssize_t
    documents: list[bytes] = []
    while begin < limit:
        after = document_stop(raw, begin, limit) + 1
        documents.append(part(raw, begin, after))
        begin = after
    return documents


def consecutive_count(raw: bytes, at: int, end: int) -> int:
    """Return the number of consecutive documents from `at` to `end`. Errors: InvalidBSON if they do not fill the
    range.
    """
    begin: cython.Py_ssize_t = at
    limit: cython.Py_ssize_t = end
    count: cython.Py_ssize_t = 0
    while begin < limit:
        begin = document_stop(raw, begin, limit) + 1
        count += 1
    return count


def append_fields(raw: bytes, tail: bytes) -> bytes:
    """Return the document with encoded elements appended."""
    if len(raw) > _COPIED_FREELY:
        length = (len(raw) + len(tail)).to_bytes(4, "little")
        return b"".join((length, memoryview(raw)[4 : len(raw) - 1], tail, b"\0"))
    return (len(raw) + len(tail)).to_bytes(4, "little") + raw[4 : len(raw) - 1] + tail + b"\0"


def without_fields(raw: bytes, names: Set[bytes], tail: bytes) -> bytes:
    """Return the document without fields of these names, and with encoded elements appended."""
    stop: cython.Py_ssize_t = document_stop(raw, 0, len(raw))
    at: cython.Py_ssize_t = 4
    copy_from: cython.Py_ssize_t = 4
    named: cython.Py_ssize_t
    end: cython.Py_ssize_t
    parts: list[bytes] = []
    body: bytes
    while at < stop:
        named = name_end(raw, at + 1, stop)
        end = value_end(raw, raw[at], named + 1, stop)
        if part(raw, at + 1, named) in names:
            parts.append(part(raw, copy_from, at))
            copy_from = end
        at = end
    if not parts:
        return append_fields(raw, tail)
    parts.append(part(raw, copy_from, stop))
    parts.append(tail)
    body = b"".join(parts)
    return enclosed(body)


def encoded_fields(raw: bytes) -> bytes:
    """Return the elements of a document without its length and final NUL, as `append_fields` takes them."""
    return raw[4 : len(raw) - 1]


def array_value(members: Iterable[Value]) -> Value:
    """Return an array value of these members."""
    return ARRAY, array_from(members)
