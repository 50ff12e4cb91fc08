"""Sessions are ended by their users, and by patterns that name a session or a user's digest."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from bson.binary import Binary
from bson.int64 import Int64

from docstore.commands.client_connection import ClientConnection
from docstore.commands.sessions.fields import user_digest
from tests.unit.node.local import LocalNode, loop
from tests.unit.node.logging_in import another_client, log_in

ANN, BOB, ROOT = ("ann", "d"), ("bob", "d"), ("root", "admin")
DIGEST = Binary(user_digest(*ANN))
LSID = Binary(uuid.UUID(int=5).bytes, 4)


async def clients_of(node: LocalNode) -> dict[tuple[str, str], ClientConnection]:
    """A connection of each user."""
    made = {}
    for user, role in ((ROOT, "root"), (ANN, "readWrite"), (BOB, "readWrite")):
        command = {"createUser": user[0], "pwd": "p", "roles": [role], "mechanisms": ["SCRAM-SHA-1"]}
        await node.run(command, user[1])
    await node.run({"insert": "c", "documents": [{} for _ in range(9)]}, "d")
    node.services.access.enabled = True
    for user in (ROOT, ANN, BOB):
        made[user] = another_client(node)
        assert (await log_in(node, user[0], "p", user[1], mechanism="SCRAM-SHA-1"))["ok"]
    return made


@pytest.mark.parametrize(
    ("command", "gone"),
    [
        ({"killAllSessions": [{"user": "ann", "db": "d"}]}, {ANN}),
        ({"killAllSessions": [{"user": "ann", "db": "d"}, {"user": "bob", "db": "d"}]}, {ANN, BOB}),
        ({"killAllSessions": []}, {ANN, BOB, ROOT}),
        ({"killAllSessionsByPattern": [{"uid": DIGEST}]}, {ANN}),
        ({"killAllSessionsByPattern": [{"uid": Binary(bytes(32))}]}, set()),
        ({"killAllSessionsByPattern": [{"lsid": {"id": LSID, "uid": DIGEST}}]}, {ANN}),
        ({"killAllSessionsByPattern": [{"lsid": {"id": LSID, "uid": DIGEST}, "uid": Binary(bytes(32))}]}, set()),
        ({"killAllSessionsByPattern": [{"uid": DIGEST}, {}]}, {ANN, BOB, ROOT}),
        ({"killAllSessionsByPattern": []}, {ANN, BOB, ROOT}),
    ],
)
def test_whose_cursors_end(command: dict[str, Any], gone: set[tuple[str, str]]) -> None:
    async def story() -> set[tuple[str, str]]:
        node = LocalNode()
        clients = await clients_of(node)
        cursors = {}
        find = {"find": "c", "batchSize": 2, "lsid": {"id": LSID}}
        for user, client in clients.items():
            node.peer = client
            cursors[user] = Int64((await node.run(find, "d"))["cursor"]["id"])
        node.peer = clients[ROOT]
        await node.run(command, "admin")
        ended = set()
        for user, client in clients.items():
            node.peer = client
            reply = await node.reply({"getMore": cursors[user], "collection": "c", "lsid": {"id": LSID}}, "d")
            if not reply["ok"]:
                ended.add(user)
        return ended

    assert loop(story()) == gone


def test_only_a_process_may_say_for_whom_it_ends_sessions() -> None:
    async def story() -> dict[str, Any]:
        node = LocalNode()
        clients = await clients_of(node)
        node.peer = clients[ROOT]
        pattern = {"users": [{"user": "ann", "db": "d"}], "roles": [{"role": "read", "db": "d"}]}
        return await node.reply({"killAllSessionsByPattern": [pattern]}, "admin")

    reply = loop(story())
    assert (reply["code"], reply["errmsg"]) == (13, "Not authorized to impersonate in killAllSessionsByPattern")
