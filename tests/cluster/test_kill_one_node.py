"""kill -9 of one node at any moment under a mixed load of writes.

What was acknowledged is there, what was not is there whole or not at all, indexes, documents and counters agree.
DOCSTORE_KILL_ROUNDS asks for more rounds than the few that the suite has time for, DOCSTORE_SEED replays one.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pymongo
import pytest

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.mixed_load import CatalogClient, Client, DocumentClient, check_consistent, connect
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster

ROUNDS = int(os.environ.get("DOCSTORE_KILL_ROUNDS", "5"))
CLIENTS = 3


@pytest.mark.parametrize("replicated", [False, True], ids=["standalone", "set"])
def test_nothing_acknowledged_is_lost_and_nothing_is_half_there(tmp_path: Path, replicated: bool) -> None:
    seed = int(os.environ.get("DOCSTORE_SEED", str(random.randrange(1 << 32))))
    print(f"DOCSTORE_SEED={seed}")
    rng = random.Random(seed)
    deployment = ForkedDeployment(tmp_path)
    with stopped_at_end(deployment):
        node = Member("node", "mongod", ["--replSet", "rs"] if replicated else [])
        deployment.start(node)
        with closing(connect(node.port)) as client:
            if replicated:
                client.admin.command("replSetInitiate", {"_id": "rs", "members": [{"_id": 0, "host": node.address}]})
                await_primary(client)
            for number in range(CLIENTS):
                collection = client.load[f"w{number}"]
                collection.create_index("g")
                collection.create_index("tags")
                collection.create_index("u", unique=True)
        clients: list[Client] = [DocumentClient(node.port, rng, f"w{number}") for number in range(CLIENTS)]
        clients.append(CatalogClient(node.port, rng, {}))
        for _ in range((ROUNDS + 1) // 2 if replicated else ROUNDS):
            clients = one_round(deployment, node, clients, rng)


def one_round(deployment: Deployment, node: Member, clients: list[Client], rng: random.Random) -> list[Client]:
    for each in clients:
        each.start()
    # The moment of the kill is random; nothing is waited for.
    time.sleep(rng.uniform(0.05, 0.6))
    deployment.kill("node")
    for each in clients:
        each.join(30)
        assert not each.is_alive()
        assert each.failure is None, repr(each.failure)
    deployment.restart("node")
    with closing(connect(node.port)) as client:
        await_primary(client)
        for each in clients:
            each.settle(client)
        check_consistent(client)
    print("acknowledged:", [each.acknowledged for each in clients])
    return [
        DocumentClient(node.port, rng, each.collection_name, each.held)
        if isinstance(each, DocumentClient)
        else CatalogClient(node.port, rng, each.held)  # type: ignore[attr-defined]
        for each in clients
    ]


def await_primary(client: pymongo.MongoClient[dict[str, Any]]) -> None:
    wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 30)
