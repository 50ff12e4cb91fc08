"""What names a document in the oplog and in change events: `{_id}`, or of a sharded collection the fields of its shard
key, in its order, before `_id`, as MongoDB 6.0 has them.

Always true: whoever carries an entry out finds the document by `_id` alone; what else the key says is for those who
follow the changes. A field that the document does not have is left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from docstore.bson import document_from, get_path
from docstore.kernel.log.entries import id_document


class DocumentKey:
    """That of a collection which is sharded by these (dotted) fields."""

    __slots__ = ("_fields",)

    def __init__(self, shard_key: tuple[str, ...]) -> None:
        self._fields = shard_key if "_id" in shard_key else (*shard_key, "_id")

    def of(self, raw: bytes, field: bytes = b"") -> bytes:
        """Of a stored document, e.g. `{user: 1, "day.of": 2, _id: 3}`; a dotted path is a plain name there. As a
        `field` of that name where one is given.
        """
        values = [(path, get_path(raw, path)) for path in self._fields]
        found = document_from([(path, *value) for path, value in values if value is not None])
        return b"\x03%b\0%b" % (field, found) if field else found


def document_key(keys: Mapping[str, DocumentKey], ns: str, raw: bytes, field: bytes = b"") -> bytes:
    """Of a stored document in a collection; as a `field` of that name where one is given. `keys` are of those that are
    known to be sharded."""
    key = keys.get(ns) if keys else None
    return id_document(raw, field) if key is None else key.of(raw, field)
