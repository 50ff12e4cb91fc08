"""The command `cql` on any executable: from its fields to a request, from a result to the reply.

    {cql: "<statement>", params: [...] or {...}, consistency, pageSize, pagingState}

The database that the command runs on is the keyspace in use, if it is one. Replies, with `warnings` where there are
any:

    {columns: [{name, type}], rows: [[...]], pagingState?}    of a SELECT
    {keyspace}                                                of USE
    {schemaChange: {change, keyspace, table?}}                of a change of the schema
    {}                                                        of a write
"""

from __future__ import annotations

from typing import Any

from docstore.bson import ARRAY, BINARY, NULL, OBJECT, UNDEFINED, Value, elements, values
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.errors import CommandError
from docstore.query.value.values import TYPE_NAMES
from docstore.widecolumn.commands.permissions import permissions_of, visible_schema
from docstore.widecolumn.cql.errors import invalid, protocol, translated
from docstore.widecolumn.cql.plan.bindings import Bound
from docstore.widecolumn.cql.run.execution import Environment, Request, execute
from docstore.widecolumn.cql.run.prepare import Prepared, waits_for_others
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.cql.run.results import Done, KeyspaceSet, Result, Rows, SchemaChanged
from docstore.widecolumn.cql.run.select import Pause
from docstore.widecolumn.cql.statements import Statement
from docstore.widecolumn.cql.types.bson_forms import bound_of, shower_of
from docstore.widecolumn.model.consistency import level_named
from docstore.widecolumn.model.executor import Executor

_SLICE = 500


async def run_statement(
    executor: Executor,
    statements: PreparedCache,
    environment: Environment,
    context: Context,
    arguments: Arguments,
    parsed: Statement | None = None,
) -> dict[str, Any]:
    """Return the reply to a statement. `parsed`: as in `prepare`. Errors: CqlError; those of the executor, with
    `cqlCode` if they have one.
    """
    try:
        return await _run(executor, statements, environment, context, arguments, parsed)
    except CommandError as error:
        raise translated(error) from error


async def _run(
    executor: Executor,
    statements: PreparedCache,
    environment: Environment,
    context: Context,
    arguments: Arguments,
    parsed: Statement | None,
) -> dict[str, Any]:
    in_use = await executor.keyspace(context.db)
    permissions = permissions_of(context)
    keyspace = None if in_use is None else in_use.name
    prepared = await statements.prepare(executor, arguments.value, keyspace, permissions, parsed=parsed)
    permissions.check_prepared(prepared)
    if waits_for_others(prepared.plan):
        # Work that may wait for others continues as a task.
        await environment.pause()
    request = Request(
        values=_values(prepared, arguments["params"]),
        level=level_named(arguments["consistency"]),
        page_size=arguments["pageSize"],
        paging_state=_paging_state(arguments["pagingState"]),
    )
    result = await execute(executor, environment, prepared, request, visible_schema(context, executor))
    return await reply_of(result, environment.pause)


def _values(prepared: Prepared, params: Value | None) -> list[Bound] | dict[str, Bound]:
    """The values for the markers: in their order, or by name. CqlError."""
    if params is None or params[0] in (NULL, UNDEFINED):
        return []
    if params[0] == ARRAY:
        raw_values = list(values(params[1]))
        if len(raw_values) != len(prepared.variables):
            raise invalid("Invalid amount of bind variables")
        pairs = zip(prepared.variables, raw_values, strict=True)
        return [bound_of(variable.type, value, variable.name) for variable, value in pairs]
    if params[0] != OBJECT:
        raise invalid(f"params must be an array or a document, not {TYPE_NAMES[params[0]]}")
    named = {name: (code, raw) for name, code, raw in elements(params[1])}
    bound_values: dict[str, Bound] = {}
    for variable in prepared.variables:
        name = variable.marker or variable.name
        if name in named:
            bound_values[name] = bound_of(variable.type, named[name], name)
    return bound_values


def _paging_state(value: Value | None) -> bytes | None:
    if value is None or value[0] in (NULL, UNDEFINED):
        return None
    if value[0] != BINARY:
        raise protocol("Invalid value for the paging state")
    return value[1][5:]


async def reply_of(result: Result, pause: Pause) -> dict[str, Any]:
    """The reply's fields; `pause` is awaited between slices of many rows."""
    reply: dict[str, Any] = {}
    if isinstance(result, Rows):
        reply = await _rows_reply(result, pause)
    elif isinstance(result, KeyspaceSet):
        reply["keyspace"] = result.keyspace
    elif isinstance(result, SchemaChanged):
        change = {"change": result.change, "keyspace": result.keyspace}
        reply["schemaChange"] = change if result.table is None else {**change, "table": result.table}
    if isinstance(result, Done | Rows) and result.warnings:
        reply["warnings"] = list(result.warnings)
    return reply


async def _rows_reply(result: Rows, pause: Pause) -> dict[str, Any]:
    showers = [shower_of(column.type) for column in result.columns]
    rows: list[list[Any]] = []
    for at in range(0, len(result.rows), _SLICE):
        if at:
            await pause()
        rows += [
            [None if value is None else show(value) for show, value in zip(showers, row, strict=True)]
            for row in result.rows[at : at + _SLICE]
        ]
    reply: dict[str, Any] = {
        "columns": [{"name": column.name, "type": column.type.name} for column in result.columns],
        "rows": rows,
    }
    if result.paging_state is not None:
        reply["pagingState"] = result.paging_state
    return reply
