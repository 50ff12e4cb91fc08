"""kill -9 of any single process of a sharded cluster at any moment: nothing acknowledged is lost, everything converges.

A loader inserts posts through both routers at w:"majority" without pause while, round after round, one process chosen
at random is killed and started again. The seed is in every failure; DOCSTORE_SEED replays it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from contextlib import closing
from typing import Any

import pymongo
import pytest
from bson.objectid import ObjectId
from pymongo.errors import BulkWriteError, PyMongoError

from scripts.deployment import Deployment, Member, replica_set, stopped_at_end
from tests.harness.deployment import ForkedDeployment
from tests.harness.waiting import wait_until

ROUNDS = 20
SETTINGS = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}
MAP = "function () { for (var i in this.tags) { emit(this.tags[i], 1) } }"
REDUCE = "function (key, values) { return Array.sum(values) }"


class Loader(threading.Thread):
    """Inserts batches until told to stop. A batch whose outcome is unknown is sent again with the same `_id`s."""

    def __init__(self, uri: str, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.uri = uri
        self.rng = rng
        self.stopping = threading.Event()
        self.acknowledged: dict[str, list[str]] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with closing(pymongo.MongoClient(self.uri, serverSelectionTimeoutMS=60_000)) as client:
                posts = client.test.get_collection("posts", write_concern=pymongo.WriteConcern("majority"))
                while not self.stopping.is_set():
                    batch = [self.post(len(self.acknowledged) + offset) for offset in range(50)]
                    self.insert(posts, batch)
                    self.acknowledged.update((post["id"], post["tags"]) for post in batch)
        except BaseException as failure:
            self.failure = failure

    def post(self, number: int) -> dict[str, Any]:
        tags = [f"tag{self.rng.randrange(10)}" for _ in range(self.rng.randint(1, 4))]
        return {"_id": ObjectId(), "id": str(number), "tags": tags}

    def insert(self, posts: Any, batch: list[dict[str, Any]]) -> None:
        end = time.monotonic() + 60
        again = False
        while True:
            try:
                posts.insert_many(batch, ordered=False)
            except BulkWriteError as error:
                rows = [row for row in error.details["writeErrors"] if not (again and row["code"] == 11000)]
                if not rows and not error.details["writeConcernErrors"]:
                    return
                if time.monotonic() > end:
                    raise
            except PyMongoError:
                if time.monotonic() > end:
                    raise
            else:
                return
            again = True

    def finish(self) -> dict[str, list[str]]:
        """Stop; what was acknowledged."""
        self.stopping.set()
        self.join(90)
        if self.failure is not None:
            raise self.failure
        assert not self.is_alive()
        return self.acknowledged


def start(deployment: Deployment) -> str:
    """Two sets of three, three config servers, two routers; gives the routers' URI."""
    config = [Member(f"config-{number}", "configsvr", []) for number in range(3)]
    sets = {name: replica_set(name, 3, []) for name in ("set_a", "set_b")}
    deployment.start(*config, *(member for members in sets.values() for member in members))
    for name, members in sets.items():
        rows = [{"_id": number, "host": member.address} for number, member in enumerate(members)]
        with closing(pymongo.MongoClient(members[0].address, directConnection=True)) as client:
            client.admin.command("replSetInitiate", {"_id": name, "members": rows, "settings": SETTINGS})
            wait_until(lambda client=client: client.admin.command("hello")["isWritablePrimary"], 30)
    configdb = ",".join(member.address for member in config)
    routers = [Member(f"router-{number}", "mongos", ["--configdb", configdb]) for number in range(2)]
    deployment.start(*routers)
    with closing(pymongo.MongoClient(routers[0].address)) as client:
        for name, members in sets.items():
            client.admin.command("addShard", f"{name}/{','.join(member.address for member in members)}")
        client.admin.command("shardCollection", "test.posts", key={"id": 1})
        client.admin.command("split", "test.posts", middle={"id": "5"})
        client.admin.command("moveChunk", "test.posts", find={"id": "5"}, to="set_b")
    return "mongodb://" + ",".join(router.address for router in routers) + "/"


def set_settled(deployment: Deployment, name: str) -> bool:
    """Whether all members of a set are up, one is primary, and all have the same data."""
    hashes, primaries = set(), 0
    for member in deployment.members.values():
        if member.name.startswith(f"{name}-"):
            try:
                with closing(
                    pymongo.MongoClient(member.address, directConnection=True, serverSelectionTimeoutMS=2000)
                ) as client:
                    hello = client.admin.command("hello")
                    primaries += hello["isWritablePrimary"]
                    if not hello["isWritablePrimary"] and not hello["secondary"]:
                        return False
                    hashes.add(client.test.command("dbHash")["md5"])
            except PyMongoError:
                return False
    return primaries == 1 and len(hashes) == 1


@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_nothing_acknowledged_is_lost_when_any_process_is_killed_at_any_moment(tmp_path):
    seed = int(os.environ.get("DOCSTORE_SEED", random.SystemRandom().randrange(2**32)))
    rng = random.Random(seed)
    with stopped_at_end(ForkedDeployment(tmp_path)) as deployment:
        uri = start(deployment)
        loader = Loader(uri, random.Random(seed + 1))
        loader.start()
        victims = []
        for _ in range(ROUNDS):
            before = len(loader.acknowledged)
            moment = before + rng.randrange(1, 400)
            wait_until(lambda moment=moment: len(loader.acknowledged) >= moment or loader.failure, 90)
            victims.append(rng.choice(sorted(deployment.members)))
            deployment.kill(victims[-1])
            deployment.restart(victims[-1])
        acknowledged = loader.finish()
        where = f"seed {seed}, victims {victims}"
        with closing(pymongo.MongoClient(uri, serverSelectionTimeoutMS=60_000)) as client:
            seen = Counter(row["id"] for row in client.test.posts.find({}, {"id": 1, "_id": 0}))
            lost = acknowledged.keys() - seen.keys()
            assert not lost, f"{len(lost)} acknowledged posts lost; {where}"
            assert max(seen.values()) == 1, f"posts found twice; {where}"
            reply = client.test.command("mapReduce", "posts", map=MAP, reduce=REDUCE, out={"inline": 1})
            tally = Counter(tag for tags in acknowledged.values() for tag in tags)
            assert {row["_id"]: row["value"] for row in reply["results"]} == dict(tally), where
        for name in ("set_a", "set_b"):
            wait_until(lambda name=name: set_settled(deployment, name), 60)
