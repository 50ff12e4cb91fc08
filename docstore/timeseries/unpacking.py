"""The measurements of a bucket, in the order in which they were stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT, encoded_name, get_field
from docstore.errors import CommandError
from docstore.kernel.match.predicate import PathPredicate, Predicate
from docstore.kernel.series.unpacking import Unpacking, is_plain
from docstore.query.value.notation import display
from docstore.query.value.values import int32_value, truncated_of
from docstore.timeseries.definition import CONTROL, DATA

_VERSION = int32_value(1)
_COMPRESSED = 2


@dataclass(frozen=True, slots=True)
class Measurements:
    """Unpacks the buckets of one collection.

    Methods raise 10065, 5346509, 5346700, 5857700, 5857900, 5857902 and 5857903 for documents that are no buckets of
    that time field, and the errors of the predicate.
    """

    unpacking: Unpacking

    def of(self, raw: bytes) -> list[bytes]:
        """Return the requested measurements of a bucket: the time first, then the metadata, then the other fields in
        the order of the bucket.
        """
        if not is_plain(raw):
            _check(raw)
        rows = self.unpacking.rows(raw)
        if rows is None:
            raise _empty(raw)
        return rows

    def count(self, raw: bytes) -> int:
        """Return the number of measurements that `of` would return."""
        if not is_plain(raw):
            _check(raw)
        count = self.unpacking.count(raw)
        if count < 0:
            raise _empty(raw)
        return count


def measurements(
    time_field: str,
    meta_field: str | None,
    fields: frozenset[str] | None = None,
    tests: Sequence[PathPredicate] = (),
    predicate: Predicate | None = None,
) -> Measurements:
    """Return the unpacking of measurements that pass the `tests` of single fields and the predicate, with the
    `fields` fields or all.
    """
    includes_meta = meta_field is not None and (fields is None or meta_field in fields)
    meta = encoded_name(meta_field) if includes_meta and meta_field is not None else None
    names = None if fields is None else {encoded_name(name) for name in fields}
    return Measurements(Unpacking(encoded_name(time_field), meta, names, tests, predicate))


def _check(raw: bytes) -> None:
    data = get_field(raw, DATA)
    if data is None or data[0] != OBJECT:
        raise CommandError(10065, f"invalid parameter: expected an object ({'' if data is None else DATA})")
    if data[1] == EMPTY_DOCUMENT:
        raise _empty(raw)
    control = get_field(raw, CONTROL)
    if control is None or control[0] != OBJECT:
        raise CommandError(5857902, "The $_internalUnpackBucket stage requires 'control' object to be present")
    version = get_field(control[1], "version")
    number = None if version is None else truncated_of(version)
    if number is None:
        raise CommandError(5857903, "The $_internalUnpackBucket stage requires 'control.version' field to be present")
    if version == _VERSION:
        return
    if number == _COMPRESSED:
        raise CommandError(5857700, "Invalid BSON type for column")
    if number != 1:
        raise CommandError(5857900, "Invalid bucket version")


def _empty(raw: bytes) -> CommandError:
    identity = get_field(raw, "_id")
    named = "" if identity is None else f"_id: {display(identity)}"
    return CommandError(5346509, f"A bucket with _id {named} contains an empty data region")
