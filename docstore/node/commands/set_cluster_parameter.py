"""setClusterParameter: set a cluster parameter."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.processes import SET_CLUSTER_PARAMETER
from docstore.errors import Code, CommandError
from docstore.node.cluster_parameters import checked_value, set_value, value_of
from docstore.node.ddl.catalog_changes import change
from docstore.node.node import node_of
from docstore.node.process.settings import ClusterRole


async def run(context: Context, arguments: Arguments) -> Result:
    if node_of(context).settings.role is ClusterRole.SHARD:
        raise CommandError(Code.NotImplemented, "setClusterParameter can only run on mongos in sharded clusters")
    assignment = document_to_python(arguments.value)
    if len(assignment) != 1:
        raise CommandError(Code.IllegalOperation, "one cluster parameter is set at a time")
    ((name, value),) = assignment.items()
    checked = checked_value(name, value)
    node = node_of(context)
    if node.replication.set_name is None:
        raise CommandError(Code.IllegalOperation, "setClusterParameter cannot be run on standalones")
    before = value_of(node.store, name)
    reply = await change(context, {}, lambda unit: set_value(node.store, unit, name, checked))
    audit = context.services.audit
    if audit is not None:
        parameters = {"originalParameter": before, "updatedParameter": value_of(node.store, name)}
        audit.note(context.connection, "setClusterParameter", parameters)
    return reply


COMMAND = SET_CLUSTER_PARAMETER.command(run)
