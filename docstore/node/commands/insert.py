"""insert: documents into a collection, which is made when it is not there."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.writes import INSERT
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.timeseries.insert import SeriesInserts
from docstore.node.timeseries.series import series_of
from docstore.node.write.driver import check_batch_size, check_writable_documents, run_statements, session_write
from docstore.node.write.fast_path import insert_one
from docstore.node.write.insert import Inserts


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    if context.begun_progress is not None and context.begun_progress.writing is not None:
        return run_statements(context, context.begun_progress.writing)
    documents = arguments["documents"]
    check_batch_size(len(documents))
    check_writable_documents(context)
    node.counters.insert += len(documents)
    node.counters.writes += 1
    if series_of(node.store, context.namespace) is not None:
        return run_statements(context, _measurements(context, arguments))
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


def _measurements(context: Context, arguments: Arguments) -> SeriesInserts:
    """The insert into a time-series collection. Errors: OperationNotSupportedInTransaction."""
    node = node_of(context)
    if node.transaction is not None:
        raise CommandError(
            Code.OperationNotSupportedInTransaction,
            f"Cannot insert into a time-series collection in a multi-document transaction: {context.namespace}",
        )
    inserts = SeriesInserts(
        node,
        context.namespace,
        arguments["documents"],
        ordered=arguments["ordered"],
        session=context.session,
        session_write=session_write(context, node),
    )
    context.progress.writing = inserts
    return inserts


COMMAND = INSERT.command(run)
