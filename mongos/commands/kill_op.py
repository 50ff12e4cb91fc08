"""`killOp`: ask an operation of a shard to end, by the id that `currentOp` shows of it: `shard:id`.

A number is the id of an operation of this router.
"""

from __future__ import annotations

from docstore.bson import get_field
from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.operations.ids import operation_id
from docstore.commands.specs.processes import KILL_OP
from docstore.errors import Code, CommandError
from docstore.query.value.values import text_of
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> Result:
    operation = get_field(context.raw, "op")
    if operation is None or operation[0] != STRING:
        context.services.operations.kill(operation_id(operation))
        return {"info": "attempting to kill op"}
    name, colon, number = text_of(operation).rpartition(":")
    if not colon or not number.lstrip("-").isdecimal():
        raise CommandError(
            Code.BadValue,
            f"The op argument to killOp must be of the format shardid:opid but found {text_of(operation)!r}",
        )
    shard = await router_of(context).shards.get(name)
    answer = await shard.command("admin", {"killOp": 1, "op": int(number)}, deadline=context.deadline)
    return answer.relayed()


COMMAND = KILL_OP.command(run)
