"""replSetUpdatePosition: position report of members that sync from this one."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Response, Result, Role
from docstore.commands.eager_tasks import start_eagerly
from docstore.replicaset.access import initiated_set_of
from docstore.replicaset.codec import decode_positions, encode_reply


def run(context: Context, arguments: Arguments) -> Response:
    return start_eagerly(_run(context))


async def _run(context: Context) -> Result:
    membership = initiated_set_of(context).membership
    return encode_reply(await membership.request(lambda token: decode_positions(context.body, token)))


COMMAND = Command(
    "replSetUpdatePosition", run, privilege=INTERNAL, role=Role.ANY, admin_only=True,
    tolerant=True, help="between members of a set",
)  # fmt: skip
