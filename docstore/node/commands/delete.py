"""delete: remove one document or all that match, statement by statement."""

from __future__ import annotations

from collections.abc import Awaitable

from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.node.deletes import DeleteStatement, DeleteWork
from docstore.node.node import node_of
from docstore.node.requests import COLLATION
from docstore.node.statements import StatementLoop, WriteTarget
from docstore.node.writes import (
    PARAMETERS,
    Outcome,
    check_batch_size,
    check_writable,
    run_statements,
    session_write,
)

STATEMENT = declared(
    (
        Parameter("q", Type.OBJECT, required=True),
        Parameter("limit", Type.INT, required=True),
        Parameter("hint", Type.ANY),
        COLLATION,
    )
)


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    node = node_of(context)
    documents = arguments["deletes"]
    check_batch_size(len(documents))
    check_writable(context.namespace)
    node.counters.delete += len(documents)
    statements = [statement_of(raw) for raw in documents]
    outcome = Outcome()
    target = WriteTarget(node, context.namespace, outcome, context.session, session_write(context, node))
    loop = StatementLoop(
        outcome,
        lambda index: DeleteWork(target, index, statements[index]),
        len(statements),
        ordered=arguments["ordered"],
        clock=node.clock,
    )
    return run_statements(context, loop)


def statement_of(raw: bytes) -> DeleteStatement:
    """One element of `deletes`. Errors: Location40414, Location40415, TypeMismatch, FailedToParse for the limit."""
    fields = parse_fields("delete.deletes", raw, STATEMENT)
    limit = fields["limit"]
    if limit not in (0, 1):
        raise CommandError(
            Code.FailedToParse, f"The limit field in delete objects must be 0 or 1. Got {limit}"
        )
    return DeleteStatement(filter=fields["q"], multi=limit == 0, hint=fields["hint"])


COMMAND = Command(
    "delete", run, privilege=Privilege("remove", Resource.COLLECTION), role=Role.PRIMARY, value=Type.COLLECTION,
    parameters=(Parameter("deletes", Type.DOCUMENTS, required=True), *PARAMETERS), retryable=True, stable=True,
    help="remove documents of a collection",
)  # fmt: skip
