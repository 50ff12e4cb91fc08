"""wcGetRangeSlices: the same slice of the rows of a part of the ring."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Response, Type
from docstore.commands.specs.wide_column import GET_RANGE_SLICES
from docstore.node.slices import run_steps
from docstore.widecolumn.model.requests import record_range_from, row_ranges_of
from docstore.widecolumn.node.column_reads import RangeQuery, query_of, reply_ranges, slice_query_of


def run(context: Context, arguments: Arguments) -> Response:
    query = query_of(context, arguments)
    record_range = arguments["recordRange"]
    if record_range is None:
        ranges = row_ranges_of(query.found.keyspace.partitioner, arguments["range"])
    else:
        ranges = [record_range_from(record_range)]
    range_query = RangeQuery(ranges, arguments["count"], arguments["excludeEmpty"])
    return run_steps(context, reply_ranges(query, range_query, slice_query_of(query.found, arguments)))


COMMAND = GET_RANGE_SLICES.command(
    run,
    Exceptional(
        "of a router: the part of the ring that this shard owns", Parameter("recordRange", Type.OBJECT, internal=True)
    ),
)
