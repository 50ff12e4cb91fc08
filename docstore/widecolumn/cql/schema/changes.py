"""CREATE, ALTER, DROP and TRUNCATE, carried out."""

from __future__ import annotations

from uuid import UUID

from docstore.errors import Code, CommandError
from docstore.widecolumn.cql.errors import CqlError, invalid, keyspace_exists, no_keyspace, table_exists
from docstore.widecolumn.cql.run.prepare import find_table, keyspace_name
from docstore.widecolumn.cql.run.results import Done, SchemaChanged
from docstore.widecolumn.cql.schema.definitions import altered_keyspace, altered_table, keyspace_of, table_from
from docstore.widecolumn.cql.schema.tables import Table, family_of
from docstore.widecolumn.cql.statements import (
    AlterKeyspace,
    AlterTable,
    CreateKeyspace,
    CreateTable,
    DropKeyspace,
    DropTable,
    SchemaChange,
    TableName,
    Truncate,
)
from docstore.widecolumn.model.executor import Executor

_NO_ID = UUID(int=0)
"""The id of a new table, which the schema replaces."""

Outcome = SchemaChanged | Done


async def change_schema(executor: Executor, statement: SchemaChange, keyspace: str | None) -> Outcome:
    """Carry out the change and return it; Done if there was nothing to change. CqlError."""
    if isinstance(statement, CreateKeyspace):
        return await _create_keyspace(executor, statement)
    if isinstance(statement, AlterKeyspace):
        return await _alter_keyspace(executor, statement)
    if isinstance(statement, DropKeyspace):
        return await _drop_keyspace(executor, statement)
    if isinstance(statement, CreateTable):
        return await _create_table(executor, statement, keyspace)
    if isinstance(statement, AlterTable):
        return await _alter_table(executor, statement, keyspace)
    if isinstance(statement, DropTable):
        return await _drop_table(executor, statement, keyspace)
    return await _truncate(executor, statement, keyspace)


async def _create_keyspace(executor: Executor, statement: CreateKeyspace) -> Outcome:
    name = statement.name
    if await executor.keyspace(name) is not None:
        return _exists(statement.if_not_exists, keyspace_exists(name))
    try:
        await executor.create_keyspace(keyspace_of(name, statement.properties))
    except CommandError as error:
        return _lost_race(error, statement.if_not_exists, keyspace_exists(name))
    return SchemaChanged("CREATED", name)


def _exists(allowed: bool, refusal: CqlError) -> Done:
    if not allowed:
        raise refusal
    return Done()


def _lost_race(error: CommandError, allowed: bool, refusal: CqlError) -> Done:
    """Return the error for a definition that another request has created at the same time."""
    if error.code != Code.NamespaceExists:
        raise error
    return _exists(allowed, refusal)


async def _alter_keyspace(executor: Executor, statement: AlterKeyspace) -> Outcome:
    keyspace = await executor.keyspace(statement.name)
    if keyspace is None:
        return _exists(statement.if_exists, invalid(f"Keyspace '{statement.name}' doesn't exist"))
    await executor.alter_keyspace(altered_keyspace(keyspace, statement.properties))
    return SchemaChanged("UPDATED", statement.name)


async def _drop_keyspace(executor: Executor, statement: DropKeyspace) -> Outcome:
    if await executor.keyspace(statement.name) is None:
        return _exists(statement.if_exists, invalid(f"Keyspace '{statement.name}' doesn't exist"))
    await executor.drop_keyspace(statement.name)
    return SchemaChanged("DROPPED", statement.name)


async def _create_table(executor: Executor, statement: CreateTable, keyspace: str | None) -> Outcome:
    space, name = keyspace_name(statement.table, keyspace), statement.table.name
    stored_keyspace = await executor.keyspace(space)
    if stored_keyspace is None:
        raise no_keyspace(space)
    if await executor.family(space, name) is not None:
        return _exists(statement.if_not_exists, table_exists(space, name))
    table = table_from(stored_keyspace, statement, _NO_ID)
    try:
        await executor.create_family(space, family_of(table))
    except CommandError as error:
        return _lost_race(error, statement.if_not_exists, table_exists(space, name))
    return SchemaChanged("CREATED", space, name)


async def _existing(executor: Executor, name: TableName, keyspace: str | None) -> Table | None:
    """Return the table; None if there is none of the name. CqlError if the keyspace does not exist."""
    space = keyspace_name(name, keyspace)
    if await executor.family(space, name.name) is not None:
        return await find_table(executor, name, keyspace)
    if await executor.keyspace(space) is None:
        raise no_keyspace(space)
    return None


def _missing(name: TableName, keyspace: str | None) -> CqlError:
    return invalid(f"Table '{keyspace_name(name, keyspace)}.{name.name}' doesn't exist")


async def _alter_table(executor: Executor, statement: AlterTable, keyspace: str | None) -> Outcome:
    table = await _existing(executor, statement.table, keyspace)
    if table is None:
        return _exists(statement.if_exists, _missing(statement.table, keyspace))
    changed = altered_table(table, statement)
    await executor.alter_family(table.keyspace.name, family_of(changed))
    return SchemaChanged("UPDATED", table.keyspace.name, table.name)


async def _drop_table(executor: Executor, statement: DropTable, keyspace: str | None) -> Outcome:
    table = await _existing(executor, statement.table, keyspace)
    if table is None:
        return _exists(statement.if_exists, _missing(statement.table, keyspace))
    await executor.drop_family(table.keyspace.name, table.name)
    return SchemaChanged("DROPPED", table.keyspace.name, table.name)


async def _truncate(executor: Executor, statement: Truncate, keyspace: str | None) -> Outcome:
    table = await _existing(executor, statement.table, keyspace)
    if table is None:
        space = keyspace_name(statement.table, keyspace)
        raise invalid(f"Table '{space}.{statement.table.name}' doesn't exist")
    await executor.truncate(table.keyspace.name, table.name)
    return Done()
