"""Whatever a real server refuses to a user with few privileges, ours refuses too: random requests, sent to both.

DOCSTORE_RANDOM_SEED and DOCSTORE_RANDOM_CASES say which and how many of each user.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import bson
import pymongo
import pytest
from bson.binary import Binary

from docstore.commands.access.logins import keep_apart
from docstore.commands.access.logins import log_in as identify
from docstore.commands.dispatch import Pending
from docstore.commands.limits import FACES
from docstore.errors import Code
from docstore.security.names import UserName
from docstore.security.scram import SHA_1
from docstore.security.scram_client import conversation
from docstore.wire.message import Message, encode_message
from tests.differential.narrow_users import USERS, Document, Requests, encode
from tests.harness.reference import reference_server
from tests.unit.mongos.local import LocalCluster
from tests.unit.node.local import LocalNode, loop

pytestmark = pytest.mark.reference
SEED = int(os.environ.get("DOCSTORE_RANDOM_SEED", "1"))
CASES = int(os.environ.get("DOCSTORE_RANDOM_CASES", "20"))
TELLING = frozenset(
    (Code.NamespaceNotFound, Code.NamespaceExists, Code.IndexNotFound, Code.CursorNotFound, Code.InternalError, 11000)
)
"""Codes of refusals by which one learns what there is, or that come of carrying out."""


class RawClient:
    """A client of the real server that sends documents as they are."""

    def __init__(self, port: int, user: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        messages = conversation(SHA_1, user, "p", b"nonce" * 5)
        start = {"saslStart": 1, "mechanism": SHA_1, "payload": Binary(next(messages)), "$db": "admin"}
        reply = self.send(bson.encode(start))
        while not reply["done"]:
            try:
                payload = messages.send(bytes(reply["payload"]))
            except StopIteration:
                payload = b""
            step = {"saslContinue": 1, "conversationId": reply["conversationId"], "payload": Binary(payload)}
            reply = self.send(bson.encode({**step, "$db": "admin"}))
            assert reply["ok"], reply

    def send(self, body: bytes, sequences: dict[str, list[bytes]] | None = None) -> dict[str, Any]:
        self._socket.sendall(encode_message(body, request_id=1, sequences=(sequences or {}).items()))
        size = int.from_bytes(self._exactly(4), "little")
        return bson.decode(self._exactly(size - 4)[17:])

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the real server has closed the connection"
            data += part
        return data

    def close(self) -> None:
        self._socket.close()


SETTING_UP: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        (db, {"insert": name, "documents": [{"_id": 1, "x": 1}]})
        for db in ("own", "other")
        for name in ("c", "d", "secret")
    ),
    ("own", {"create": "v", "viewOn": "c", "pipeline": []}),
)


def users_made() -> Iterator[dict[str, Any]]:
    for name, (privileges, roles) in USERS.items():
        yield {"createRole": f"of {name}", "privileges": privileges, "roles": []}
        user = {"createUser": name, "pwd": "p", "roles": [*roles, f"of {name}"], "mechanisms": [SHA_1]}
        yield user


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("reference")
    with reference_server(directory, "--auth") as found:
        with pymongo.MongoClient("127.0.0.1", found) as client:
            client.admin.command("createUser", "root", pwd="p", roles=["root"], mechanisms=[SHA_1])
        with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", found, username="root", password="p") as root:
            for command in users_made():
                root.admin.command(command)
            for db, command in SETTING_UP:
                root[db].command(command)
        yield found


async def told(target: LocalNode | LocalCluster, message: Message) -> dict[str, Any]:
    answered = target.dispatcher.handle(message, target.peer)
    if isinstance(answered, Pending):
        answered = await answered.finish()
    assert isinstance(answered, bytes), answered
    return bson.decode(answered)


async def node_of(user: str) -> LocalNode:
    node = LocalNode(face=FACES["6.0"])
    await node.run({"createUser": "root", "pwd": "p", "roles": ["root"], "mechanisms": [SHA_1]}, "admin")
    for command in users_made():
        await node.run(command, "admin")
    for db, command in SETTING_UP:
        await node.run(command, db)
    await be(node, node, user)
    return node


async def be(target: LocalNode | LocalCluster, node: LocalNode, user: str) -> None:
    """Have the client of a node or router be that user of the node."""
    access = target.services.access
    access.directory, access.enabled = node.node.users, True
    found = await access.find(UserName(user, "admin"))
    assert found is not None
    identify(target.peer, found, access.directory.generation)
    keep_apart(target.peer)


def lets_in(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether ours has done, or told something of, what the real server refuses for want of privileges or because a
    field stands twice.
    """
    if theirs["ok"] or theirs["code"] not in (Code.Unauthorized, 40413, 40431, 40433):
        return False
    if ours["ok"]:
        return True
    return theirs["code"] == Code.Unauthorized and ours["code"] in TELLING


@pytest.mark.parametrize("routed", [False, True], ids=["node", "router"])
@pytest.mark.parametrize("user", USERS)
def test_what_a_real_server_refuses_is_refused(port: int, user: str, routed: bool) -> None:
    async def story() -> tuple[list[Any], int, int]:
        node = await node_of(user)
        target: LocalNode | LocalCluster = node
        if routed:
            target = LocalCluster()
            await be(target, node, user)
        client, requests = RawClient(port, user), Requests(Random(f"{SEED} {user}"))
        apart, refused, stricter = [], 0, 0
        for _ in range(CASES):
            db, command, sequences = requests.request()
            body = encode(Document((*command, ("$db", db))))
            beside = {name: list(map(encode, documents)) for name, documents in sequences.items()}
            theirs = client.send(body, beside)
            ours = await told(target, Message(1, 0, body, beside))
            refused += theirs.get("code") == Code.Unauthorized
            stricter += bool(theirs["ok"]) and ours.get("code") == Code.Unauthorized
            if lets_in(ours, theirs):
                apart.append((db, command, sorted(sequences), ours.get("errmsg", "ok"), theirs.get("errmsg")))
        client.close()
        return apart, refused, stricter

    apart, refused, stricter = loop(story())
    print(f"{user}: {CASES} requests, {refused} refused by the real server, {stricter} by ours alone")
    for db, command, sequences, ours, theirs in apart:
        print(f"{user}: {db} {command} {sequences}\n    ours   {ours}\n    theirs {theirs}")
    assert not apart
