"""getClusterParameter: return cluster parameters."""

from __future__ import annotations

from docstore.bson import to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.processes import GET_CLUSTER_PARAMETER
from docstore.errors import Code, CommandError
from docstore.node.cluster_parameters import CHANGE_STREAM_OPTIONS, value_of
from docstore.node.node import node_of


def run(context: Context, arguments: Arguments) -> Result:
    argument = to_python(arguments.value)
    names = [CHANGE_STREAM_OPTIONS] if argument == "*" else argument if isinstance(argument, list) else [argument]
    if not names:
        raise CommandError(
            Code.BadValue, "Must supply at least one cluster server parameter name to getClusterParameter"
        )
    store = node_of(context).store
    return {"clusterParameters": [value_of(store, str(name)) for name in names]}


COMMAND = GET_CLUSTER_PARAMETER.command(run)
