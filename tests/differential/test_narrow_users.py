"""Whatever a real server refuses to a user with few privileges, ours refuses too: random requests, sent to both.

DOCSTORE_RANDOM_SEED and DOCSTORE_RANDOM_CASES say which and how many of each user.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import bson
import pymongo
import pytest

from docstore.commands.access.logins import keep_apart
from docstore.commands.access.logins import log_in as identify
from docstore.commands.dispatch import Pending
from docstore.commands.limits import FACES
from docstore.errors import Code
from docstore.security.names import UserName
from docstore.security.scram import SHA_1
from docstore.wire.message import Message
from tests.differential.narrow.judge import is_stricter, lets_in
from tests.differential.narrow.requests import Requests
from tests.differential.narrow.users import DATA, USERS, users_made
from tests.harness.raw_client import RawClient
from tests.harness.reference import reference_server
from tests.unit.mongos.local import LocalCluster
from tests.unit.node.local import LocalNode, loop

pytestmark = pytest.mark.reference
SEED = int(os.environ.get("DOCSTORE_RANDOM_SEED", "1"))
CASES = int(os.environ.get("DOCSTORE_RANDOM_CASES", "20"))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("reference")
    with reference_server(directory, "--auth") as found:
        with pymongo.MongoClient("127.0.0.1", found) as client:
            client.admin.command("createUser", "root", pwd="p", roles=["root"], mechanisms=[SHA_1])
        with pymongo.MongoClient[dict[str, Any]]("127.0.0.1", found, username="root", password="p") as root:
            for command in users_made():
                root.admin.command(command)
            for db, command in DATA:
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
    for db, command in DATA:
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
        for request in chain.from_iterable(requests.next() for _ in range(CASES)):
            body, sequences = request.frame()
            theirs = client.send(body, sequences)
            ours = await told(target, Message(1, 0, body, sequences))
            refused += theirs.get("code") == Code.Unauthorized
            stricter += is_stricter(ours, theirs)
            if lets_in(ours, theirs):
                apart.append(
                    (
                        request.db,
                        request.command,
                        sorted(request.sequences),
                        ours.get("errmsg", "ok"),
                        theirs.get("errmsg"),
                    )
                )
        client.close()
        return apart, refused, stricter

    apart, refused, stricter = loop(story())
    print(f"{user}: {CASES} requests, {refused} refused by the real server, {stricter} by ours alone")
    for db, command, sequences, ours, theirs in apart:
        print(f"{user}: {db} {command} {sequences}\n    ours   {ours}\n    theirs {theirs}")
    assert not apart
