"""The definition of a time-series collection, and the field names of its buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from docstore.bson import to_python
from docstore.bson.build import document_from
from docstore.bson.convert import from_python
from docstore.bson.walk import OBJECT, elements
from docstore.errors import Code, CommandError

MAX_CUSTOM_SECONDS = 365 * 24 * 60 * 60
"""The longest time that a custom bucket may cover."""
BUCKETS_PREFIX = "system.buckets."
CONTROL, DATA, META = "control", "data", "meta"
UNPACK = "$_internalUnpackBucket"


@dataclass(frozen=True, slots=True)
class Granularity:
    """`span_seconds`: the maximal time span of a bucket; its begin is a multiple of `rounding_seconds`."""

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
    """The definition. `meta_field`: identifies the series of a measurement; None: there is one series. `granularity`:
    one of `GRANULARITIES`, or None for buckets of `custom_seconds` that begin at multiples of that.
    """

    time_field: str
    meta_field: str | None
    granularity: str | None
    custom_seconds: int = 0

    @property
    def span_seconds(self) -> int:
        return self._bucketing.span_seconds

    @property
    def _bucketing(self) -> Granularity:
        if self.granularity is None:
            return Granularity(self.custom_seconds, self.custom_seconds)
        return GRANULARITIES[self.granularity]

    @property
    def rounding_seconds(self) -> int:
        return self._bucketing.rounding_seconds

    def document(self) -> bytes:
        """Return the form in the options of the collection."""
        if self.granularity is None:
            rounding = ("bucketRoundingSeconds", *from_python(self.custom_seconds))
            return document_from([*self._names(), self._span(), rounding])
        return document_from([*self._names(), ("granularity", *from_python(self.granularity)), self._span()])

    def unpack_stage(self) -> bytes:
        """Return the stage of the view over the buckets."""
        return document_from([(UNPACK, OBJECT, document_from([*self._names(), self._span()]))])

    def _names(self) -> list[tuple[str, int, bytes]]:
        fields = [("timeField", *from_python(self.time_field))]
        return fields if self.meta_field is None else [*fields, ("metaField", *from_python(self.meta_field))]

    def _span(self) -> tuple[str, int, bytes]:
        return ("bucketMaxSpanSeconds", *from_python(self.span_seconds))


def parse_definition(raw: bytes) -> TimeseriesDefinition:
    """Parse the result of `TimeseriesDefinition.document`."""
    fields = {name: to_python((code, data)) for name, code, data in elements(raw)}
    granularity = fields.get("granularity")
    custom = 0 if granularity is not None else fields["bucketMaxSpanSeconds"]
    return TimeseriesDefinition(fields["timeField"], fields.get("metaField"), granularity, custom)


def check_bucketing(options: Mapping[str, Any]) -> int | None:
    """The seconds of custom buckets that `{granularity?, bucketMaxSpanSeconds?, bucketRoundingSeconds?}` asks for; None
    where it asks for none. Errors: InvalidOptions.
    """
    span, rounding = options.get("bucketMaxSpanSeconds"), options.get("bucketRoundingSeconds")
    if rounding is None:
        return None
    if options.get("granularity") is not None:
        raise CommandError(Code.InvalidOptions, "Timeseries 'bucketRoundingSeconds' goes without 'granularity'")
    if span != rounding:
        raise CommandError(
            Code.InvalidOptions,
            "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must be given together and be equal",
        )
    seconds: int = rounding
    return seconds


@lru_cache(maxsize=1024)
def buckets_of(namespace: str) -> str:
    """The namespace of the buckets of a time-series collection."""
    database, _, name = namespace.partition(".")
    return f"{database}.{BUCKETS_PREFIX}{name}"


def measured_of(namespace: str) -> str:
    """The namespace of the time-series collection whose buckets are in this one."""
    database, _, name = namespace.partition(".")
    return f"{database}.{name.removeprefix(BUCKETS_PREFIX)}"
