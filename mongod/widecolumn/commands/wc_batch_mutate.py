"""wcBatchMutate: many insertions and deletions; those of one row are applied atomically."""

from __future__ import annotations

from docstore.bson import from_python
from docstore.bson.build import enclosed
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Response, Type
from docstore.commands.specs.wide_column import BATCH_MUTATE
from docstore.node.node import node_of
from docstore.node.slices import Steps, run_steps
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.hint_origin import parse_hint_origin
from docstore.widecolumn.model.requests import given, timestamp_of
from docstore.widecolumn.node.batches import batch_rows
from docstore.widecolumn.node.row_writes import write_rows
from docstore.widecolumn.node.write_replies import large_values, write_context_of


def run(context: Context, arguments: Arguments) -> Response:
    return run_steps(context, _run(context, arguments))


def _run(context: Context, arguments: Arguments) -> Steps[bytes]:
    node = node_of(context)
    level = level_named(arguments["consistency"])
    writing = write_context_of(node)
    writing = writing.stamped(timestamp_of(given(arguments["timestamp"]), writing.default_timestamp))
    mutations = arguments["mutations"]
    rows = yield from batch_rows(context, node, mutations, writing)
    warnings: list[str] = []
    if not arguments["check"]:
        warnings += large_values(node, *rows)
        hint = parse_hint_origin(arguments["hint"])
        warnings += yield from write_rows(context, node, rows, level, hint=hint)
    warnings_field = b"\x04warnings\0" + from_python(warnings)[1] if warnings else b""
    return enclosed(b"\x10n\0" + len(mutations).to_bytes(4, "little") + warnings_field)


COMMAND = BATCH_MUTATE.command(
    run,
    Exceptional(
        "of a router: whether the mutations of this part could be made",
        Parameter("check", Type.BOOL, default=False, internal=True),
    ),
)
