"""Requests on a column family, from raw BSON to typed values. Every refusal precedes any effect.

A path is a partition key, in Super families a super column, and a column; a predicate is a set of names or a range of
them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bson.max_key import MaxKey
from bson.min_key import MinKey

from docstore.bson import (
    ARRAY,
    BOOL,
    INT32,
    INT64,
    NULL,
    OBJECT,
    STRING,
    UNDEFINED,
    Value,
    document_from,
    elements,
    values,
)
from docstore.kernel.columns.encoding import ColumnForm, escape
from docstore.query.value.values import NUMBERS, TYPE_NAMES, integral_of, text_of
from docstore.sharding.partitioners import Partitioner
from docstore.sharding.token_ring import row_key_of_place
from docstore.widecolumn.model.cells import MAX_TTL, Deletion, pack_cell, tombstone, value_record
from docstore.widecolumn.model.column_families import ColumnFamily
from docstore.widecolumn.model.comparators import Comparator
from docstore.widecolumn.model.errors import invalid_request
from docstore.widecolumn.model.keys import encode_row_key, row_end
from docstore.widecolumn.model.mutations import Entry, named_entry, row_deletion_entry, super_deletion_entry
from docstore.widecolumn.model.slices import Predicate, SliceRange, check_range
from docstore.widecolumn.model.values import (
    binary_value,
    bound_bytes,
    column_form,
    content_bytes,
    encoded_name,
    name_bytes,
    partition_key_of,
    plain_bytes,
)

Fields = dict[str, Value]
_ABSENT: Final = (NULL, UNDEFINED)


class WriteContext(NamedTuple):
    """Common inputs of the writes of one request. `now` in seconds; `max_value` in bytes."""

    now: int
    default_timestamp: int
    max_value: int

    def stamped(self, timestamp: int) -> WriteContext:
        """Return a copy with another default timestamp."""
        return self._replace(default_timestamp=timestamp)


def given(value: Value | None) -> Value | None:
    """Return the value; None if it is null or undefined."""
    return None if value is None or value[0] in _ABSENT else value


def fields_of(field: str, value: Value, allowed: frozenset[str]) -> Fields:
    """The fields of a sub-document, null ones left out. InvalidRequest for others than those allowed."""
    if value[0] != OBJECT:
        raise invalid_request(f"{field} must be a document, not {TYPE_NAMES[value[0]]}")
    fields: Fields = {name: (code, data) for name, code, data in elements(value[1]) if code not in _ABSENT}
    if not allowed.issuperset(fields):
        unknown = next(name for name in fields if name not in allowed)
        raise invalid_request(f"{field} has an unknown field '{unknown}'")
    return fields


def super_name_of(family: ColumnFamily, value: Value | None) -> bytes | None:
    """The super column of a path; None where none is given."""
    if value is None:
        return None
    if not family.is_super:
        raise invalid_request(f"supercolumn parameter is invalid for standard CF {family.name}")
    return name_bytes(family.comparator, value, "supercolumn")


def check_path(family: ColumnFamily, super_name: bytes | None, column: Value | None, *, whole_super: bool) -> None:
    """Refuse the path of an insert or a get that names too little. `whole_super`: a super column will do."""
    if family.is_super:
        if super_name is None:
            raise invalid_request(f"supercolumn parameter is not optional for super CF {family.name}")
        if column is None and not whole_super:
            raise invalid_request(f"column parameter is not optional for super CF {family.name}")
    elif column is None:
        raise invalid_request(f"column parameter is not optional for standard CF {family.name}")


def column_comparator(family: ColumnFamily, super_name: bytes | None) -> Comparator:
    """Return the comparator of the requested names: of columns, or of super columns if no super column is named."""
    return family.comparator if super_name is None or family.subcomparator is None else family.subcomparator


def predicate_of(comparator: Comparator, value: Value) -> Predicate:
    """The names, in the form of keys, or the range of a predicate."""
    fields = fields_of("predicate", value, frozenset(("columnNames", "sliceRange")))
    names, bounds = fields.get("columnNames"), fields.get("sliceRange")
    if names is None and bounds is None:
        raise invalid_request("predicate column_names and slice_range may not both be null")
    if names is not None and bounds is not None:
        raise invalid_request("predicate column_names and slice_range may not both be present")
    if names is not None:
        if names[0] != ARRAY:
            raise invalid_request(f"columnNames must be an array, not {TYPE_NAMES[names[0]]}")
        return tuple(encoded_name(comparator, name) for name in values(names[1]))
    assert bounds is not None, "one of both is given"
    return slice_range_of(comparator, bounds)


def slice_range_of(comparator: Comparator, value: Value) -> SliceRange:
    """The range of a slice; its bounds are in the right order for its direction."""
    fields = fields_of("sliceRange", value, frozenset(("start", "finish", "reversed", "count")))
    start, finish = fields.get("start"), fields.get("finish")
    slice_range = SliceRange(
        b"" if start is None else bound_bytes(comparator, start),
        b"" if finish is None else bound_bytes(comparator, finish),
        truth_of(fields.get("reversed")),
        count_of("count", fields.get("count"), 100),
    )
    check_range(comparator, slice_range)
    return slice_range


def truth_of(value: Value | None) -> bool:
    if value is None:
        return False
    if value[0] == BOOL:
        return value[1] == b"\1"
    if value[0] in NUMBERS:
        return integral_of(value) != 0
    raise invalid_request(f"a flag must be a boolean, not {TYPE_NAMES[value[0]]}")


def count_of(name: str, value: Value | None, default: int) -> int:
    if value is None:
        return default
    number = integral_of(value) if value[0] in NUMBERS else None
    if number is None:
        raise invalid_request(f"{name} must be a whole number")
    return number


def timestamp_of(value: Value | None, default: int) -> int:
    """A client's timestamp: an integer, by convention microseconds since 1970."""
    if value is None:
        return default
    number = integral_of(value) if value[0] in (INT32, INT64) else None
    if number is None:
        raise invalid_request(f"a timestamp must be an integer, not {TYPE_NAMES[value[0]]}")
    return number


def ttl_of(value: Value | None, default: int) -> int:
    """Seconds to live; 0: for ever."""
    if value is None:
        return default
    ttl = count_of("ttl", value, default)
    if ttl < 0:
        raise invalid_request(f"A TTL must be greater or equal to 0, but was {ttl}")
    if ttl > MAX_TTL:
        raise invalid_request(f"ttl is too large. requested ({ttl}) maximum ({MAX_TTL})")
    return ttl


def insert_entry(
    family: ColumnFamily, super_name: bytes | None, fields: Fields, writing: WriteContext, *, name_field: str = "name"
) -> Entry:
    """One column to insert, from `{name, value, valueType?, timestamp?, ttl?}`; null fields count as absent."""
    named, content = given(fields.get(name_field)), given(fields.get("value"))
    if named is None or content is None:
        raise invalid_request(f"{name_field if named is None else 'value'} parameter is not optional")
    comparator = column_comparator(family, super_name)
    name = encoded_name(comparator, named)
    value = content_bytes(content, as_long=value_is_long(given(fields.get("valueType"))))
    if len(value) > writing.max_value:
        raise invalid_request(
            f"the value of column {name_bytes(comparator, named)!r} has {len(value)} bytes, "
            f"more than the limit of {writing.max_value}"
        )
    timestamp = timestamp_of(given(fields.get("timestamp")), writing.default_timestamp)
    ttl = ttl_of(given(fields.get("ttl")), family.default_ttl)
    return named_entry(family, name, super_name, value_record(value, timestamp, ttl, writing.now))


def plain_form(family: ColumnFamily, *, as_text: bool = False) -> ColumnForm | None:
    """The kernel's form of the family's columns, where columns need nothing but a name, a value and a timestamp."""
    return None if family.is_super or family.default_ttl else column_form(family.comparator, as_text=as_text)


def value_is_long(value: Value | None) -> bool:
    if value is None:
        return False
    if value != VALUE_TYPE_LONG:
        raise invalid_request("valueType must be 'long'")
    return True


VALUE_TYPE_LONG: Final[Value] = (0x02, b"\x05\0\0\0long\0")


def removal_entry(
    family: ColumnFamily, super_name: bytes | None, column: Value | None, timestamp: int, now: int
) -> Entry:
    """The removal of a column, of a super column, or of a row."""
    if family.is_super and column is not None and super_name is None:
        raise invalid_request(f"supercolumn parameter is not optional for super CF {family.name}")
    if column is not None:
        name = encoded_name(column_comparator(family, super_name), column)
        return named_entry(family, name, super_name, pack_cell(tombstone(timestamp, now)))
    if super_name is not None:
        return super_deletion_entry(family, super_name, Deletion(timestamp, now))
    return row_deletion_entry(Deletion(timestamp, now))


_COLUMN_FIELDS = frozenset(("name", "value", "valueType", "timestamp", "ttl"))


def mutation_entries(family: ColumnFamily, fields: Fields, writing: WriteContext) -> list[Entry]:
    """The entries of one mutation of a batch: of its `insert`, its `insertSuper` or its `deletion`."""
    insert, supers = fields.get("insert"), fields.get("insertSuper")
    if "deletion" in fields:
        if insert is not None or supers is not None:
            raise invalid_request("Mutation may have either a ColumnOrSuperColumn or a Deletion, but not both")
        return _deletion_entries(family, fields["deletion"], writing)
    if (insert is None) == (supers is None):
        raise invalid_request("Mutation must have one ColumnOrSuperColumn or one Deletion")
    if insert is not None:
        if family.is_super:
            raise invalid_request(f"supercolumn parameter is not optional for super CF {family.name}")
        return [insert_entry(family, None, fields_of("insert", insert, _COLUMN_FIELDS), writing)]
    assert supers is not None, "one of both is given"
    return _super_entries(family, supers, writing)


def _super_entries(family: ColumnFamily, value: Value, writing: WriteContext) -> list[Entry]:
    fields = fields_of("insertSuper", value, frozenset(("name", "columns")))
    if "name" not in fields or "columns" not in fields or fields["columns"][0] != ARRAY:
        raise invalid_request("insertSuper needs a name and an array of columns")
    super_name = super_name_of(family, fields["name"])
    return [
        insert_entry(family, super_name, fields_of("columns", column, _COLUMN_FIELDS), writing)
        for column in values(fields["columns"][1])
    ]


def _deletion_entries(family: ColumnFamily, value: Value, writing: WriteContext) -> list[Entry]:
    fields = fields_of(
        "deletion", value, frozenset(("timestamp", "superColumn", "columnNames", "sliceRange", "predicate"))
    )
    if "sliceRange" in fields or "predicate" in fields:
        raise invalid_request("Deletion does not yet support SliceRange predicates.")
    timestamp = timestamp_of(fields.get("timestamp"), writing.default_timestamp)
    super_name = super_name_of(family, fields.get("superColumn"))
    names = fields.get("columnNames")
    if names is None:
        return [removal_entry(family, super_name, None, timestamp, writing.now)]
    if names[0] != ARRAY:
        raise invalid_request(f"columnNames must be an array, not {TYPE_NAMES[names[0]]}")
    if family.is_super and super_name is None:
        return [
            super_deletion_entry(
                family, name_bytes(family.comparator, name, "supercolumn"), Deletion(timestamp, writing.now)
            )
            for name in values(names[1])
        ]
    return [removal_entry(family, super_name, name, timestamp, writing.now) for name in values(names[1])]


def partition_keys_of(value: bytes) -> list[bytes]:
    """The partition keys of a raw array, each once, in the order of the request."""
    return list(dict.fromkeys(partition_key_of(key) for key in values(value)))


class RowRange(NamedTuple):
    """Rows whose row keys lie in `[start, end)`; an empty `end` is open."""

    start: bytes
    end: bytes


def rows_between(partitioner: Partitioner, low: Any, high: Any) -> RowRange:
    """Return the rows from one place to before another; MinKey and MaxKey are the ends of the ring."""
    start = b"" if isinstance(low, MinKey) else row_key_of_place(partitioner, low)
    return RowRange(start, b"" if isinstance(high, MaxKey) else row_key_of_place(partitioner, high))


def record_range_document(rows: RowRange) -> bytes:
    """The range as a document `{start, end}`, for sending between processes."""
    return document_from([("start", *binary_value(rows.start)), ("end", *binary_value(rows.end))])


def record_range_from(raw: bytes) -> RowRange:
    """Decode a range that `record_range_document` encoded."""
    start, end = (data[5:] for _, _, data in elements(raw))
    return RowRange(start, end)


def row_ranges_of(partitioner: Partitioner, raw: bytes | None) -> list[RowRange]:
    """The ranges of the ring that a key range stands for, in the order of the ring."""
    if raw is None:
        return [RowRange(b"", b"")]
    fields = fields_of("range", (OBJECT, raw), frozenset(("startKey", "endKey", "startToken", "endToken")))
    keys = [fields.get(name) for name in ("startKey", "endKey")]
    tokens = [fields.get(name) for name in ("startToken", "endToken")]
    if (keys == [None, None]) == (tokens == [None, None]):
        raise invalid_request("exactly one of {start key, end key} or {start token, end token} must be specified")
    if None in keys and None in tokens:
        raise invalid_request("both ends of a range must be given, or neither")
    if keys[0] is not None and keys[1] is not None:
        return [_key_range(partitioner, *(_bound_key(value) for value in keys if value is not None))]
    # The start is exclusive: skip rows with its token.
    first, last = (_token_tail(partitioner, value) for value in tokens if value is not None)
    wraps = last <= first
    start, end = _after_token(first), _after_token(last)
    parts = [RowRange(start, b"" if wraps else end)] if start else []
    return [*parts, RowRange(b"", end)] if wraps else parts


def _after_token(token: bytes) -> bytes:
    """Return the row key at which the rows after a token begin; empty if there are none."""
    prefix = token.rstrip(b"\xff")
    return prefix[:-1] + bytes((prefix[-1] + 1,)) if prefix else b""


def _bound_key(value: Value) -> bytes:
    data = plain_bytes(value)
    if data is None:
        raise invalid_request(f"a row key must be a string or binary data, not {TYPE_NAMES[value[0]]}")
    return data


def _key_range(partitioner: Partitioner, first: bytes, last: bytes) -> RowRange:
    start = encode_row_key(partitioner, first) if first else b""
    end = encode_row_key(partitioner, last) if last else b""
    if start and end and start > end and partitioner.token_bytes(first) != partitioner.token_bytes(last):
        raise invalid_request("start key must sort before (or equal to) finish key in your partitioner!")
    return RowRange(start, row_end(end) if end else b"")


def _token_tail(partitioner: Partitioner, value: Value) -> bytes:
    text = text_of(value) if value[0] == STRING else str(integral_of(value)) if value[0] in NUMBERS else None
    if text is None:
        raise invalid_request(f"a token must be a number or a string, not {TYPE_NAMES[value[0]]}")
    if not partitioner.width:
        return escape(text.encode())
    try:
        return partitioner.bytes_of(int(text))
    except (ValueError, OverflowError):
        raise invalid_request(f"'{text}' is no token of {partitioner.name}") from None
