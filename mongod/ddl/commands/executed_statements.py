"""_shardsvrExecutedStatements: see `docstore.sharding.ddl.requests.executed_statements`."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.namespace import split_namespace
from docstore.optime import pack_timestamp, unpack_timestamp
from mongod.migration.session_history import Position, executed_page
from mongod.migration.shard import shard_of


async def run(context: Context, arguments: Arguments) -> Result:
    shard, database = shard_of(context), arguments.value
    shard.shard_filter.settle_term()
    shard.shard_filter.holds.standing(Binary(arguments["operation"], 4))
    after = None
    if (raw := arguments["after"]) is not None:
        body = document_to_python(raw)
        after = Position(bytes(body["lsid"]), pack_timestamp(body["ts"]))
    statements, position = executed_page(
        shard.node.store, lambda ns: split_namespace(ns)[0] == database, shard.node.wall_clock(), after
    )
    reply: dict[str, Any] = {"statements": [statement.fields() for statement in statements]}
    if position is not None:
        reply["next"] = {"lsid": Binary(position.lsid), "ts": unpack_timestamp(position.timestamp)}
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
