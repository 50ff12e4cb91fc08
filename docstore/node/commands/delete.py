"""delete: remove one document, or all that match, per statement."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.writes import DELETE
from docstore.node.node import node_of
from docstore.node.write.batches import delete_batch
from docstore.node.write.driver import check_batch_size, check_writable_documents, enter_scripts, run_statements
from docstore.node.write.evaluated import enter_long
from docstore.node.write.fast_path import delete_one
from docstore.node.write.of_routers import OF_ROUTERS, within_of


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    documents = arguments["deletes"]
    check_batch_size(len(documents))
    enter_scripts(documents)
    enter_long(context, documents)
    check_writable_documents(context)
    node.counters.delete += len(documents)
    node.counters.writes += 1
    done = delete_one(context, node, arguments, documents)
    if done is not None:
        return done
    context, statements = delete_batch(
        context,
        documents,
        ordered=arguments["ordered"],
        let=arguments["let"],
        within=within_of(arguments),
        counted=arguments["statementCounts"],
        sent_time=arguments["runtimeConstants"],
    )
    return run_statements(context, statements)


COMMAND = DELETE.command(run, OF_ROUTERS)
