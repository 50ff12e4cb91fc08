"""The console of a router of a cluster whose clients log in."""

from __future__ import annotations

import base64
import json
import re
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from docstore.console.guard import MARK
from scripts.deployment import Member
from tests.cluster.routed import routed_cluster

pytestmark = pytest.mark.cluster


class Client:
    def __init__(self, url: str) -> None:
        self.url = url
        self.cookie = ""
        self.key = "none"

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json", MARK: self.key, "Cookie": self.cookie}
        request = urllib.request.Request(f"{self.url}/api/{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request) as answer:
            self.cookie = (answer.headers["Set-Cookie"] or self.cookie).partition(";")[0]
            found: dict[str, Any] = json.load(answer)
        return found

    def log_in(self, user: str, password: str) -> None:
        self.key = self.post("login", {"user": user, "password": password, "db": "admin"})["key"]

    def command(self, command: dict[str, Any], db: str = "admin") -> dict[str, Any]:
        return self.post("command", {"db": db, "command": command})

    def metrics(self, user: str, password: str) -> str:
        told = base64.b64encode(f"{user}:{password}".encode()).decode()
        request = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": f"Basic {told}"})
        with urllib.request.urlopen(request) as answer:
            return str(answer.read().decode())


def test_a_router_knows_its_users_and_passes_on_who_they_are(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("secret of the cluster")
    key.chmod(0o600)
    with routed_cluster(tmp_path / "cluster", key_file=key) as cluster:
        config = cluster.deployment.members["config-0"]
        arguments = ["--configdb", config.address, "--keyFile", str(key), "--httpPort", "0"]
        router = Member("console", "mongos", arguments)
        cluster.deployment.start(router)
        port = re.search(r'"msg":"Console".*?"port":(\d+)', cluster.deployment.output_of(router).read_text())
        assert port is not None
        admin = cluster.client.admin
        admin.command("createUser", "monitor", pwd="look", roles=["clusterMonitor"])
        admin.command("createUser", "reader", pwd="read", roles=[{"role": "read", "db": "test"}])
        orders = cluster.shard("orders", {"n": 1})
        orders.insert_many({"n": number} for number in range(10))
        cluster.split_and_move("orders", {"n": 5})
        client = Client(f"http://127.0.0.1:{port[1]}")
        with pytest.raises(HTTPError) as refused:
            client.command({"ping": 1})
        refused.value.close()
        assert refused.value.code == 401
        client.log_in("reader", "read")
        counted = client.command({"aggregate": "orders", "pipeline": [{"$count": "n"}], "cursor": {}}, "test")
        assert counted["cursor"]["firstBatch"] == [{"n": {"$numberInt": "10"}}]
        for command, db in (({"find": "chunks"}, "config"), ({"connPoolStats": 1}, "admin"),
                            ({"insert": "orders", "documents": [{"n": 1}]}, "test")):  # fmt: skip
            assert client.command(command, db)["codeName"] == "Unauthorized"
        with pytest.raises(HTTPError) as refused:
            client.metrics("reader", "read")
        refused.value.close()
        assert refused.value.code == 403
        text = client.metrics("monitor", "look")
        assert 'docstore_sharding_chunks{collection="test.orders",shard="two"} 1.0' in text
        assert "docstore_scrape_failed{" not in text
        assert f'docstore_sharding_member_up{{member="{config.address}"' in text
        client.log_in("monitor", "look")
        own = {"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": True}}], "cursor": {}}
        for command, db in (({"find": "changelog"}, "config"), ({"balancerStatus": 1}, "admin"), (own, "admin"),
                            ({"getLog": "global"}, "admin"), ({"getShardMap": 1}, "admin")):  # fmt: skip
            assert client.command(command, db)["ok"] == {"$numberDouble": "1.0"}, command
