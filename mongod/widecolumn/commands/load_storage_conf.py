"""loadStorageConf: keyspaces and column families from the XML of a storage-conf.xml, all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.wide_column import LOAD_STORAGE_CONF, SPREAD
from docstore.node.node import node_of
from docstore.widecolumn.model.definition_commands import loaded_document
from docstore.widecolumn.model.storage_conf import Configuration, parse_storage_conf
from docstore.widecolumn.node.keyspaces import wide_of
from docstore.widecolumn.node.schema_changes import SchemaChange, change_schema
from mongod.widecolumn.shard_column_family import change_spread, copy_definition, drop_everywhere


async def run(context: Context, arguments: Arguments) -> Result:
    wide = wide_of(node_of(context))
    settings = wide.settings
    configuration = parse_storage_conf(arguments.value, settings.registry)

    def act(schema: SchemaChange) -> None:
        if arguments["replace"]:
            schema.replace(configuration.keyspaces, configuration.families)
        else:
            schema.define(configuration.keyspaces, configuration.families)

    if arguments["spread"]:
        reply = await _spread(context, configuration, act)
    else:
        reply = await change_schema(context, act)
    if configuration.rpc_timeout_ms is not None:
        settings.write_timeout = settings.read_timeout = configuration.rpc_timeout_ms
    return {**loaded_document(configuration), **reply}


async def _spread(context: Context, loaded: Configuration, act: Callable[[SchemaChange], None]) -> dict[str, Any]:
    """Change the schema here and on the other shards."""
    wide = wide_of(node_of(context))

    def standing() -> set[tuple[str, str]]:
        return {
            (space.name, store.definition.name) for space in loaded.keyspaces for store in wide.families(space.name)
        }

    before = standing()
    families = [(keyspace, family) for keyspace in loaded.keyspaces for family in loaded.families[keyspace.name]]
    reply = await change_spread(context, families, act)
    after = standing()
    for keyspace, name in sorted(before - after):
        await drop_everywhere(context, f"{keyspace}.{name}")
    for keyspace, name in sorted(before & after):
        await copy_definition(context, keyspace, name)
    return reply


COMMAND = LOAD_STORAGE_CONF.command(
    run,
    SPREAD,
)
