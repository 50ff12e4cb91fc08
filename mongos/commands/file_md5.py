"""filemd5: the sum is made by the shard that has all chunks of the file, as where they are sharded by `files_id`."""

from __future__ import annotations

import hashlib

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.files import FILE_MD5, chunks_of
from docstore.errors import Code, CommandError
from docstore.query.filter.tree import Comparison, Op
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.requests import forwarded
from mongos.routing.targeting import filter_shards


async def run(context: Context, arguments: Arguments) -> Result:
    context = context.about(chunks_of(context, arguments))
    router = router_of(context)
    tree = Comparison("files_id", Op.EQ, arguments.value)

    async def attempt(routing: Routing) -> Result:
        if routing.primary is None:
            return {"numChunks": 0, "md5": hashlib.md5(usedforsecurity=False).hexdigest()}
        shards = filter_shards(routing, tree)
        if len(shards) > 1:
            raise CommandError(Code.NotImplemented, "filemd5 of a file whose chunks are on several shards")
        (answer,) = await router.ask(context, routing, shards, forwarded(context.raw))
        return answer.body

    return await router.routed(context, attempt)


COMMAND = FILE_MD5.command(run)
