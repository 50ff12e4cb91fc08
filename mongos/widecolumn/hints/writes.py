"""Writes of the column model that have no primary, at ANY and ZERO: from the client's request to a hint.

At ANY the hint is the acknowledgement. At ZERO nothing is promised: the write is kept if it can be.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

from bson.int64 import Int64

from docstore.bson import NULL, UNDEFINED, append_fields, document_to_python, documents_array
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.errors import Code, CommandError
from docstore.widecolumn.model.consistency import Level, level_named
from docstore.widecolumn.model.errors import invalid_request, unavailable
from docstore.widecolumn.model.hint_origin import HintOrigin
from mongos.routing.requests import forwarded
from mongos.widecolumn.hints.rows import family_identity, mutations_by_family
from mongos.widecolumn.schema_executor import RouterSchema
from mongos.widecolumn.shard_requests import TIMESTAMPS, SchemaIsStale, let_tell

Write = Callable[[Context, Arguments], Awaitable[Result]]


def hinted(write: Write) -> Write:
    """Run the write; at ANY or ZERO without a primary, store it as a hint. Errors: those of the write."""

    def run(context: Context, arguments: Arguments) -> Awaitable[Result]:
        let_tell(context)
        return carried_out(context, arguments)

    async def carried_out(context: Context, arguments: Arguments) -> Result:
        try:
            return await write(context, arguments)
        except CommandError as error:
            level = level_named(arguments["consistency"])
            if not can_wait(error, level):
                raise
            return await _keep_request(context, arguments, level)

    return run


def can_wait(error: CommandError, level: Level) -> bool:
    """True if a write with this error may become a hint."""
    return error.extra.get("wcException") == "UnavailableException" and level in (Level.ANY, Level.ZERO)


async def keep(
    schema: RouterSchema, keyspace: str, family: str, command: bytes, level: Level, planned: UUID | None = None
) -> bool:
    """Store a write of a column family as a hint; return whether it was stored. `planned`: the identity that the
    write was planned for. Errors: Unavailable at ANY, which promises storage; SchemaIsStale.
    """
    hints = schema.router.hints
    try:
        if hints is None:
            why = "this router keeps no hints (see --wideColumnHintsPath)"
            raise unavailable(level.value, 1, 0, write=True, why=why)
        origin = await _origin(schema, keyspace, family, level)
        if planned not in (None, origin.family):
            raise SchemaIsStale(f"{keyspace}.{family}")
        await hints.keep(keyspace, forwarded(command, add={"hint": origin.document()}))
    except CommandError:
        if level is Level.ANY:
            raise
        return False
    return True


async def _keep_request(context: Context, arguments: Arguments, level: Level) -> dict[str, Any]:
    """Store the request as hints, one for each column family; return whether it was stored."""
    add: dict[str, Any] = {"consistency": Level.ONE.value}
    timestamp = arguments["timestamp"]
    if timestamp is None or timestamp[0] in (NULL, UNDEFINED):
        add["timestamp"] = Int64(TIMESTAMPS.next())
    body = forwarded(context.raw, without=("lsid", "txnNumber", "maxTimeMS", "mutations", "$readPreference"), add=add)
    if context.command.name == "wcBatchMutate":
        mutations = arguments["mutations"]
        commands = _commands_by_family(body, mutations)
        reply: dict[str, Any] = {"n": len(mutations)}
    else:
        commands = {arguments.value: body}
        reply = {"timestamp": Int64(document_to_python(body)["timestamp"])}
    schema, outcomes = RouterSchema(context), []
    for family, command in commands.items():
        outcomes.append(await keep(schema, context.db, family, command, level))
    return {**reply, "hinted": True} if all(outcomes) else reply


def _commands_by_family(body: bytes, mutations: Sequence[bytes]) -> dict[str, bytes]:
    families = mutations_by_family(mutations)
    if families is None:
        raise invalid_request("a mutation does not say which row of which column family it is of")
    return {
        family: append_fields(body, b"\x04mutations\0" + documents_array([raw for _, raw in rows]))
        for family, rows in families.items()
    }


async def _origin(schema: RouterSchema, keyspace: str, family: str, level: Level) -> HintOrigin:
    """Return the origin of a new hint. Errors: NamespaceNotFound; Unavailable if the column family cannot be looked
    up.
    """
    try:
        identity = await family_identity(schema, keyspace, family)
    except CommandError as error:
        if error.code == Code.NamespaceNotFound:
            raise
        why = f"which column family {family} is cannot be found out: {error.message}"
        raise unavailable(level.value, 1, 0, write=True, why=why) from error
    return HintOrigin(identity, TIMESTAMPS.next())
