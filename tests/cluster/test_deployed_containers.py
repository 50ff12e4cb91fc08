"""What scripts/deploy/docker starts: each service serves, and the set-up makes a cluster of them, once."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pymongo
import pytest
import yaml

from scripts.deployment import Member, stopped_at_end
from tests.harness.deployment import ForkedDeployment

pytestmark = pytest.mark.cluster
FILES = Path(__file__).parents[2] / "scripts" / "deploy" / "docker"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((FILES / "compose.yml").read_text())["services"]
_HOST = re.compile(r"\b(shard\d-[abc]|config|router):27017\b")


def server(name: str, addresses: dict[str, str]) -> Member:
    """A service as a process of this machine; `addresses` of those that are there by now."""
    program, *arguments = shlex.split(_HOST.sub(lambda found: addresses[found[1]], SERVICES[name]["command"]))
    for option in ("--port", "--dbpath"):
        if option in arguments:
            place = arguments.index(option)
            assert arguments[place + 1] in ("27017", "/data")
            del arguments[place : place + 2]
    # Here nothing but this machine is to reach it.
    arguments.remove("--bind_ip_all")
    return Member(name, program, arguments)


def test_the_services_become_a_cluster(tmp_path: Path) -> None:
    addresses: dict[str, str] = {}
    with stopped_at_end(ForkedDeployment(tmp_path / "nodes")) as deployment:
        nodes = [server(name, addresses) for name in SERVICES if name not in ("router", "setup")]
        deployment.start(*nodes)
        addresses |= {node.name: node.address for node in nodes}
        router = server("router", addresses)
        deployment.start(router)
        addresses["router"] = router.address
        script = tmp_path / "setup.js"
        # The script puts its hosts together; here each is looked up.
        text = (FILES / "setup.js").read_text()
        looked_up = text.replace("`${shard}-${letter}:27017`", "ADDRESSES[`${shard}-${letter}`]")
        assert looked_up != text
        script.write_text(f"const ADDRESSES = {addresses};\n{looked_up}")
        program, *arguments = shlex.split(SERVICES["setup"]["command"])
        assert (program, arguments) == ("mongo", ["--quiet", "router:27017", "/setup.js"])
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-m", "shell", "--quiet", router.address, str(script)], capture_output=True, text=True,
                timeout=60, check=False,
            )  # fmt: skip
            assert (done.returncode, done.stdout) == (0, "shards: shard1, shard2\n"), done.stdout + done.stderr
        with pymongo.MongoClient(router.address) as client:
            shards = client.admin.command("listShards")["shards"]
            assert [len(shard["host"].split(",")) for shard in shards] == [3, 3]
            client.test.c.insert_one({"_id": 1})


def test_the_image_runs_what_the_services_name() -> None:
    lines = (FILES / "Dockerfile").read_text().splitlines()
    [command] = [line for line in lines if line.startswith("CMD ")]
    assert command == 'CMD ["mongod", "--dbpath", "/data", "--bind_ip_all", "--auth"]'
    assert {service["image"] for service in SERVICES.values()} == {"docstore"}
    for service in SERVICES.values():
        if "build" in service:
            context = (FILES / service["build"]["context"]).resolve()
            assert (context / service["build"]["dockerfile"]) == FILES / "Dockerfile"
            assert (context / "setup.cfg").exists()
