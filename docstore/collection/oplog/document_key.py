"""Document keys in the oplog and in change events: `{_id}`, or the shard key fields in their order before `_id`.

- The format is MongoDB 6.0's. Missing fields are omitted.
- Entries are applied by `_id` alone; the shard key is for consumers of change events.
"""

from __future__ import annotations

from collections.abc import Mapping

from docstore.bson import document_from, get_path
from docstore.kernel.log.entries import id_document


class DocumentKey:
    """The document key of a collection that is sharded by these (dotted) fields."""

    __slots__ = ("_fields",)

    def __init__(self, shard_key: tuple[str, ...]) -> None:
        self._fields = shard_key if "_id" in shard_key else (*shard_key, "_id")

    def of(self, raw: bytes, field: bytes = b"") -> bytes:
        """Return the key of a stored document, e.g. `{user: 1, "day.of": 2, _id: 3}`; dotted paths become plain names.

        With `field`, return it as an encoded field of that name.
        """
        values = [(path, get_path(raw, path)) for path in self._fields]
        key_document = document_from([(path, *value) for path, value in values if value is not None])
        return b"\x03%b\0%b" % (field, key_document) if field else key_document


def document_key(keys: Mapping[str, DocumentKey], ns: str, raw: bytes, field: bytes = b"") -> bytes:
    """Return the document key of a stored document; with `field`, as an encoded field of that name.

    `keys`: by namespace, the keys of collections known to be sharded.
    """
    key = keys.get(ns) if keys else None
    return id_document(raw, field) if key is None else key.of(raw, field)
