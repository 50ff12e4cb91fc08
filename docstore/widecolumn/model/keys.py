"""Keys of the `wide` family: everything of a row lies together, and a slice of its columns is one range.

    key = 57 | ident of the column family (4) | row key | area (1) | path
    row key = token | escaped partition key

| area | path | record |
|---|---|---|
| 00 | nothing | deletion of the row |
| 04 | nothing | statistics of the row: an estimate, each member's own |
| 08 | column id, element | static columns of CQL |
| 10 | encoded start, kind of bound | range deletion of CQL |
| 20 | encoded name | column of a Standard family |
| 20 | encoded super column name, 00 | deletion of the super column |
| 20 | encoded super column name, 01, encoded name | column of a Super family |
| 20 | encoded clustering columns, 00 | row marker and row deletion of CQL |
| 20 | encoded clustering columns, 01, column id (4), element | cell of CQL |

No encoded name is a prefix of another (`docstore.widecolumn.model.comparators`), so `start` to `after_name(finish)`
holds the names from start to finish and nothing else.
"""

from __future__ import annotations

from docstore.kernel.columns.encoding import escape
from docstore.key_layout import family_prefix
from docstore.sharding.partitioners import Partitioner
from docstore.widecolumn.model.comparators import unescape

ROW_DELETION = b"\x00"
STATISTICS = b"\x04"
STATIC = b"\x08"
RANGE_DELETION = b"\x10"
COLUMNS = b"\x20"
SUPER_DELETION = b"\x00"
SUB_COLUMN = b"\x01"
_IDENT_END = 5


def row_prefix(ident: int, partitioner: Partitioner, partition_key: bytes) -> bytes:
    """Return the prefix of all keys of a row."""
    return family_prefix(ident) + encode_row_key(partitioner, partition_key)


def encode_row_key(partitioner: Partitioner, partition_key: bytes) -> bytes:
    """Return the row key: the part of the key between ident and area, the same on every member."""
    return partitioner.token_bytes(partition_key) + escape(partition_key)


def row_end(prefix: bytes) -> bytes:
    """The end of the half-open range of a row's keys."""
    return prefix + b"\xff"


def columns_range(prefix: bytes) -> tuple[bytes, bytes]:
    """The half-open range of a row's columns."""
    return prefix + COLUMNS, after_part(prefix + COLUMNS)


def after_name(path: bytes) -> bytes:
    """Return the end of the range of all paths with this prefix, which ends in an encoded name."""
    return path + b"\xff"


def after_part(path: bytes) -> bytes:
    """Return the end of the range of all paths with this prefix, which ends in an area or in `SUB_COLUMN`."""
    return path[:-1] + bytes((path[-1] + 1,))


def decode_row_key(partitioner: Partitioner, row_key: bytes) -> bytes:
    """The partition key of a row key."""
    return unescape(row_key, partitioner.width)[0]


def split_row(key: bytes, partitioner: Partitioner) -> tuple[bytes, int]:
    """Return (partition key, offset of the area) of any key of a row."""
    return unescape(key, _IDENT_END + partitioner.width)
