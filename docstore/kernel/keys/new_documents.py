"""Keys of documents that are inserted into a collection, computed in batches."""

from __future__ import annotations

import cython

from docstore.kernel.keys.writer import KeyWriter

if not cython.compiled:
    from docstore.bson.walk import find, value_end
    from docstore.kernel.keys.encoding import append_key
    from docstore.kernel.scan.covered import mark_of

_ID_BYTES: cython.int = 8


@cython.ccall
def record_ids(first: cython.ulonglong, count: cython.Py_ssize_t) -> list[bytes]:
    """Return `count` record ids from the first one on, 8 bytes each."""
    out: KeyWriter = KeyWriter()
    ids: list[bytes] = []
    index: cython.Py_ssize_t
    for index in range(count):
        out.clear()
        out.put_number(first + index, _ID_BYTES)
        ids.append(out.contents())
    return ids


def identity_entries(prefix: bytes, documents: list[bytes], rids: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return (the keys in the `_id` index, their values: marks and record id) of documents, all with an `_id`."""
    out: KeyWriter = KeyWriter()
    keys: list[bytes] = []
    values: list[bytes] = []
    raw: bytes
    at: cython.Py_ssize_t
    mark: cython.int
    index: cython.Py_ssize_t
    for index in range(len(documents)):
        raw = documents[index]
        at = find(raw, 0, len(raw), b"_id")
        assert at >= 0, "a stored document has an _id"
        out.clear()
        out.put_bytes(prefix)
        append_key(out, raw[at], raw, at + 5, value_end(raw, raw[at], at + 5, len(raw)))
        keys.append(out.contents())
        mark = mark_of(raw[at], raw, at + 5)
        values.append(rids[index] if mark == 0 else mark.to_bytes(1, "big") + rids[index])
    return keys, values
