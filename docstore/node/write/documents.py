"""Preparation of a client's document for storage.

A document that `prepare` returns

* is sound BSON of at most 16 MiB and 180 levels;
* has exactly one `_id`, in front, that is neither an array, a regular expression nor undefined and holds no
  `$`-prefixed field;
* has no zero timestamp in a top-level field other than `_id` (it was replaced by the current timestamp);
* otherwise equals the client's bytes, duplicate and `$`-prefixed field names included, as MongoDB allows since 5.0.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.bson import OBJECT_ID, TIMESTAMP, document_from, elements, is_storable
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.errors import Code, CommandError
from docstore.query.value.identity import check_id

_ZERO_TIMESTAMP = bytes(8)

Field = tuple[str, int, bytes]


def prepare(raw: bytes, new_id: Callable[[], bytes], timestamp: Callable[[], bytes]) -> bytes:
    """Return the document as it will be stored.

    `new_id` returns the 12 bytes of a fresh ObjectId, `timestamp` the 8 bytes of the current timestamp.

    Errors: BadValue for more than 16 MiB and for two `_id`s, InvalidIdField, DollarPrefixedFieldName, InvalidBSON,
    Overflow.
    """
    check_size(raw)
    if is_storable(raw):
        return raw
    fields = elements(raw)
    at = [position for position, field in enumerate(fields) if field[0] == "_id"]
    if len(at) > 1:
        raise CommandError(Code.BadValue, "a document may have only one _id")
    identity = fields.pop(at[0]) if at else ("_id", OBJECT_ID, new_id())
    check_id(identity[1:])
    filled = [_with_time(field, timestamp) for field in fields]
    return raw if at == [0] and filled == fields else check_size(document_from((identity, *filled)))


def check_size(raw: bytes) -> bytes:
    """Return the document itself. Errors: BadValue over 16 MiB."""
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise CommandError(
            Code.BadValue, f"object to insert too large: it has {len(raw)} bytes, the limit is {MAX_DOCUMENT_BYTES}"
        )
    return raw


def _with_time(field: Field, timestamp: Callable[[], bytes]) -> Field:
    if field[1] == TIMESTAMP and field[2] == _ZERO_TIMESTAMP:
        return field[0], TIMESTAMP, timestamp()
    return field
