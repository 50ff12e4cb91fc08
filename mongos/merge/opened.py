"""A cursor of the router over those that shards have opened."""

from __future__ import annotations

from collections.abc import Sequence

from docstore.commands.context import Context
from mongos.merge.batches import first_reply
from mongos.merge.merged import MergedCursor, Shape
from mongos.router import router_of
from mongos.routing.requests import ShardReply


async def opened_reply(
    context: Context,
    answers: Sequence[ShardReply],
    shape: Shape | None = None,
    *,
    batch_size: int | None,
    asked_size: int | None = None,
    single_batch: bool = False,
    catalog: bool = False,
    partial: bool | None = None,
) -> bytes:
    """Return the reply with the shards' answers merged in that shape; a cursor of this router reads theirs on.

    `asked_size`: the number of documents per shard batch. `partial`: as in `MergedCursor`. The others are as in
    `first_reply`.
    """
    router = router_of(context)
    remotes = await router.remotes(context, answers, asked_size)
    merged = MergedCursor(remotes, shape or Shape(), router.discard, scheduler=router.scheduler, partial=partial)
    return await first_reply(context, merged, batch_size=batch_size, single_batch=single_batch, catalog=catalog)
