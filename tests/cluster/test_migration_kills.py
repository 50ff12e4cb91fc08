"""kill -9 of donor, recipient or config server at a random moment of a migration under load.

Each round moves a chunk, kills one process at a moment drawn from the seed, starts it again, waits until nothing is
left to do, and counts. DOCSTORE_SEED replays a failure.
"""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import PyMongoError

from tests.cluster.two_shards import Router, TwoShards, Unknown, two_shards

pytestmark = pytest.mark.cluster
DOCUMENTS = 2000
ROUNDS = 12


class Writer(threading.Thread):
    """Replaces documents with ever higher numbers; remembers per id the last acknowledged and what is unknown.

    `found` is what each document holds now: a number that is tried is higher than any before, so that what a kill left
    unknown lies between the last acknowledged and the last tried also where an earlier writer wrote the document.
    """

    def __init__(self, cluster: TwoShards, found: dict[int, int]) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._stopping = threading.Event()
        self._count = max(found.values())
        self.acknowledged = dict(found)
        self.tried = dict(found)
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with Router(self._cluster) as router:
                count = self._count
                while not self._stopping.is_set():
                    count += 1
                    number = count * 1013 % DOCUMENTS
                    self.tried[number] = count
                    change = {"q": {"id": number}, "u": {"$set": {"n": count}}}
                    try:
                        reply = router.write({"update": "test", "updates": [change]}, number)
                    except Unknown:
                        continue
                    assert reply["n"] == 1, (number, reply)
                    self.acknowledged[number] = count
        except BaseException as failure:
            self.failure = failure

    def finish(self) -> None:
        self._stopping.set()
        self.join(90)
        if self.failure is not None:
            raise self.failure


def one_round(cluster: TwoShards, rng: random.Random, to: str) -> str:
    """Move the upper chunk while a process is killed; who was."""

    def move() -> None:
        try:
            cluster.move(DOCUMENTS // 2, to)
        except PyMongoError:
            return

    moving = threading.Thread(target=move, daemon=True)
    moving.start()
    time.sleep(rng.uniform(0.0, 0.5))
    victim = rng.choice(["shard1", "shard2", "config"])
    cluster.deployment.kill(victim)
    cluster.deployment.restart(victim)
    moving.join(90)
    assert not moving.is_alive(), f"the move does not end after {victim} was killed"
    cluster.settle()
    return victim


def check(cluster: TwoShards, writer: Writer) -> None:
    with Router(cluster) as router:
        rows = router.find_all()
        assert sorted(row["id"] for row in rows) == list(range(DOCUMENTS))
        for row in rows:
            number = row["id"]
            assert writer.acknowledged[number] <= row["n"] <= writer.tried[number]
        for shard in ("shard1", "shard2"):
            with cluster.client(shard) as client:
                for row in client.test.test.find({}, {"id": 1}):
                    assert router.chunk(row["id"]).shard == shard


@pytest.mark.timeout(300)
def test_every_document_is_visible_exactly_once_after_a_kill_at_any_moment(tmp_path: Path) -> None:
    seed = int(os.environ.get("DOCSTORE_SEED") or random.SystemRandom().randrange(2**32))
    rng = random.Random(seed)
    with two_shards(tmp_path) as cluster:
        with Router(cluster) as router:
            rows: list[dict[str, Any]] = [{"_id": n, "id": n, "text": "x" * 500, "n": 0} for n in range(DOCUMENTS)]
            router.write({"insert": "test", "documents": rows}, 0)
        cluster.split(DOCUMENTS // 2)
        story: list[str] = []
        for number in range(ROUNDS):
            with Router(cluster) as router:
                writer = Writer(cluster, {row["id"]: row["n"] for row in router.find_all()})
            writer.start()
            victim = one_round(cluster, rng, "shard2" if number % 2 == 0 else "shard1")
            story.append(victim)
            try:
                writer.finish()
                check(cluster, writer)
            except AssertionError as error:
                raise AssertionError(f"DOCSTORE_SEED={seed}, killed so far: {story}") from error
