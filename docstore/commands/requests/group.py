"""The fields of the `group` command, for nodes, routers and privilege checks."""

from __future__ import annotations

from docstore.commands.arguments import declared
from docstore.commands.declaration import Parameter, Type

GROUP_FIELDS = declared(
    Parameter("ns", Type.STRING, required=True),
    Parameter("key", Type.OBJECT),
    Parameter("$keyf", Type.ANY),
    Parameter("$reduce", Type.ANY, required=True),
    Parameter("initial", Type.OBJECT, required=True),
    Parameter("cond", Type.OBJECT),
    Parameter("finalize", Type.ANY),
    Parameter("collation", Type.OBJECT, unsupported="the group command is older than collations"),
)
