"""`create` with `timeseries`: the definition, and the other options that such a collection may have."""

from __future__ import annotations

from bson.int64 import Int64

from docstore.bson import from_python
from docstore.collection.catalog.options import CollectionOptions
from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.declaration import Parameter, Type
from docstore.commands.limits import Face
from docstore.errors import Code, CommandError
from docstore.node.ddl.create import checked_expiry, choice
from docstore.node.node import DataNode
from docstore.node.timeseries.series import buckets_options
from docstore.query.value.collation import parse_collation
from docstore.timeseries.definition import GRANULARITIES, MAX_CUSTOM_SECONDS, TimeseriesDefinition, check_bucketing

_FIELDS = declared(
    Parameter("timeField", Type.STRING, required=True),
    Parameter("metaField", Type.STRING),
    Parameter("granularity", Type.STRING),
    Parameter("bucketMaxSpanSeconds", Type.INT),
)
_CUSTOM = {
    **_FIELDS,
    **declared(Parameter("bucketRoundingSeconds", Type.INT, minimum=1, maximum=MAX_CUSTOM_SECONDS)),
}
_ALLOWED = frozenset(
    ("timeseries", "expireAfterSeconds", "collation", "storageEngine", "indexOptionDefaults", "comment")
)
"""Options of `create` allowed with `timeseries`."""
_REFUSED = (
    "capped", "size", "max", "autoIndexId", "idIndex", "validator", "validationLevel", "validationAction", "viewOn",
    "clusteredIndex", "changeStreamPreAndPostImages",
)  # fmt: skip


def created_series(node: DataNode, arguments: Arguments, namespace: str, face: Face) -> CollectionOptions | None:
    """Return the options of the bucket collection of a time-series collection; None if `timeseries` is absent.

    Errors: InvalidOptions, BadValue, 51024, 5510500.
    """
    if arguments["timeseries"] is None:
        return None
    fields = parse_fields("create.timeseries", arguments["timeseries"], _CUSTOM if face.has_custom_buckets else _FIELDS)
    custom = check_bucketing(fields.sent_values())
    granularity_name = fields["granularity"] or "seconds"
    granularity = None if custom else choice("create.timeseries.granularity", granularity_name, tuple(GRANULARITIES))
    for name in _REFUSED:
        if name in arguments and arguments[name] is not False:
            raise CommandError(Code.InvalidOptions, f"{namespace}: 'timeseries' is not allowed with '{name}'")
    if arguments["pipeline"] is not None:
        raise CommandError(Code.InvalidOptions, "'pipeline' requires 'viewOn' to also be specified")
    definition = TimeseriesDefinition(fields["timeField"], fields["metaField"], granularity, custom or 0)
    _check(definition, namespace, fields["bucketMaxSpanSeconds"])
    collation = arguments["collation"]
    expire_after = arguments["expireAfterSeconds"]
    return buckets_options(
        definition,
        None if collation is None else parse_collation(collation, "create.collation"),
        None if expire_after is None else from_python(Int64(checked_expiry(node, expire_after))),
    )


def _check(definition: TimeseriesDefinition, namespace: str, span: int | None) -> None:
    time_field, meta_field = definition.time_field, definition.meta_field
    if span is not None and span < 1:
        raise CommandError(51024, f"BSON field 'bucketMaxSpanSeconds' value must be >= 1, actual value '{span}'")
    if meta_field == "_id":
        raise CommandError(Code.InvalidOptions, "'metaField' cannot be \"_id\"")
    if meta_field == time_field:
        raise CommandError(Code.InvalidOptions, "'metaField' cannot be the same as 'timeField'")
    for name, field in (("timeField", time_field), ("metaField", meta_field)):
        if field is not None and "." in field:
            raise CommandError(
                Code.InvalidOptions, f"{namespace}: '{name}' must be a top-level field and not contain a '.'"
            )
    if span is not None and span != definition.span_seconds:
        raise CommandError(
            5510500,
            "Timeseries 'bucketMaxSpanSeconds' is not configurable to a value other than the default of "
            f"{definition.span_seconds} for the provided granularity",
        )
