"""replSetUpdatePosition: members behind us report how far they are."""

from __future__ import annotations

from collections.abc import Awaitable

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Result, Role
from docstore.replicaset.access import initiated_set_of
from docstore.replicaset.codec import decode_positions, encode_reply
from docstore.replication.messages import PositionReply


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    replica_set = initiated_set_of(context)
    answer = replica_set.membership.ask(lambda token: decode_positions(context.body, token))
    return encode_reply(answer) if isinstance(answer, PositionReply) else _reply_later(answer)


async def _reply_later(answer: Awaitable[PositionReply]) -> Result:
    return encode_reply(await answer)


COMMAND = Command(
    "replSetUpdatePosition", run, privilege=INTERNAL, role=Role.ANY, admin_only=True,
    tolerant=True, help="between members of a set",
)  # fmt: skip
