"""`$_internalUnpackBucket`: the measurements in the buckets of a time-series collection.

It is the only stage of a time-series collection's view. A filter after it implies conditions on buckets, which are
placed before it (`divide_filter`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from docstore.aggregation.field_dependencies import fields_of_stages
from docstore.aggregation.filter_pushdown import DividedFilter
from docstore.aggregation.stage import Declaration, Environment, Stage
from docstore.aggregation.streams import Expanded, Stream
from docstore.bson.build import document_from
from docstore.bson.walk import INT32, INT64, OBJECT, STRING, Value, elements
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.value.values import int_of, text_of, type_name
from docstore.timeseries.conditions import of_begun, of_measured, of_metadata
from docstore.timeseries.definition import UNPACK
from docstore.timeseries.unpacking import measurements


@dataclass(frozen=True, slots=True)
class UnpackBucket(Stage):
    """The stage. `span_seconds`: the maximum time span of a bucket. `fields`: the measurement fields read; None:
    all.
    """

    raw: bytes
    time_field: str
    meta_field: str | None
    span_seconds: int
    fields: frozenset[str] | None = None

    runs_on_shards = True

    def fuse_with(self, following: Sequence[Stage]) -> tuple[Stage, int] | None:
        return replace(self, fields=fields_of_stages(stage.field_dependencies for stage in following)), 0

    def open(self, source: Stream, environment: Environment) -> Stream:
        unpacked = measurements(self.time_field, self.meta_field, self.fields)
        return Expanded(source, unpacked.of, environment.clock)

    def divide_filter(
        self, conditions: Sequence[bytes], query_context: QueryContext, *, with_implied: bool
    ) -> DividedFilter:
        """Divide a filter on measurements into equivalent conditions on buckets, the remaining conditions, and the
        conditions on buckets that the remaining ones imply.
        """
        del query_context
        divided = self.over_buckets(conditions)
        return divided if with_implied else divided._replace(implied=[])

    def over_buckets(self, conditions: Iterable[bytes]) -> DividedFilter:
        """See `divide_filter`."""
        divided = DividedFilter([], [], [])
        for condition in conditions:
            same = of_metadata(condition, self.meta_field)
            if same is not None:
                divided.moved.append(same)
                continue
            divided.remaining.append(condition)
            implied = of_measured(condition, self.time_field, self.span_seconds)
            if implied is not None:
                divided.implied.append(implied)
        id_filter = of_begun(divided.remaining, self.time_field, self.span_seconds)
        if id_filter is not None:
            divided.implied.append(id_filter)
        return divided


_NAMES = {"timeField": 5346504, "metaField": 5346505}
"""The field name options, and the error code for an invalid one."""


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    del query_context
    if value[0] != OBJECT:
        raise CommandError(5346500, f"{UNPACK} specification must be an object, got: {type_name(value)}")
    time_field = meta_field = None
    span = None
    for name, code, data in elements(value[1]):
        if name in _NAMES:
            if code != STRING:
                raise CommandError(_NAMES[name], f"{name} field must be a string, got: {type_name((code, data))}")
            if name == "timeField":
                time_field = text_of((code, data))
            else:
                meta_field = text_of((code, data))
        elif name == "bucketMaxSpanSeconds":
            if code not in (INT32, INT64):
                raise CommandError(5510600, f"{name} field must be an integer, got: {type_name((code, data))}")
            span = int_of((code, data))
        elif name != "exclude":
            raise CommandError(5346506, f"unrecognized parameter to {UNPACK}: {name}")
    if time_field is None:
        raise CommandError(5346508, f"{UNPACK} stage requires a timeField parameter")
    if span is None:
        raise CommandError(5510602, f"{UNPACK} stage requires a bucketMaxSpanSeconds parameter")
    return [UnpackBucket(document_from([(UNPACK, *value)]), time_field, meta_field, span)]


DECLARATIONS = (Declaration(UNPACK, _parse),)
