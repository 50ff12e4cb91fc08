"""findAndModify: update or remove one document and return it."""

from __future__ import annotations

from docstore.bson import document_from
from docstore.commands.arguments import Arguments
from docstore.commands.concerns import WriteConcern
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.specs.writes import FIND_AND_MODIFY
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode, node_of
from docstore.node.read.requests import filter_of, hint_of, query_context_of, sort_of
from docstore.node.read.statement_time import STATEMENT_TIME
from docstore.node.slices import Steps, run_steps
from docstore.node.upkeep.execution import execution_of
from docstore.node.write.driver import (
    Outcome,
    acknowledged_fields,
    check_writable_documents,
    drive,
    effective_concern,
    session_write,
)
from docstore.node.write.evaluated import enter_long
from docstore.node.write.fast_path import find_and_modify_one
from docstore.node.write.find_and_modify import FindAndModifyRequest, FindAndModifyWork, answer_fields
from docstore.node.write.modification import Modification, check_form, update_of
from docstore.node.write.statement_loop import StatementLoop, WriteTarget
from docstore.query.context import QueryContext
from docstore.query.pausing import OVERTAKEN, allowing
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import PositionalProjection
from docstore.query.update.upsert import refuse_expressions


def run(context: Context, arguments: Arguments) -> Response:
    node = node_of(context)
    check_writable_documents(context)
    enter_long(context, (context.raw,))
    done = find_and_modify_one(context, node, arguments)
    if done is not None:
        return done
    concern = effective_concern(context, node)
    # No state was read yet that other tasks could change.
    request = allowing(OVERTAKEN, lambda: request_of(node, arguments, query_context_of(context, arguments)))
    outcome = Outcome()
    target = WriteTarget(
        node,
        context.namespace,
        outcome,
        context.session,
        session_write(context, node),
        bypass_validation=arguments["bypassDocumentValidation"],
        shard_version=context.shard_version,
        can_pause=context.services.carry_out is not None,
        execution=execution_of(context),
    )
    work = FindAndModifyWork(target, request)
    return run_steps(context, _run(context, request, work, outcome, concern))


def _run(
    context: Context, request: FindAndModifyRequest, work: FindAndModifyWork, outcome: Outcome, concern: WriteConcern
) -> Steps[bytes]:
    clock = node_of(context).clock
    yield from drive(context, StatementLoop(outcome, lambda _index: work, 1, ordered=True, clock=clock))
    if outcome.errors:
        raise outcome.errors[0][1]
    fields = answer_fields(work.result, request.projection)
    if concern.j or concern.w not in (0, 1):
        reply: bytes = yield acknowledged_fields(context, fields, outcome.last, concern)
        return reply
    return document_from(fields)


def request_of(node: DataNode, arguments: Arguments, query_context: QueryContext) -> FindAndModifyRequest:
    """Parse the command. Errors: FailedToParse for contradictory options, those of filter, sort and update."""
    remove, new, upsert = arguments["remove"], arguments["new"], arguments["upsert"]
    update = arguments["update"]
    if remove:
        if update is not None:
            raise CommandError(Code.FailedToParse, "Cannot specify both an update and remove=true")
        if new:
            raise CommandError(
                Code.FailedToParse,
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
            )
        if upsert:
            raise CommandError(Code.FailedToParse, "Cannot specify both upsert=true and remove=true")
        if arguments["arrayFilters"]:
            raise CommandError(Code.FailedToParse, "Cannot specify arrayFilters and remove=true")
    elif update is None:
        raise CommandError(Code.FailedToParse, "Either an update or remove=true must be specified")
    else:
        check_form(update)
    change = None if remove else update_of(update, arguments["arrayFilters"], query_context)
    tree = filter_of(arguments["query"], query_context)
    if upsert:
        refuse_expressions(tree)
    sort = sort_of(arguments["sort"], query_context, tree)
    fields = arguments["fields"]
    projection = None if fields is None else parse_projection(fields, query_context=query_context, tree=tree)
    if new and isinstance(projection, PositionalProjection):
        raise CommandError(Code.BadValue, "cannot use a positional projection and return the new document")
    return FindAndModifyRequest(
        tree=tree,
        sort=sort,
        modification=None if change is None else Modification(node, tree, change),
        new=new,
        upsert=upsert,
        projection=projection,
        hint=hint_of(arguments["hint"]),
    )


COMMAND = FIND_AND_MODIFY.command(run, STATEMENT_TIME)
