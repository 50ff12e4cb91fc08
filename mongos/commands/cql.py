"""cql: one statement of CQL, carried out by the shard that holds the keyspace.

A keyspace lies whole on the primary shard of its database. The statement is parsed here to know which keyspace it is
about; what it may ask is the shard's to judge.
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.commands.arguments import Arguments
from docstore.commands.concerns import PRIMARY
from docstore.commands.context import Context
from docstore.commands.cql import PARAMETERS
from docstore.commands.declaration import Command, Privilege, Resource, Role, Type
from docstore.cql import parser
from docstore.cql.definitions import keyspace_of
from docstore.cql.errors import no_keyspace, unsupported
from docstore.cql.preparing import keyspace_name
from docstore.cql.statements import (
    AlterKeyspace,
    Batch,
    CreateKeyspace,
    DropKeyspace,
    Select,
    Statement,
    Use,
)
from docstore.errors import Code, CommandError
from docstore.sharding import requests
from docstore.sharding.routing import Routing
from docstore.wide.consistency import SERIAL_LEVELS, level_named
from mongos.router import router_of
from mongos.routing.requests import Answer, forwarded

_NO_KEYSPACES = ("admin", "config", "local")


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    statement = parser.parse(args.value)
    names = _keyspaces(statement, None if context.db in _NO_KEYSPACES else context.db)
    if isinstance(statement, CreateKeyspace):
        keyspace_of(statement.name, statement.properties)
        await router.cache.refresh(_namespace(statement.name))
        await router.ensure_database(_namespace(statement.name))
    if not isinstance(statement, Select) or level_named(args["consistency"]) in SERIAL_LEVELS:
        context.read_preference = PRIMARY
    answer = await _answer(context, names, repeatable=isinstance(statement, Select | Use))
    if isinstance(statement, DropKeyspace):
        await router.config.command("admin", requests.drop_database(statement.name), repeatable=True)
        router.cache.forget_database(statement.name)
    return answer.relayed()


async def _answer(context: Context, names: Sequence[str], *, repeatable: bool) -> Answer:
    """The answer of the shard that holds these keyspaces. One that has moved since, by being dropped and made again, is
    not found where it was: then the shard is looked up anew.
    """
    router = router_of(context)
    body = forwarded(context.raw)
    name = await _shard(context, names)
    while True:
        shard = await router.shards.get(name)
        try:
            return await shard.command(
                context.db,
                body,
                read_preference=context.read_preference,
                repeatable=repeatable,
                deadline=context.deadline,
            )
        except CommandError as error:
            if error.code != Code.NamespaceNotFound:
                raise
            for keyspace in names:
                await router.cache.refresh(_namespace(keyspace))
            tried, name = name, await _shard(context, names)
            if name == tried:
                raise


async def _shard(context: Context, names: Sequence[str]) -> str:
    """The shard that holds all of these keyspaces. CqlError."""
    shards = {await _primary(context, name) for name in names}
    if len(shards) > 1:
        raise unsupported("A batch over keyspaces of several shards is")
    return shards.pop()


def _namespace(keyspace: str) -> str:
    """What the keyspace's routing is asked for by: no collection, so nothing of it is sharded."""
    return f"{keyspace}.$cmd"


def _keyspaces(statement: Statement, in_use: str | None) -> list[str]:
    """The keyspaces that a statement is about, at least one. CqlError when none is named and none in use."""
    if isinstance(statement, Use):
        return [statement.keyspace]
    if isinstance(statement, CreateKeyspace | AlterKeyspace | DropKeyspace):
        return [statement.name]
    members = statement.statements if isinstance(statement, Batch) else (statement,)
    found = list(dict.fromkeys(keyspace_name(member.table, in_use) for member in members))
    return found or [in_use or "admin"]


async def _primary(context: Context, keyspace: str) -> str:
    """The shard that holds a keyspace. CqlError when there is none of the name."""
    routing: Routing = await router_of(context).cache.get(_namespace(keyspace))
    if routing.primary is None:
        raise no_keyspace(keyspace)
    return routing.primary


COMMAND = Command(
    "cql",
    run,
    privilege=Privilege("find", Resource.DATABASE),
    role=Role.ANY,
    value=Type.STRING,
    parameters=PARAMETERS,
    help="Run a statement of CQL on the shard that holds its keyspace.",
)
