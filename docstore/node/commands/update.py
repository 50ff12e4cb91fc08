"""update: modify or replace documents; with upsert, insert one if none matches."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.writes import UPDATE
from docstore.node.node import node_of
from docstore.node.write.batches import update_batch
from docstore.node.write.driver import check_batch_size, check_writable_documents, enter_scripts, run_statements
from docstore.node.write.evaluated import enter_long
from docstore.node.write.fast_path import update_one
from docstore.node.write.of_routers import OF_ROUTERS, within_of


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    documents = arguments["updates"]
    check_batch_size(len(documents))
    enter_scripts(documents)
    enter_long(context, documents)
    check_writable_documents(context)
    node.counters.update += len(documents)
    node.counters.writes += 1
    done = update_one(context, node, arguments, documents)
    if done is not None:
        return done
    context, statements = update_batch(
        context,
        documents,
        ordered=arguments["ordered"],
        bypass=arguments["bypassDocumentValidation"],
        let=arguments["let"],
        within=within_of(arguments),
        counted=arguments["statementCounts"],
        sent_time=arguments["runtimeConstants"],
    )
    return run_statements(context, statements)


COMMAND = UPDATE.command(run, OF_ROUTERS)
