"""loadStorageConf: keyspaces and column families from the XML of a storage-conf.xml, all or nothing."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.wide_column import LOAD_STORAGE_CONF
from docstore.node.node import node_of
from docstore.node.wide.schema import SchemaChange, change_schema
from docstore.wide.definitions import loaded_document
from docstore.wide.storage_conf import parse_storage_conf


async def run(context: Context, arguments: Arguments) -> Result:
    settings = node_of(context).wide.settings
    configuration = parse_storage_conf(arguments.value, settings.registry)

    def act(schema: SchemaChange) -> None:
        if arguments["replace"]:
            schema.replace(configuration.keyspaces, configuration.families)
        else:
            schema.define(configuration.keyspaces, configuration.families)

    reply = await change_schema(context, act)
    if configuration.rpc_timeout_ms is not None:
        settings.write_timeout = settings.read_timeout = configuration.rpc_timeout_ms
    return {**loaded_document(configuration), **reply}


COMMAND = Command(
    "loadStorageConf", run, privilege=Privilege("createCollection", Resource.CLUSTER), role=Role.PRIMARY,
    value=Type.STRING, parameters=LOAD_STORAGE_CONF, admin_only=True,
    help="make the keyspaces and column families of a storage-conf.xml",
)  # fmt: skip
