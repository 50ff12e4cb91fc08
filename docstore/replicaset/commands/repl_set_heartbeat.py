"""replSetHeartbeat: exchange of state between members."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Response, Result, Role, Type
from docstore.commands.eager_tasks import start_eagerly
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.codec import decode_heartbeat, encode_reply


def run(context: Context, arguments: Arguments) -> Response:
    return start_eagerly(_run(context))


async def _run(context: Context) -> Result:
    replica_set = replica_set_of(context)
    answer = await replica_set.membership.request(lambda token: decode_heartbeat(context.body, token))
    reply = encode_reply(answer)
    if replica_set.membership.state.config is None:
        databases = replica_set.membership.store.databases()
        reply["hasData"] = any(database != "local" for database in databases)
    return reply


COMMAND = Command(
    "replSetHeartbeat", run, privilege=INTERNAL, role=Role.ANY, user_first=True, admin_only=True,
    value=Type.STRING, tolerant=True, help="between members of a set",
)  # fmt: skip
