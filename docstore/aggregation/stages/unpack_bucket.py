"""`$_internalUnpackBucket`: the measurements of the buckets of a time-series collection.

It is the one stage of the view that such a collection is; a filter behind it is said of buckets in front of it
(`over_buckets`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from docstore.aggregation.looked_at import fields_of_stages
from docstore.aggregation.stage import Declaration, Environment, Stage
from docstore.aggregation.stages.match import parts_of
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
    """`span_seconds`: how much time a bucket covers at most. `wanted`: the fields of measurements that are looked at;
    None: all.
    """

    raw: bytes
    time_field: str
    meta_field: str | None
    span_seconds: int
    wanted: frozenset[str] | None = None

    runs_on_shards = True

    def told_of(self, following: Sequence[Stage]) -> tuple[Stage, int] | None:
        return replace(self, wanted=fields_of_stages(following)), 0

    def open(self, source: Stream, environment: Environment) -> Stream:
        unpacked = measurements(self.time_field, self.meta_field, self.wanted)
        return Expanded(source, unpacked.of, environment.clock)

    def over_buckets(self, filter_: bytes) -> tuple[list[bytes], list[bytes], list[bytes]]:
        """(filters of buckets that say the same as some of the conditions, the other conditions, filters that hold of
        all buckets with a measurement that meets those) of the conditions that a filter on measurements is.
        """
        moved: list[bytes] = []
        left: list[bytes] = []
        implied: list[bytes] = []
        for condition in parts_of(filter_):
            same = of_metadata(condition, self.meta_field)
            if same is not None:
                moved.append(same)
                continue
            left.append(condition)
            held = of_measured(condition, self.time_field, self.span_seconds)
            if held is not None:
                implied.append(held)
        begun = of_begun(left, self.time_field, self.span_seconds)
        if begun is not None:
            implied.append(begun)
        return moved, left, implied


_NAMES = {"timeField": 5346504, "metaField": 5346505}
"""The names of fields that it is given, and the code of the refusal of what is none."""


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
