"""abortTransaction: discard a transaction's writes.

    {abortTransaction: 1, prepared: bool}

`prepared`, sent by a coordinator: abort it even if it is prepared.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Response, Type
from docstore.commands.specs.transactions import ABORT_TRANSACTION
from docstore.node.node import node_of
from docstore.node.transactions.registry import transactions_of


def run(context: Context, arguments: Arguments) -> Response:
    return transactions_of(node_of(context)).endings.abort(context, prepared=arguments["prepared"])


COMMAND = ABORT_TRANSACTION.command(
    run,
    Exceptional("a shard is told by the coordinator", Parameter("prepared", Type.BOOL, default=False, internal=True)),
)
