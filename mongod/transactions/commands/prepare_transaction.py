"""prepareTransaction: log the transaction's writes on this shard, so that its coordinator may commit or abort it."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Response, Role
from docstore.node.node import node_of
from docstore.node.transactions.registry import transactions_of


def run(context: Context, _arguments: Arguments) -> Response:
    return transactions_of(node_of(context)).endings.prepare(context)


COMMAND = Command(
    "prepareTransaction", run, privilege=INTERNAL, role=Role.PRIMARY, admin_only=True,
    help="prepare a transaction for a commit on several shards",
)  # fmt: skip
