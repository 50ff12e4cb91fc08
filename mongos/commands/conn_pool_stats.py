"""`connPoolStats`: the connections to shards and config servers, and their members as this router knows them."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.processes import CONN_POOL_STATS
from docstore.net.pool import connections_document
from mongos.router import router_of


async def run(context: Context, _arguments: Arguments) -> dict[str, Any]:
    shards = router_of(context).shards
    clients = [shards.config.client, *(shard.client for shard in await shards.all())]
    for client in clients:
        # Of a set that nothing was asked of yet nothing is known: it is watched from now on.
        client.start()
    # A shard that is one node alone has no name of a set.
    sets = {client.set_name or client.connection_string: {"hosts": client.topology.document()} for client in clients}
    return connections_document(shards.config.links(), sets)


COMMAND = CONN_POOL_STATS.command(run)
