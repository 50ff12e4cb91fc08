"""abortTransaction: discard a transaction's writes on all its shards."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.transactions import ABORT_TRANSACTION
from mongos.router import router_of


async def run(context: Context, _args: Arguments) -> Result:
    return await router_of(context).transactions.abort(context)


COMMAND = ABORT_TRANSACTION.command(run)
