"""kill -9 of donor, recipient, config server or router while a chunk of a column family moves and rows are written.

Each round moves a chunk, kills one process at a moment drawn from the seed, starts it again and waits until nothing is
left to do; in the end everything is counted. DOCSTORE_SEED replays a failure.
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pymongo
import pytest
from bson.int64 import Int64
from pymongo.errors import PyMongoError

from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
ROWS = 300
COLUMNS = 4
VICTIMS = ("one-0", "two-0", "config-0", "router-0")


class Writer(threading.Thread):
    """Writes ever higher timestamps to rows; remembers of each the last acknowledged and the last that was tried."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self._address = cluster.deployment.members["router-0"].address
        self._stopping = threading.Event()
        self.acknowledged = dict.fromkeys(range(ROWS), 0)
        self.tried = dict.fromkeys(range(ROWS), 0)
        self.removed: set[int] = set()

    def run(self) -> None:
        with pymongo.MongoClient(self._address, serverSelectionTimeoutMS=2000) as client:
            count = 0
            while not self._stopping.is_set():
                count += 1
                number = count * 101 % ROWS
                self.tried[number] = count
                column = {"column": "n", "value": str(count), "timestamp": Int64(count)}
                try:
                    client.ks.command({"wcInsert": "F", "key": f"r{number}", **column})
                    if count % 7 == 0:
                        remove = {"wcRemove": "F", "key": f"r{number}", "column": "c0", "timestamp": Int64(count)}
                        client.ks.command(remove)
                        self.removed.add(number)
                except PyMongoError:
                    continue
                self.acknowledged[number] = count

    def finish(self) -> None:
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()


def rows(client: pymongo.MongoClient[dict[str, Any]]) -> dict[str, dict[bytes, bytes]]:
    """Every row with its columns."""
    command = {"wcGetRangeSlices": "F", "predicate": {"sliceRange": {}}, "count": 10 * ROWS}
    found = client.ks.command(command)["rows"]
    shown = {row["key"]: {column["name"]: column["value"] for column in row["columns"]} for row in found}
    assert len(shown) == len(found)
    return shown


def unfinished(cluster: Cluster) -> list[Any]:
    left: list[Any] = []
    for name in ("one-0", "two-0"):
        address = cluster.deployment.members[name].address
        with pymongo.MongoClient(address, directConnection=True, serverSelectionTimeoutMS=2000) as client:
            for collection in ("migrationCoordinators", "rangeDeletions"):
                left += client.config[collection].find()
    return left


def settled(cluster: Cluster) -> bool:
    try:
        return not unfinished(cluster)
    except PyMongoError:
        return False


def check(cluster: Cluster, writer: Writer) -> None:
    found = rows(cluster.clients[1])
    assert sorted(found) == sorted(f"r{number}" for number in range(ROWS))
    for number in range(ROWS):
        columns = found[f"r{number}"]
        assert writer.acknowledged[number] <= int(columns.get(b"n", b"0")) <= writer.tried[number], number
        assert number not in writer.removed or b"c0" not in columns
        assert {b"c1", b"c2", b"c3"} <= columns.keys()
    held: list[str] = []
    for name in ("one-0", "two-0"):
        address = cluster.deployment.members[name].address
        with closing(pymongo.MongoClient(address, directConnection=True)) as client:
            held += rows(client)
    assert sorted(held) == sorted(found)


@pytest.mark.timeout(240)
def test_every_row_is_there_once_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    seed = int(os.environ.get("DOCSTORE_SEED") or random.SystemRandom().randrange(2**32))
    rng = random.Random(seed)
    with routed_cluster(tmp_path) as cluster:
        cluster.client.admin.command({"createKeyspace": "ks"})
        cluster.client.ks.command({"createColumnFamily": "F"})
        mutations = [
            {"key": f"r{row}", "columnFamily": "F", "insert": {"name": f"c{column}", "value": "x" * 300}}
            for row in range(ROWS)
            for column in range(COLUMNS)
        ]
        for each in mutations:
            each["insert"]["timestamp"] = Int64(0)
        cluster.client.ks.command({"wcBatchMutate": 1, "mutations": mutations})
        writer = Writer(cluster)
        writer.start()
        for victim in VICTIMS:
            chunk = rng.choice(list(cluster.clients[1].config.chunks.find({"ns": "ks.F"})))

            def move(chunk: dict[str, Any] = chunk) -> None:
                to = "one" if chunk["shard"] == "two" else "two"
                try:
                    cluster.clients[1].admin.command("moveChunk", "ks.F", bounds=[chunk["min"], chunk["max"]], to=to)
                except PyMongoError:
                    return

            moving = threading.Thread(target=move, daemon=True)
            moving.start()
            time.sleep(rng.uniform(0.0, 0.4))
            cluster.deployment.kill(victim)
            cluster.deployment.restart(victim)
            moving.join(60)
            assert not moving.is_alive(), f"DOCSTORE_SEED={seed}: the move does not end after {victim} was killed"
            wait_until(lambda: settled(cluster), 60)
        writer.finish()
        try:
            check(cluster, writer)
        except AssertionError as error:
            raise AssertionError(f"DOCSTORE_SEED={seed}") from error
        assert max(writer.acknowledged.values()) > 0
