"""The wide-column mode of a store (`docstore.collection.storage_mode.StorageMode`): keyspaces are guarded, entries
merge into rows, and an initial sync copies rows with their records.

Rows may change while they are copied: the changes are in the oplog, and merging them again is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import bson
from bson.int64 import Int64

from docstore.bson import BINARY, append_fields, get_field
from docstore.kernel.columns.encoding import ESTIMATE, EXPIRING, TOMBSTONE, WHOLE
from docstore.key_layout import family_prefix
from docstore.namespace import wrong_mode
from docstore.widecolumn.model.cells import is_record, unpack_cell, unpack_deletion
from docstore.widecolumn.model.mutations import Entry
from docstore.widecolumn.model.record_pages import unpack_rows
from docstore.widecolumn.node.keyspaces import MARK
from docstore.widecolumn.node.rows import apply_document, merge_document, store_rows, stored_cells

if TYPE_CHECKING:
    from docstore.collection.catalog.catalog import Catalog
    from docstore.collection.collection import Collection
    from docstore.collection.unit_of_work import WriteUnitOfWork
    from docstore.storage import Reader

_PAGE_RECORDS = 2_000


class WideColumnMode:
    """Satisfies `StorageMode`."""

    def check_documents(self, catalog: Catalog, database: str, what: str) -> None:
        # Every command of documents asks: one look at a dictionary, and no call.
        if f"{database}.{MARK}" in catalog.collections:
            raise wrong_mode(database, what, wide=True)

    def apply(self, unit: WriteUnitOfWork, coll: Collection, o: bytes) -> None:
        apply_document(unit, coll, o)

    def stored(self, reader: Reader, coll: Collection) -> Iterator[tuple[bytes, bytes]]:
        return stored_cells(reader, coll)

    def is_record(self, record: bytes) -> bool:
        return is_record(record)

    def rolled_back(self, o: bytes, key: bytes, record: bytes) -> bytes | None:
        """Return `{r, m}`, which merges a cell or deletion again like an oplog entry, with readable fields:
        `timestamp`, `value`, `expires` (seconds since 1970), `deleted`. None for statistics, which are not saved.
        """
        row = get_field(o, "r")
        if row is None or row[0] != BINARY or record[0] & ESTIMATE:
            return None
        path = key[len(family_prefix(0)) + len(row[1]) - 5 :]
        fields: dict[str, Any]
        if record[0] & WHOLE:
            fields = {"timestamp": Int64(unpack_deletion(record).timestamp), "deleted": True}
        else:
            cell = unpack_cell(record)
            fields = {"timestamp": Int64(cell.timestamp)}
            fields.update({"deleted": True} if cell.flags & TOMBSTONE else {"value": cell.value})
            if cell.flags & EXPIRING:
                fields["expires"] = Int64(cell.local_deletion)
        return append_fields(merge_document(row[1][5:], (Entry(path, record),)), bson.encode(fields)[4:-1])

    def page_request(self, name: str, last: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if last is not None and not last["more"]:
            return None
        request = {"_wcScan": name, "start": b"", "end": b"", "limit": _PAGE_RECORDS, "statistics": True}
        return request if last is None else request | {"row": last["row"], "path": last["path"]}

    def store_page(self, unit: WriteUnitOfWork, coll: Collection, page: Mapping[str, Any]) -> int:
        rows = unpack_rows(page["rows"])
        store_rows(unit, coll, rows)
        return len(rows)
