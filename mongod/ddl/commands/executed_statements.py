"""_shardsvrExecutedStatements: see `docstore.sharding.ddl.requests.executed_statements`."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from mongod.migration.session_history import Position, SessionPages, database_concern, read_batch
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> Result:
    shard, operation = shard_of(context), Binary(arguments["operation"], 4)
    shard.shard_filter.settle_term()
    shard.shard_filter.holds.standing(operation)
    after = None if arguments["after"] is None else Position.from_document(document_to_python(arguments["after"]))
    pages = SessionPages(shard.node.store, database_concern(arguments.value), after)
    statements, has_more = await read_batch(shard.node, pages.next_page)
    shard.shard_filter.holds.standing(operation)
    reply: dict[str, Any] = {"statements": [statement.fields() for statement in statements]}
    if has_more and pages.position is not None:
        reply["next"] = pages.position.document()
    return reply


COMMAND = Command(
    "_shardsvrExecutedStatements",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    admin_only=True,
    value=Type.STRING,
    parameters=(
        Parameter("operation", Type.UUID, required=True, internal=True),
        Parameter("after", Type.OBJECT, internal=True),
    ),
    help="tell the retryable writes on a database that is going to another shard",
)
