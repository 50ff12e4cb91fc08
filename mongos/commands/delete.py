"""`delete`: statements that name a shard key go to its owner, others to every shard that may hold a match."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from mongos.router import router_of
from mongos.routing.targeting import delete_target
from mongos.routing.writes import BatchWrite, Kind

KIND = Kind("deletes", delete_target, lambda statement: 0)


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    statements = context.documents("deletes")
    if not statements:
        raise CommandError(Code.InvalidLength, "Write batch sizes must be between 1 and 100000. Got 0 operations.")
    if (await router.cache.get(context.namespace)).primary is None:
        return {"n": 0}
    batch = BatchWrite(
        context, KIND, statements, ordered=args["ordered"], shards=router.shards, cache=router.cache,
        accounting=router.autosplit, ensure_database=router.ensure_database,
    )  # fmt: skip
    return await batch.run()


COMMAND = Command(
    "delete",
    run,
    privilege=Privilege("remove", Resource.COLLECTION),
    role=Role.PRIMARY,
    value=Type.COLLECTION,
    retryable=True,
    stable=True,
    parameters=(
        Parameter("deletes", Type.DOCUMENTS, required=True),
        Parameter("ordered", Type.BOOL, default=True),
        Parameter("let", Type.OBJECT, unsupported="let is not supported yet"),
    ),
    help="Delete documents.",
)
