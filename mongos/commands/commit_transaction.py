"""commitTransaction: make a transaction's writes on all its shards visible and durable, atomically."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.transactions import COMMIT_TRANSACTION
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> Result:
    return await router_of(context).transactions.commit(context, args["recoveryToken"])


COMMAND = COMMIT_TRANSACTION.command(run)
