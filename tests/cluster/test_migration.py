"""Chunks that move between real processes under load."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest

from tests.cluster.two_shards import NAMESPACE, Router, TwoShards, two_shards
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
DOCUMENTS = 3000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoShards]:
    with two_shards(tmp_path_factory.mktemp("migration"), members=2) as running:
        rows: list[dict[str, Any]] = [{"_id": n, "id": n, "text": "x" * 200, "n": 0} for n in range(DOCUMENTS)]
        with Router(running) as router:
            for start in range(0, DOCUMENTS, 1000):
                router.write({"insert": "test", "documents": rows[start : start + 1000]}, start)
        running.split(1000)
        yield running


class Increments(threading.Thread):
    """Increments documents one after another until told to stop; `done` counts by id what was acknowledged."""

    def __init__(self, cluster: TwoShards) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._stopping = threading.Event()
        self.done: Counter[int] = Counter()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with Router(self._cluster) as router:
                number = 0
                while not self._stopping.is_set():
                    number = (number + 1013) % DOCUMENTS
                    change = {"q": {"id": number}, "u": {"$inc": {"n": 1}}}
                    reply = router.write({"update": "test", "updates": [change]}, number)
                    assert reply["nModified"] == 1, (number, reply)
                    self.done[number] += 1
        except BaseException as failure:
            self.failure = failure

    def finish(self) -> Counter[int]:
        self._stopping.set()
        self.join(60)
        if self.failure is not None:
            raise self.failure
        return self.done


def test_a_chunk_moves_there_and_back_under_writes_without_losing_or_doubling_one(cluster: TwoShards) -> None:
    with Router(cluster) as router:
        before = {row["id"]: row["n"] for row in router.find_all()}
        writer = Increments(cluster)
        writer.start()
        for to in ("shard2", "shard1", "shard2"):
            seen = sum(writer.done.values())
            wait_until(lambda seen=seen: sum(writer.done.values()) > seen or writer.failure, 20)
            cluster.move(1000, to)
            rows = router.find_all()
            assert len(rows) == len({row["id"] for row in rows}) == DOCUMENTS
        done = writer.finish()
        rows = router.find_all()
        assert {row["id"]: row["n"] - before[row["id"]] for row in rows} == {n: done[n] for n in range(DOCUMENTS)}
        cluster.settle()
        with cluster.client("shard1") as client:
            assert client.test.test.count_documents({"id": {"$gte": 1000}}) == 0


def test_a_secondary_hides_what_its_shard_has_given_away(cluster: TwoShards) -> None:
    cluster.move(1000, "shard1")
    with cluster.member("shard1-1") as secondary, Router(cluster) as router:
        options: Any = {"read_preference": pymongo.ReadPreference.SECONDARY}
        before = {"find": "test", "shardVersion": router.refresh().shard_version("shard1").to_document()}
        command = {**before, "batchSize": 100_000}
        rows = secondary.test.command(command, **options)["cursor"]["firstBatch"]
        assert len(rows) == DOCUMENTS
        cluster.move(1000, "shard2")
        fresh = {**command, "shardVersion": router.refresh().shard_version("shard1").to_document()}
        rows = secondary.test.command(fresh, **options)["cursor"]["firstBatch"]
        assert sorted(row["id"] for row in rows) == list(range(1000))
        with pytest.raises(pymongo.errors.OperationFailure) as caught:
            secondary.test.command(command, **options)
        assert caught.value.code == 13388
    with cluster.member("shard2-1") as secondary, Router(cluster) as router:
        version = router.refresh().shard_version("shard2").to_document()
        command = {"find": "test", "batchSize": 100_000, "shardVersion": version}
        rows = secondary.test.command(command, **options)["cursor"]["firstBatch"]
        assert sorted(row["id"] for row in rows) == list(range(1000, DOCUMENTS))


def test_a_move_under_way_survives_a_step_down_of_the_donor(cluster: TwoShards) -> None:
    """The old primary's request may end in any way; what counts is that one shard has each document in the end."""
    cluster.move(1000, "shard1")
    cluster.settle()
    with Router(cluster) as router:
        moving = threading.Thread(target=lambda: swallow(lambda: cluster.move(1000, "shard2")), daemon=True)
        moving.start()
        with cluster.client("shard1") as client:
            swallow(lambda: client.admin.command("replSetStepDown", 5, force=True))
        moving.join(60)
        cluster.settle()
        rows = router.find_all()
        assert len(rows) == len({row["id"] for row in rows}) == DOCUMENTS


def swallow(act: Any) -> None:
    """Do something whose outcome does not matter."""
    try:
        act()
    except pymongo.errors.PyMongoError:
        return


def test_the_reference_s_documents_are_there_for_people(cluster: TwoShards) -> None:
    with cluster.client("config") as client:
        collection = client.config.collections.find_one({"_id": NAMESPACE})
        assert collection is not None
        chunks = list(client.config.chunks.find({"uuid": collection["uuid"]}).sort("min", 1))
        assert [row["ns"] for row in chunks] == [NAMESPACE, NAMESPACE]
        what = set(client.config.changelog.distinct("what"))
        assert {"split", "moveChunk.start", "moveChunk.commit", "moveChunk.from"} <= what
