"""insert: insert documents, creating the collection if it does not exist."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Response, Type
from docstore.commands.specs.writes import INSERT
from docstore.node.node import node_of
from docstore.node.remote_outputs import RemoteOutputs
from docstore.node.timeseries.series import series_of
from docstore.node.write.batches import insert_batch
from docstore.node.write.driver import check_batch_size, check_writable_documents, run_statements
from docstore.node.write.fast_path import insert_one


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    if context.begun_progress is not None and context.begun_progress.writing is not None:
        return run_statements(context, context.begun_progress.writing)
    if arguments["intoOutput"]:
        node.parts[RemoteOutputs].check(context.namespace)
    documents = arguments["documents"]
    check_batch_size(len(documents))
    check_writable_documents(context)
    node.counters.insert += len(documents)
    node.counters.writes += 1
    if series_of(node.store, context.namespace) is None:
        done = insert_one(context, node, arguments, documents)
        if done is not None:
            return done
    inserts = insert_batch(
        context, documents, ordered=arguments["ordered"], bypass=arguments["bypassDocumentValidation"]
    )
    context.progress.writing = inserts
    return run_statements(context, inserts)


COMMAND = INSERT.command(
    run,
    Exceptional(
        "results are written into the collection that was made for them, or not at all",
        Parameter("intoOutput", Type.BOOL, default=False, internal=True),
    ),
)
