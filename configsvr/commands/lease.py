"""_configsvrLease: see `docstore.sharding.requests.lease`."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from configsvr.catalog.leases import DEFAULT_TTL_MS
from configsvr.catalog.records import date_of
from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.specs.cluster import internal_command


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    server = server_of(context)
    server.ready()
    granted, record = server.leases.change(
        arguments.value,
        arguments["action"],
        arguments["holder"],
        arguments["fence"],
        arguments["ttlMillis"],
        arguments["why"],
    )
    if granted:
        await server.committed()
    return {
        "granted": granted,
        "fence": Int64(record.fence),
        "holder": record.holder,
        "expires": date_of(record.expires_ms),
    }


COMMAND = internal_command(
    "_configsvrLease",
    run,
    value=Type.STRING,
    parameters=(
        Parameter("action", Type.STRING, required=True, internal=True),
        Parameter("holder", Type.STRING, required=True, internal=True),
        Parameter("fence", Type.INT, default=0, minimum=0, internal=True),
        Parameter("ttlMillis", Type.INT, default=DEFAULT_TTL_MS, minimum=1, maximum=3_600_000, internal=True),
        Parameter("why", Type.STRING, default="", internal=True),
    ),
    help="acquire, renew or release a lease",
)
