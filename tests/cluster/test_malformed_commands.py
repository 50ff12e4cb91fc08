"""Whatever stands in the fields of a command, every kind of process answers it, and not with an InternalError."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import random
from collections.abc import Iterator
from typing import Any

import bson
import pytest

from docstore.commands.declaration import Command
from docstore.errors import Code
from docstore.wire.message import encode_message
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.serving import BareClient
from tests.unit.node.test_extreme_fields import LEFT_OUT, OPTIONS, requests_of

pytestmark = pytest.mark.cluster

OF_CLUSTERS = LEFT_OUT | {
    "replSetStepDown", "replSetMaintenance", "replSetFreeze", "replSetStepUp", "replSetReconfig", "replSetInitiate",
    "replSetAbortPrimaryCatchUp", "replSetResizeOplog", "replSetHeartbeat", "replSetSyncFrom", "configureFailPoint",
    "sleep", "backup", "backupOpen", "movePrimary", "dropDatabase", "addShard", "removeShard", "_configsvrAddShard",
    "_configsvrRemoveShard",
}  # fmt: skip
"""What changes who is who in the cluster, or waits for other processes."""
PACKAGES = {
    "router-0": ("mongos.commands", "docstore.commands.builtin"),
    "config-0": ("configsvr", "docstore.node.commands", "docstore.commands.builtin", "docstore.replicaset.commands"),
    "one-0": ("mongod", "docstore.node.commands", "docstore.commands.builtin", "docstore.replicaset.commands"),
}
OF_EACH_COMMAND = 60
SECONDS = 25.0


def declared(packages: tuple[str, ...]) -> dict[str, Command]:
    """The commands that the modules of packages declare, by name."""
    found: dict[str, Command] = {}
    for package in map(importlib.import_module, packages):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                command = getattr(importlib.import_module(module.name), "COMMAND", None)
                if isinstance(command, Command):
                    found.setdefault(command.name, command)
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("malformed")) as made:
        yield made


async def _refused(port: int, commands: list[Command], rng: random.Random) -> list[Any]:
    client = await BareClient.connect_to(port)
    failed = []
    for command in commands:
        requests = requests_of(command)
        for request in rng.sample(requests, min(OF_EACH_COMMAND, len(requests))):
            await client.write(encode_message(request, request_id=1))
            reply = bson.decode((await asyncio.wait_for(client.receive(), SECONDS)).body, OPTIONS)
            if reply.get("code") == Code.InternalError:
                failed.append((reply, request[:300]))
    await client.close()
    return failed


@pytest.mark.parametrize("process", PACKAGES)
def test_no_field_is_an_internal_error(cluster: Cluster, process: str) -> None:
    cluster.client.test.c.insert_one({"a": 1})
    served = cluster.client.admin.command("listCommands")["commands"].keys() if process == "router-0" else None
    commands = [
        command
        for name, command in sorted(declared(PACKAGES[process]).items())
        if name not in OF_CLUSTERS and (served is None or name in served)
    ]
    assert len(commands) > 40
    seed = random.randrange(1 << 32)
    failed = asyncio.run(_refused(cluster.deployment.members[process].port, commands, random.Random(seed)))
    assert not failed, f"seed {seed}\n" + "\n".join(map(str, failed[:10]))
