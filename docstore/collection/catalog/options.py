"""Collection options, as stored in the catalog row.

`raw` is stored, cloned and shown by listCollections byte for byte, with unknown options. The other fields are those
that reads and writes use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from docstore.bson import EMPTY_DOCUMENT, OBJECT, Value, document_from, elements, from_python, to_python
from docstore.query.value.collation import Collation, parse_collation
from docstore.timeseries.definition import TimeseriesDefinition, parse_definition

SIZE_STEP = 256
"""The size of a capped collection is a multiple of this."""
NO_MAXIMUM = 0x7FFFFFFF
"""The stored `max` of a collection without a maximum."""

ORDER = (
    "capped", "size", "max", "autoIndexId", "temp", "changeStreamPreAndPostImages", "storageEngine",
    "indexOptionDefaults", "validator", "validationLevel", "validationAction", "collation", "clusteredIndex",
    "expireAfterSeconds", "timeseries", "keyspace", "columnFamily", "truncatedAt",
)  # fmt: skip
"""The order in which options are stored."""


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """The parsed options of a collection. `max_bytes` and `max_documents` (0: no limit) apply to capped collections.

    `validator`: the raw filter that documents must match; None: no validation. `level`: off, strict or moderate.
    `action`: error or warn. `collation`: the default of requests, and that of the `_id` index. `pre_images`: pre-images
    are kept for change streams. `clustered`: the raw cluster key of a clustered collection, with `expire_after`, its
    expiry in seconds. `timeseries`: the collection holds the buckets of a time-series collection. `keyspace`, `family`:
    the raw definition of a keyspace marker or a column family. `truncated_at`: the last truncation of the family, in
    microseconds since 1970; 0: never.
    """

    raw: bytes = EMPTY_DOCUMENT
    capped: bool = False
    max_bytes: int = 0
    max_documents: int = 0
    validator: bytes | None = None
    level: str = "strict"
    action: str = "error"
    collation: Collation | None = None
    pre_images: bool = False
    clustered: bytes | None = None
    expire_after: int | None = None
    timeseries: TimeseriesDefinition | None = None
    keyspace: bytes | None = None
    family: bytes | None = None
    truncated_at: int = 0

    def changed(self, changes: Mapping[str, Value | None]) -> CollectionOptions:
        """Return the options with some replaced, or removed if the new value is None."""
        fields = {name: (code, data) for name, code, data in elements(self.raw)}
        for name, value in changes.items():
            if value is None:
                fields.pop(name, None)
            else:
                fields[name] = value
        return options_from(fields.items())


NO_OPTIONS = CollectionOptions()
_OF_BUCKETS = from_python({"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True})[1]


def options_from(fields: Iterable[tuple[str, Value]]) -> CollectionOptions:
    """Build options from (name, value) pairs in any order."""
    by_name = dict(fields)
    ordered_fields = [(name, *by_name.pop(name)) for name in ORDER if name in by_name]
    return parse_options(document_from([*ordered_fields, *((name, *value) for name, value in by_name.items())]))


def options_of(fields: Mapping[str, Any]) -> CollectionOptions:
    """Build options from Python values."""
    return options_from((name, from_python(value)) for name, value in fields.items())


def parse_options(raw: bytes) -> CollectionOptions:
    """Parse stored options."""
    if raw == EMPTY_DOCUMENT:
        return NO_OPTIONS
    fields = {name: (code, data) for name, code, data in elements(raw)}

    def of(name: str, default: Any) -> Any:
        return to_python(fields[name]) if name in fields else default

    maximum = int(of("max", 0))
    return CollectionOptions(
        raw=raw,
        capped=bool(of("capped", False)),
        max_bytes=int(of("size", 0)),
        max_documents=0 if maximum == NO_MAXIMUM else maximum,
        validator=fields["validator"][1] if "validator" in fields else None,
        level=of("validationLevel", "strict"),
        action=of("validationAction", "error"),
        collation=parse_collation(fields["collation"][1]) if "collation" in fields else None,
        pre_images="changeStreamPreAndPostImages" in fields,
        clustered=_clustered(fields.get("clusteredIndex")),
        expire_after=int(of("expireAfterSeconds", 0)) if "expireAfterSeconds" in fields else None,
        timeseries=parse_definition(fields["timeseries"][1]) if "timeseries" in fields else None,
        keyspace=fields["keyspace"][1] if "keyspace" in fields else None,
        family=fields["columnFamily"][1] if "columnFamily" in fields else None,
        truncated_at=int(of("truncatedAt", 0)),
    )


def _clustered(stored: Value | None) -> bytes | None:
    """Return the cluster key; buckets store only a boolean."""
    return None if stored is None else stored[1] if stored[0] == OBJECT else _OF_BUCKETS


def capped_size(size: int) -> int:
    """Return the effective size of a capped collection: the next multiple of 256."""
    return max(-(-size // SIZE_STEP), 1) * SIZE_STEP


def capped_maximum(maximum: int) -> int:
    """Return the effective maximum number of documents; zero and below mean none."""
    return maximum if maximum > 0 else NO_MAXIMUM
