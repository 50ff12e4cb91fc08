"""movePrimary: the unsharded collections of a database move to another primary shard as a chunk does.

The migration (`mongod.migration.donor.driver`) alone decides whether the database changes hands, and goes on even if
the operation ends. While it runs, the operation's hold keeps definitions unchanged.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.sharding.ddl.operation import Operation

if TYPE_CHECKING:
    from mongod.migration.shard import Shard

LOG = component("SHARDING")
PATIENCE_SECONDS = 30.0
"""The time during which a migration that conflicts with another, here or on the recipient, is retried."""
_RETRY_SECONDS = 0.2
_MAY_PASS = frozenset((Code.ConflictingOperationInProgress, Code.HostUnreachable, Code.OperationFailed))
"""Another migration, or a recipient whose primary has changed."""


async def move(shard: Shard, _context: Context, operation: Operation) -> dict[str, Any]:
    """Move the database away from the old primary shard; return once it has changed hands.

    Errors: those of the migration; only its cleanup remains then.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + PATIENCE_SECONDS
    while True:
        await shard.end_of_database(operation.namespace)
        about = f"{operation.namespace}.$cmd"
        shard.shard_filter.forget(about)
        routing = (await shard.shard_filter.refresh(about)).routing
        if routing.primary == operation.facts["to"]:
            return {}
        if routing.primary != shard.name or routing.database is None:
            raise CommandError(Code.StaleDbVersion, f"{shard.name} is not the primary shard of {operation.namespace}")
        try:
            await shard.donate_database(operation, routing.database)
        except CommandError as error:
            if error.code not in _MAY_PASS or loop.time() >= give_up:
                raise
            LOG.info("The database does not move yet", ns=operation.namespace, reason=error.message)
            await asyncio.sleep(_RETRY_SECONDS)
