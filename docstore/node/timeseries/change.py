"""`collMod` of a time-series collection: expiration of its buckets, indexes, and granularity."""

from __future__ import annotations

from dataclasses import replace

from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.declaration import Parameter, Type
from docstore.commands.limits import Face
from docstore.errors import Code, CommandError
from docstore.node.ddl.create import choice
from docstore.node.node import DataNode
from docstore.node.timeseries.series import Series, series_of
from docstore.timeseries.definition import GRANULARITIES, MAX_CUSTOM_SECONDS, TimeseriesDefinition, check_bucketing

_FIELDS = declared(
    Parameter("granularity", Type.STRING),
)
_CUSTOM = {
    **_FIELDS,
    **declared(
        Parameter("bucketMaxSpanSeconds", Type.INT, minimum=1, maximum=MAX_CUSTOM_SECONDS),
        Parameter("bucketRoundingSeconds", Type.INT, minimum=1, maximum=MAX_CUSTOM_SECONDS),
    ),
}
_OF_OTHERS = ("validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages")


class SeriesChange:
    """The requested change, parsed. Errors: InvalidOptions, BadValue."""

    def __init__(self, node: DataNode, arguments: Arguments, series: Series, face: Face) -> None:
        self._node = node
        self._ns = series.ns
        for name in ("pipeline", "viewOn"):
            if name in arguments:
                raise CommandError(Code.InvalidOptions, f"option only supported on a view: {name}")
        for name in _OF_OTHERS:
            if name in arguments:
                raise CommandError(Code.InvalidOptions, f"option not supported on a time-series collection: {name}")
        if "cappedSize" in arguments or "cappedMax" in arguments:
            raise CommandError(Code.InvalidOptions, "Collection must be capped.")
        raw_options = arguments["timeseries"]
        fields = _CUSTOM if face.has_custom_buckets else _FIELDS
        parsed = None if raw_options is None else parse_fields("collMod.timeseries", raw_options, fields)
        granularity = None if parsed is None else parsed["granularity"]
        self._custom = None if parsed is None else check_bucketing(parsed.sent_values())
        granularities = tuple(GRANULARITIES)
        self._granularity = (
            None if granularity is None else choice("collMod.timeseries.granularity", granularity, granularities)
        )

    def standing(self) -> Series:
        """Return the collection in its current state. Errors: NamespaceNotFound."""
        series = series_of(self._node.store, self._ns)
        if series is None:
            raise CommandError(Code.NamespaceNotFound, "ns does not exist")
        return series

    def definition(self, series: Series) -> TimeseriesDefinition | None:
        """Return the definition with the requested granularity or bucket span; None if unchanged.

        Errors: InvalidOptions for finer ones.
        """
        before = series.definition
        if self._granularity is None and self._custom is None:
            return None
        after = replace(before, granularity=self._granularity, custom_seconds=self._custom or 0)
        if after.span_seconds < before.span_seconds:
            raise CommandError(
                Code.InvalidOptions,
                "Invalid transition for timeseries.granularity. Can only transition from 'seconds' to 'minutes' or "
                "'minutes' to 'hours'.",
            )
        return None if after == before else after
