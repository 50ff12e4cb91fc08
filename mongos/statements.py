"""What insert, update and delete have in common at a router: the bounds of a batch, and carrying it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docstore.commands.context import Context
from docstore.commands.limits import MAX_WRITE_BATCH
from docstore.errors import Code, CommandError
from mongos.router import router_of
from mongos.routing.targeting import documents_only
from mongos.routing.writes import BatchWrite, Kind


async def run_statements(context: Context, kind: Kind, statements: Sequence[bytes], *, ordered: bool) -> dict[str, Any]:
    """The reply to a batch. Errors: InvalidLength."""
    if not 0 < len(statements) <= MAX_WRITE_BATCH:
        raise CommandError(
            Code.InvalidLength,
            f"Write batch sizes must be between 1 and {MAX_WRITE_BATCH}. Got {len(statements)} operations.",
        )
    router = router_of(context)
    documents_only(context, await router.cache.get(context.namespace))
    batch = BatchWrite(
        context, kind, statements, ordered=ordered, shards=router.shards, cache=router.cache,
        accounting=router.autosplit, ensure_database=router.ensure_database,
    )  # fmt: skip
    return await batch.run()
