"""Grouped inserts: one oplog entry for many inserts into one collection, as MongoDB 6.0 groups operations.

The entry is a command `applyOps` of `{op: "i", ns, ui, o, o2}` documents. Only inserts are grouped.
"""

from __future__ import annotations

from collections.abc import Iterable

from docstore.bson import array_documents, get_field
from docstore.bson.build import enclosed
from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.entry import entry_head
from docstore.kernel.log.entries import id_document

NAME = "applyOps"
HEAD = entry_head("c", "admin.$cmd", None)
_NAME_FIELD = b"\x04" + NAME.encode() + b"\0"
PLACES = [b"\x03%d\0" % index for index in range(1024)]
"""Encoded type and name of each array element that is a document."""
MOST_INSERTS = len(PLACES)


def inserts_command(head: bytes, documents: Iterable[bytes], key: DocumentKey | None = None) -> bytes:
    """Return the command for at most `MOST_INSERTS` documents, which have an `_id`.

    `head`: the encoded fields `op`, `ns` and `ui` of an insert into the collection. `key`: set if the collection is
    known to be sharded.
    """
    parts: list[bytes] = []
    for element_header, operation in zip(PLACES, inserts(head, documents, key), strict=False):
        parts += (element_header, operation)
    return enclosed(_NAME_FIELD + enclosed(b"".join(parts)))


def inserts(head: bytes, documents: Iterable[bytes], key: DocumentKey | None = None) -> list[bytes]:
    """Return the insert operations for documents, which have an `_id`; `head` and `key` as in `inserts_command`."""
    named = id_document if key is None else key.of
    return [enclosed(b"".join((head, b"\x03o\0", raw, named(raw, b"o2")))) for raw in documents]


def groups_inserts(entry: bytes) -> bool:
    """True if the entry groups inserts."""
    o = get_field(entry, "o") if entry.startswith(HEAD, 4) else None
    return o is not None and o[1].startswith(_NAME_FIELD, 4)


def inserted_documents(command: bytes) -> list[tuple[bytes, bytes]] | None:
    """Return (`ui`, document) of each grouped insert; None for any other command or operation."""
    operations = get_field(command, NAME)
    if operations is None:
        return None
    pairs: list[tuple[bytes, bytes]] = []
    for operation in array_documents(operations[1]):
        op, ui, o = get_field(operation, "op"), get_field(operation, "ui"), get_field(operation, "o")
        if op is None or op[1] != b"\x02\0\0\0i\0" or ui is None or o is None:
            return None
        pairs.append((ui[1], o[1]))
    return pairs
