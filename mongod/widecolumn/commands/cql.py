"""cql: one statement of CQL."""

from __future__ import annotations

import os

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.cql import PARAMETERS, run_statement
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.cql import parser
from docstore.cql.execution import Surroundings
from docstore.net.threads import on_thread
from docstore.node.node import node_of
from docstore.node.wide.executor import executor_of


async def run(context: Context, arguments: Arguments) -> Result:
    if not parser.is_ready():
        await on_thread(parser.grammar)
    statements = node_of(context).wide.statements
    return await run_statement(executor_of(context), statements, surroundings_of(context), context, arguments)


def surroundings_of(context: Context) -> Surroundings:
    """What this node lends to statements, with its limits."""
    node = node_of(context)
    settings = node.wide.settings
    return Surroundings(
        dice=os.urandom,
        pause=node.pause,
        max_value=settings.max_value,
        tombstone_limit=settings.fail_tombstones,
        tombstone_warning=settings.warn_tombstones,
    )


COMMAND = Command(
    "cql", run, privilege=Privilege("find", Resource.DATABASE), role=Role.ANY, value=Type.STRING,
    parameters=PARAMETERS, help="run a statement of CQL",
)  # fmt: skip
