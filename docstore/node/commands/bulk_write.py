"""bulkWrite: operations of all kinds on several collections in one request."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.requests.bulk_write import Run, runs_of, statements_of
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.commands.specs.writes import BULK_WRITE
from docstore.namespace import split_namespace
from docstore.node.node import DataNode, node_of
from docstore.node.slices import run_steps
from docstore.node.write.bulk import bulk_written
from docstore.node.write.driver import check_writable, enter_scripts
from docstore.node.write.evaluated import enter_large


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    runs = runs_of(context, arguments)
    batch_size = batch_size_of(arguments)
    for namespace in {run.namespace for run in runs}:
        check_writable(namespace)
        if node.store.mode is not None:
            node.store.mode.check_documents(node.store, split_namespace(namespace)[0], "bulkWrite")
    enter_scripts(statements_of([run for run in runs if run.kind != "insert"]))
    enter_large(context, max((len(raw) for run in runs if run.kind != "insert" for raw in run.statements), default=0))
    _count(node, runs)
    return run_steps(context, bulk_written(context, arguments, runs, batch_size))


def _count(node: DataNode, runs: list[Run]) -> None:
    counters = node.counters
    counters.writes += 1
    for run in runs:
        count = len(run.statements)
        if run.kind == "insert":
            counters.insert += count
        elif run.kind == "update":
            counters.update += count
        else:
            counters.delete += count


COMMAND = BULK_WRITE.command(run)
