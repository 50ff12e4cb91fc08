"""update: change documents by operators or put others in their place; insert where nothing matches, if asked to."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.writes import UPDATE
from docstore.node.node import node_of
from docstore.node.timeseries.metadata_writes import bucket_update, measured_weight
from docstore.node.timeseries.series import series_of
from docstore.node.write.driver import (
    Outcome,
    check_batch_size,
    check_writable_documents,
    enter_scripts,
    run_statements,
    session_write,
)
from docstore.node.write.evaluated import enter_large
from docstore.node.write.fast_path import update_one
from docstore.node.write.joint_unit import JointUnit
from docstore.node.write.of_routers import OF_ROUTERS, within_of
from docstore.node.write.statement_loop import StatementLoop, WriteTarget
from docstore.node.write.update import UpdateWork, update_statement


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    documents = arguments["updates"]
    check_batch_size(len(documents))
    enter_scripts(documents)
    enter_large(context, max(map(len, documents)))
    check_writable_documents(context)
    node.counters.update += len(documents)
    node.counters.writes += 1
    done = update_one(context, node, arguments, documents)
    if done is not None:
        return done
    statements = [update_statement(raw) for raw in documents]
    outcome = Outcome(modified=0)
    series = series_of(node.store, context.namespace)
    if series is not None:
        context = context.about(series.buckets.ns)
    row = session_write(context, node)
    joint = JointUnit(node.store, row, len(statements))
    target = WriteTarget(
        node,
        context.namespace,
        outcome,
        context.session,
        row,
        arguments["let"],
        bypass_validation=arguments["bypassDocumentValidation"] or series is not None,
        shard_version=context.shard_version,
        can_pause=context.services.carry_out is not None,
        within=within_of(arguments),
        weight=None if series is None else measured_weight(series),
        joint=joint,
    )
    loop = StatementLoop(
        outcome,
        lambda index: UpdateWork(
            target, index, statements[index] if series is None else bucket_update(series, statements[index])
        ),
        len(statements),
        ordered=arguments["ordered"] or node.transaction is not None,
        clock=node.clock,
        counted=arguments["statementCounts"],
        joint=joint,
    )
    return run_statements(context, loop)


COMMAND = UPDATE.command(run, OF_ROUTERS)
