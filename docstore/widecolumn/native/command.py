"""The command by which a request of the native protocol is carried out.

    {cql: "<text>", call: <number>, $db: <keyspace>}

Only connections of the native protocol reach it: it stands in the table of their own dispatcher, in place of the
command that drivers of documents send. Permissions are checked by the statement's plan, when it is prepared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import bson

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import AUTHENTICATED, CommandTable, Parameter, Response, Role, Spec, Type
from docstore.commands.dispatch import Dispatcher
from docstore.commands.eager_tasks import start_eagerly
from docstore.commands.specs.wide_column import CQL
from docstore.errors import CommandError
from docstore.widecolumn.native.client import NativeCall, NativeClient
from docstore.widecolumn.native.statements import StatementService, UnknownStatement
from docstore.widecolumn.protocol.failures import unprepared
from docstore.widecolumn.protocol.opcodes import Opcode
from docstore.widecolumn.protocol.requests import BatchRequest, ExecuteRequest
from docstore.widecolumn.protocol.responses import error_body
from docstore.wire.message import Message

_NO_KEYSPACE = "system"
_SHOWN_TEXT = 64 * 1024
"""The maximal length of a statement's text in its command: the rest is not shown."""
NATIVE = Spec(
    CQL.name, privilege=AUTHENTICATED, role=Role.ANY, value=Type.STRING,
    parameters=(Parameter("call", Type.INT, required=True),),
    sensitive=CQL.sensitive, pausable=True, help="run a request of the native protocol",
)  # fmt: skip


def dispatcher_of(
    main: Dispatcher, service: StatementService, translate: Callable[[Exception], CommandError | None]
) -> Dispatcher:
    """Return a dispatcher that shares everything with the main one but the command for statements. `translate`: as in
    `Dispatcher`.
    """

    def run(context: Context, arguments: Arguments) -> Response:
        client = context.connection
        assert isinstance(client, NativeClient), "no other connection has this table"
        call = client.state.calls[arguments["call"]]
        running = _carried_out(service, context, call)
        return start_eagerly(running) if service.may_begin(call) else running

    table = CommandTable(
        (*(command for command in main.services.table if command.name != CQL.name), NATIVE.command(run))
    )
    return Dispatcher(replace(main.services, table=table), translate=translate)


async def _carried_out(service: StatementService, context: Context, call: NativeCall) -> dict[str, Any]:
    try:
        await service.carry_out(context, call)
    except UnknownStatement as unknown:
        call.opcode = Opcode.ERROR
        call.body = error_body(unprepared(unknown.statement_id), call.version)
    except CommandError as error:
        call.error = error
        raise
    return {}


def message_of(call: NativeCall, number: int, service: StatementService) -> Message:
    """The command for a call, as if it had been received."""
    document = {CQL.name: _describe(call, service)[:_SHOWN_TEXT], "call": number, "$db": call.keyspace or _NO_KEYSPACE}
    return Message(0, 0, bson.encode(document), {})


def _describe(call: NativeCall, service: StatementService) -> str:
    request = call.request
    if isinstance(request, BatchRequest):
        return f"BEGIN {request.kind.value} BATCH -- of {len(request.members)} statements"
    if isinstance(request, ExecuteRequest):
        identified = service.ids.get(request.statement_id)
        return f"EXECUTE {request.statement_id.hex()}" if identified is None else identified.text
    return request.text
