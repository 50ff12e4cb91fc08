"""_shardsvrMergeTemporary: see `docstore.sharding.requests.merge_temporary`."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Role, Type
from docstore.node.node import node_of
from docstore.node.pipeline.map_reduce import let_be_seen
from docstore.node.write.driver import effective_concern, wait_for_write


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    node = node_of(context)
    temporary = f"{context.db}.{arguments['from']}"
    concern = effective_concern(context, node)
    target = context.namespace
    last = await let_be_seen(node, temporary, target, bypass=arguments["bypass"], version=context.shard_version)
    failed = await wait_for_write(context, last, concern)
    return {} if failed is None else {"writeConcernError": failed}


COMMAND = Command(
    "_shardsvrMergeTemporary",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    value=Type.COLLECTION,
    parameters=(
        Parameter("from", Type.STRING, required=True, internal=True),
        Parameter("bypass", Type.BOOL, default=False, internal=True),
    ),
    help="put a map-reduce's results into the collection that they are for",
)
