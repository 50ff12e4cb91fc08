"""replSetHeartbeat: members ask each other how they are."""

from __future__ import annotations

from collections.abc import Awaitable

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Result, Role, Type
from docstore.replicaset.access import replica_set_of
from docstore.replicaset.codec import decode_heartbeat, encode_reply
from docstore.replicaset.replicaset import ReplicaSet
from docstore.replication.messages import HeartbeatReply


def run(context: Context, arguments: Arguments) -> Result | Awaitable[Result]:
    replica_set = replica_set_of(context)
    answer = replica_set.membership.ask(lambda token: decode_heartbeat(context.body, token))
    return _reply(replica_set, answer) if isinstance(answer, HeartbeatReply) else _reply_later(replica_set, answer)


async def _reply_later(replica_set: ReplicaSet, answer: Awaitable[HeartbeatReply]) -> Result:
    return _reply(replica_set, await answer)


def _reply(replica_set: ReplicaSet, answer: HeartbeatReply) -> Result:
    reply = encode_reply(answer)
    if replica_set.membership.state.config is None:
        databases = replica_set.membership.store.databases()
        reply["hasData"] = any(database != "local" for database in databases)
    return reply


COMMAND = Command(
    "replSetHeartbeat", run, privilege=INTERNAL, role=Role.ANY, admin_only=True,
    value=Type.STRING, tolerant=True, help="between members of a set",
)  # fmt: skip
