"""A database of many collections gets another primary shard while it is written to, by transactions too, and followed.

DOCSTORE_MOVED_COLLECTIONS says how many collections there are.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pytest

from tests.checkers.change_events import Copy
from tests.cluster.routed import Cluster, routed_cluster
from tests.harness.waiting import wait_until

pytestmark = pytest.mark.cluster
COLLECTIONS = int(os.environ.get("DOCSTORE_MOVED_COLLECTIONS", "30"))
DOCUMENTS = 20
ACCOUNTS = 10
WRITERS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with routed_cluster(tmp_path_factory.mktemp("moved")) as cluster:
        cluster.client.admin.command("balancerStop")
        yield cluster


class Work:
    """Threads that act until they are ended. `slowest`: the longest operation of each, in seconds."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.slowest: dict[str, float] = {}
        self.counts: dict[str, int] = {}
        self.errors: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def start(self, name: str, act: Callable[[int], Any]) -> None:
        def run() -> None:
            number = 0
            try:
                while not self.over.is_set():
                    began = time.monotonic()
                    act(number)
                    self.slowest[name] = max(self.slowest.get(name, 0.0), time.monotonic() - began)
                    number += 1
            except BaseException as error:
                self.errors.append(error)
            self.counts[name] = number

        thread = threading.Thread(target=run, name=name)
        self._threads.append(thread)
        thread.start()

    def end(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join()
        assert self.errors == []


def test_a_database_moves_under_writes_transactions_and_a_stream(cluster: Cluster, capsys: Any) -> None:
    cluster.client.admin.command("enableSharding", "busy", primaryShard="one")
    databases = [client["busy"] for client in cluster.clients]
    names = [f"c{number}" for number in range(COLLECTIONS)]
    copy = Copy()
    with databases[0].watch(batch_size=1000, max_await_time_ms=50) as stream:
        for name in names:
            databases[0][name].insert_many([{"_id": number, "n": 0} for number in range(DOCUMENTS)])
            databases[0][name].create_index("n")
        databases[0].accounts.insert_many([{"_id": number, "n": 100} for number in range(ACCOUNTS)])
        inserted: list[list[tuple[str, str]]] = [[] for _ in range(WRITERS)]
        work = Work()

        def writer(which: int) -> Callable[[int], None]:
            database = databases[which % len(databases)]

            def act(number: int) -> None:
                name = names[(which + number) % len(names)]
                if number % 2:
                    assert database[name].update_one({"_id": number % DOCUMENTS}, {"$inc": {"n": 1}}).matched_count
                else:
                    key = f"{which} {number}"
                    database[name].insert_one({"_id": key, "n": number})
                    inserted[which].append((name, key))

            return act

        def transfer(number: int) -> None:
            source, target = number % ACCOUNTS, (number * 7 + 3) % ACCOUNTS

            def body(session: Any) -> None:
                accounts = databases[0].accounts
                accounts.update_one({"_id": source}, {"$inc": {"n": -1}}, session=session)
                accounts.update_one({"_id": target}, {"$inc": {"n": 1}}, session=session)
                databases[0].moves.insert_one({"_id": number, "by": [source, target]}, session=session)

            with cluster.clients[0].start_session() as session:
                session.with_transaction(body)

        def check_sum(_number: int) -> None:
            with cluster.clients[1].start_session(snapshot=True) as session:
                assert sum(row["n"] for row in databases[1].accounts.find(session=session)) == 100 * ACCOUNTS

        def follow(_number: int) -> None:
            event = stream.try_next()
            if event is not None:
                copy.take(event)

        for which in range(WRITERS):
            work.start(f"writer {which}", writer(which))
        work.start("transactions", transfer)
        work.start("snapshots", check_sum)
        work.start("stream", follow)
        seconds = []
        for to in ("two", "one"):
            began = time.monotonic()
            cluster.clients[1].admin.command("movePrimary", "busy", to=to)
            seconds.append(time.monotonic() - began)
            assert cluster.client.config.databases.find_one({"_id": "busy"})["primary"] == to
        work.end()
        shown: dict[str, list[dict[str, Any]]] = {
            name: list(databases[1][name].find()) for name in (*names, "accounts", "moves")
        }
        give_up = time.monotonic() + 30
        while copy.differences(shown) and time.monotonic() < give_up:
            follow(0)
    assert copy.anomalies == []
    assert copy.differences(shown) == []
    for name, key in (each for listed in inserted for each in listed):
        assert any(row["_id"] == key for row in shown[name]), f"{key} of {name} is lost"
    assert sum(row["n"] for row in shown["accounts"]) == 100 * ACCOUNTS
    assert len(shown["moves"]) == work.counts["transactions"]
    hosts = {row["_id"]: row["host"].partition("/")[2] for row in cluster.client.config.shards.find()}
    with pymongo.MongoClient(hosts["two"], directConnection=True) as old:
        wait_until(lambda: old["busy"].list_collection_names() == [], 20)
    with capsys.disabled():
        slowest = {name: round(value, 3) for name, value in sorted(work.slowest.items())}
        print(f"\n{COLLECTIONS} collections moved in {[round(each, 2) for each in seconds]} s; slowest of each:")
        print(f"{slowest}; operations: {work.counts}")
