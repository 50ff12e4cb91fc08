"""Collections that are not frozen: each element is a cell of its own, so that writes of different elements merge.

Below the path of the column (`docstore.widecolumn.cql.schema.layout`):

| path | record |
|---|---|
| 00 | deletion of the collection, also of what stood before a value that is written as a whole |
| 01, encoded element | element of a set: a cell without a value |
| 01, encoded key | value of a map |
| 01, encoded version 1 UUID | element of a list, whose order is that of the UUIDs |

A collection without a live element is null.
"""

from __future__ import annotations

from collections.abc import Iterable

from docstore.kernel.columns.encoding import escape
from docstore.widecolumn.cql.types.collections import CollectionType, ListType, MapType, SetType, in_order, pack_parts
from docstore.widecolumn.cql.types.native import DECIMAL, EXACT, CqlType
from docstore.widecolumn.model.cells import Cell
from docstore.widecolumn.model.comparators import TIME_UUID, Comparator, unescape

ELEMENT = b"\x01"


def key_type(kind: SetType | MapType) -> CqlType:
    """Return the type of what names a cell: an element of a set, a key of a map."""
    return kind.element if isinstance(kind, SetType) else kind.key


def _key_comparator(kind: CollectionType) -> Comparator | None:
    """Return the order of keys as stored; None for types whose values are not stored in their order."""
    if isinstance(kind, ListType):
        return TIME_UUID
    comparator = key_type(kind).comparator
    return comparator if comparator is not None and comparator.ordered else None


def element_path(kind: CollectionType, key: bytes) -> bytes:
    """Return the path, below the column's, of the cell that a key names. Equal keys have one path."""
    comparator = _key_comparator(kind)
    if comparator is not None:
        return ELEMENT + comparator.encode(key)
    if not isinstance(kind, ListType) and key_type(kind) is DECIMAL and key:
        key = DECIMAL.serialise(DECIMAL.parse(key).normalize(EXACT))
    return ELEMENT + escape(key)


def assembled(kind: CollectionType, cells: Iterable[tuple[bytes, Cell]]) -> Cell | None:
    """Return one cell with the whole value; None if no cell is live. `cells`: the live ones by their paths below the
    column's, in order. The timestamp is the highest.
    """
    comparator = _key_comparator(kind)
    decode = unescape if comparator is None else comparator.decode
    cell_by_key = {decode(path, len(ELEMENT))[0]: cell for path, cell in cells}
    if not cell_by_key:
        return None
    keys = list(cell_by_key)
    if comparator is None and not isinstance(kind, ListType):
        keys = in_order(key_type(kind), keys)
    if isinstance(kind, MapType):
        parts = [part for key in keys for part in (key, cell_by_key[key].value)]
    elif isinstance(kind, SetType):
        parts = keys
    else:
        parts = [cell_by_key[key].value for key in keys]
    return Cell(0, max(cell.timestamp for cell in cell_by_key.values()), pack_parts(parts, len(keys)))
