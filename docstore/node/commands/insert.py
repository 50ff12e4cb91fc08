"""insert: documents into a collection, which is made when it is not there."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.writes import INSERT
from docstore.node.node import node_of
from docstore.node.write.driver import check_batch_size, check_writable, run_statements, session_write
from docstore.node.write.fast_path import insert_one
from docstore.node.write.insert import Inserts


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    if context.begun_progress is not None and context.begun_progress.writing is not None:
        return run_statements(context, context.begun_progress.writing)
    documents = arguments["documents"]
    check_batch_size(len(documents))
    check_writable(context.namespace)
    node.counters.insert += len(documents)
    node.counters.writes += 1
    done = insert_one(context, node, arguments, documents)
    if done is not None:
        return done
    inserts = Inserts(
        node,
        context.namespace,
        documents,
        ordered=arguments["ordered"] or node.transaction is not None,
        session=context.session,
        session_write=session_write(context, node),
        bypass_validation=arguments["bypassDocumentValidation"],
        shard_version=context.shard_version,
    )
    context.progress.writing = inserts
    return run_statements(context, inserts)


COMMAND = INSERT.command(run)
