"""cql: one statement of CQL."""

from __future__ import annotations

import os

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response
from docstore.commands.eager_tasks import start_eagerly
from docstore.commands.specs.wide_column import CQL
from docstore.node.node import node_of
from docstore.widecolumn.commands.cql import run_statement
from docstore.widecolumn.commands.roles import is_about_roles, run_role_statement
from docstore.widecolumn.cql.run.execution import Environment
from docstore.widecolumn.node.executor import executor_of
from docstore.widecolumn.node.keyspaces import wide_of


def run(context: Context, arguments: Arguments) -> Response:
    if is_about_roles(arguments.value):
        return run_role_statement(context, arguments.value, context.db)
    node = node_of(context)
    statements = wide_of(node).statements
    running = run_statement(executor_of(context), statements, surroundings_of(context), context, arguments)
    if node.shard_filter is None and arguments["consistency"] == "ONE":
        # Statements that read or write rows wait only by a pause or a lock; all others pause first.
        return start_eagerly(running)
    return running


def surroundings_of(context: Context) -> Environment:
    """Return the environment of CQL statements on this node, with its limits."""
    node = node_of(context)
    settings = wide_of(node).settings
    return Environment(
        rng=os.urandom,
        pause=node.pause,
        max_value=settings.max_value,
        tombstone_limit=settings.fail_tombstones,
        tombstone_warning=settings.warn_tombstones,
    )


COMMAND = CQL.command(run)
