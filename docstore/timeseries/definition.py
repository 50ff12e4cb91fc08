"""What defines a time-series collection, and the names of the parts of its buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from docstore.bson import to_python
from docstore.bson.build import document_from
from docstore.bson.convert import from_python
from docstore.bson.walk import OBJECT, elements

BUCKETS_PREFIX = "system.buckets."
CONTROL, DATA, META = "control", "data", "meta"
UNPACK = "$_internalUnpackBucket"
TYPE_BYTES = tuple(bytes((code,)) for code in range(256))
"""The byte of each type, which stands before the name of a field."""


@dataclass(frozen=True, slots=True)
class Granularity:
    """`span_seconds`: how much time a bucket covers at most; its begin is a multiple of `rounding_seconds`."""

    span_seconds: int
    rounding_seconds: int


GRANULARITIES: Mapping[str, Granularity] = MappingProxyType(
    {
        "seconds": Granularity(60 * 60, 60),
        "minutes": Granularity(24 * 60 * 60, 60 * 60),
        "hours": Granularity(30 * 24 * 60 * 60, 24 * 60 * 60),
    }
)
"""From the finest to the coarsest."""


@dataclass(frozen=True, slots=True)
class TimeseriesDefinition:
    """`meta_field` says which series a measurement belongs to; None: there is one."""

    time_field: str
    meta_field: str | None
    granularity: str

    @property
    def span_seconds(self) -> int:
        return GRANULARITIES[self.granularity].span_seconds

    def rounded(self, time: int) -> int:
        """The begin of a bucket whose first measurement is of that time; both in milliseconds since 1970."""
        return time - time % (GRANULARITIES[self.granularity].rounding_seconds * 1000)

    def document(self) -> bytes:
        """As the options of the collection show it."""
        return document_from([*self._names(), ("granularity", *from_python(self.granularity)), self._span()])

    def unpack_stage(self) -> bytes:
        """The stage of the view over the buckets."""
        return document_from([(UNPACK, OBJECT, document_from([*self._names(), self._span()]))])

    def _names(self) -> list[tuple[str, int, bytes]]:
        fields = [("timeField", *from_python(self.time_field))]
        return fields if self.meta_field is None else [*fields, ("metaField", *from_python(self.meta_field))]

    def _span(self) -> tuple[str, int, bytes]:
        return ("bucketMaxSpanSeconds", *from_python(self.span_seconds))


def parse_definition(raw: bytes) -> TimeseriesDefinition:
    """From what `TimeseriesDefinition.document` has made."""
    fields = {name: to_python((code, data)) for name, code, data in elements(raw)}
    return TimeseriesDefinition(fields["timeField"], fields.get("metaField"), fields["granularity"])


def buckets_of(namespace: str) -> str:
    """The namespace of the buckets of a time-series collection."""
    database, _, name = namespace.partition(".")
    return f"{database}.{BUCKETS_PREFIX}{name}"


def measured_of(namespace: str) -> str:
    """The namespace of the time-series collection whose buckets are in this one."""
    database, _, name = namespace.partition(".")
    return f"{database}.{name.removeprefix(BUCKETS_PREFIX)}"
