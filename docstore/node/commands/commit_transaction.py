"""commitTransaction: make a transaction's writes visible and durable.

    {commitTransaction: 1, commitTimestamp: Timestamp}

`commitTimestamp`, sent by a coordinator: the commit time of a prepared transaction.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Exceptional, Parameter, Response, Type
from docstore.commands.specs.transactions import COMMIT_TRANSACTION
from docstore.node.node import node_of
from docstore.node.transactions.registry import transactions_of
from docstore.optime import pack_timestamp


def run(context: Context, arguments: Arguments) -> Response:
    stamp = arguments["commitTimestamp"]
    return transactions_of(node_of(context)).endings.commit(context, None if stamp is None else pack_timestamp(stamp))


COMMAND = COMMIT_TRANSACTION.command(
    run, Exceptional("a shard is told by the coordinator", Parameter("commitTimestamp", Type.TIMESTAMP, internal=True))
)
