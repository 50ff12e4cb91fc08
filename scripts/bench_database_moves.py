"""A database of many unsharded collections gets another primary shard, there and back, under load.

Clients in processes of their own insert and update documents of all collections at w:1, as many a second as are asked
for or as get done; others have transactions, and one follows a change stream of the database. Printed are how many
writes were done, how long the longest of each kind took, what each process used of the processors (who is the limit:
clients, router or shards), and what does not hold: each acknowledged insert must be there, each increment be counted
once, money stay the same, and the follower's copy be what the database is.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pymongo

from scripts.bench_routing import Processes
from scripts.deployment import Deployment, stopped_at_end
from scripts.measuring import processor_seconds
from tests.checkers.change_events import Copy

DATABASE = "many"
COLLECTIONS = 100
DOCUMENTS = 20
"""Of each collection that are updated."""
ACCOUNTS, BALANCE = 10, 100
WRITES_PER_SECOND = 500
PROCESSES, THREADS = 2, 6
CALM_SECONDS = 3.0
PAUSE_SECONDS = 3.0
"""Between one move and the next."""
FOLLOW_SECONDS = 60.0
"""How long the follower may be behind in the end."""
NAMES = [f"c{number}" for number in range(COLLECTIONS)]
Client = pymongo.MongoClient[dict[str, Any]]


@dataclass
class Work:
    """What a process of clients has done and was told. `longest`: seconds, by kind."""

    processor_seconds: float = 0.0
    inserted: list[tuple[str, str]] = field(default_factory=list)
    increments: Counter[tuple[str, int]] = field(default_factory=Counter)
    transfers: int = 0
    longest: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def timed(self, kind: str, work: Any) -> None:
        began = time.perf_counter()
        work()
        self.longest[kind] = max(self.longest.get(kind, 0.0), time.perf_counter() - began)


def run_clients(address: str, process: int, ended: Event, done: Any, told: Any) -> None:
    """Write until it is ended, then put what was done into `told`. `done` counts the writes meanwhile."""
    works = [Work() for _ in range(THREADS + 1)]
    with Client(address, maxPoolSize=THREADS + 1) as client:
        threads = [
            threading.Thread(target=_guarded, args=(_write, client, f"{process}-{thread}", ended, done, works[thread]))
            for thread in range(THREADS)
        ]
        threads.append(threading.Thread(target=_guarded, args=(_transfer, client, process, ended, done, works[-1])))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    whole = Work(processor_seconds=time.process_time())
    for work in works:
        whole.inserted += work.inserted
        whole.increments += work.increments
        whole.transfers += work.transfers
        whole.errors += work.errors
        for kind, seconds in work.longest.items():
            whole.longest[kind] = max(whole.longest.get(kind, 0.0), seconds)
    told.put(whole)


def _guarded(work: Any, client: Client, number: Any, ended: Event, done: Any, noted: Work) -> None:
    try:
        work(client, number, ended, done, noted)
    except pymongo.errors.PyMongoError as error:
        noted.errors.append(repr(error)[:300])


def _write(client: Client, number: str, ended: Event, done: Any, noted: Work) -> None:
    """Inserts and updates by turns, at the pace of this thread's share."""
    database = client.get_database(DATABASE, write_concern=pymongo.WriteConcern(1))
    share, due = PROCESSES * THREADS / WRITES_PER_SECOND, time.monotonic()
    for turn in itertools.count(hash(number) % COLLECTIONS):
        if ended.is_set():
            return
        name, key = NAMES[turn % COLLECTIONS], turn // 2 % DOCUMENTS
        if turn % 2:
            noted.timed(
                "update", lambda name=name, key=key: database[name].update_one({"_id": key}, {"$inc": {"n": 1}})
            )
            noted.increments[name, key] += 1
        else:
            made = {"_id": f"{number} {turn}", "n": 0}
            noted.timed("insert", lambda name=name, made=made: database[name].insert_one(made))
            noted.inserted.append((name, made["_id"]))
        with done.get_lock():
            done.value += 1
        due = max(due + share, time.monotonic() - 1.0)
        if (early := due - time.monotonic()) > 0:
            ended.wait(early)


def _transfer(client: Client, process: int, ended: Event, _done: Any, noted: Work) -> None:
    """Money from one account to another, one transaction after the other."""
    database = client[DATABASE]
    while not ended.is_set():
        number = noted.transfers
        source, target = (number + process) % ACCOUNTS, (number * 7 + 3) % ACCOUNTS

        def body(session: Any, source: int = source, target: int = target, number: int = number) -> None:
            database.accounts.update_one({"_id": source}, {"$inc": {"n": -1}}, session=session)
            database.accounts.update_one({"_id": target}, {"$inc": {"n": 1}}, session=session)
            database.transfers.insert_one({"_id": f"{process} {number}"}, session=session)

        with client.start_session() as session:
            noted.timed("transaction", lambda session=session, body=body: session.with_transaction(body))
        noted.transfers += 1
        ended.wait(0.05)


class Follower:
    """A thread that applies what a change stream of the database tells to a copy."""

    def __init__(self, client: Client) -> None:
        self.copy = Copy()
        self._stream = client[DATABASE].watch(batch_size=1000, max_await_time_ms=100)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ended.is_set():
            event = self._stream.try_next()
            if event is not None:
                self.copy.take(event)

    def end(self, shown: dict[str, list[dict[str, Any]]]) -> list[str]:
        """What the copy does not have as it is, once it had time to catch up."""
        give_up = time.monotonic() + FOLLOW_SECONDS
        while time.monotonic() < give_up and self.copy.differences(shown):
            time.sleep(1.0)
        self._ended.set()
        self._thread.join()
        self._stream.close()
        return [str(each) for each in (*self.copy.anomalies, *self.copy.differences(shown))]


def wrong(works: list[Work], shown: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What does not hold of what the clients were told."""
    found = [error for work in works for error in work.errors]
    stored = {name: {row["_id"]: row["n"] for row in rows} for name, rows in shown.items() if name in NAMES}
    for name, key in (each for work in works for each in work.inserted):
        if key not in stored[name]:
            found.append(f"{key} of {name} is lost")
    increments = sum((work.increments for work in works), Counter[tuple[str, int]]())
    for name in NAMES:
        for key in range(DOCUMENTS):
            if stored[name][key] != increments[name, key]:
                found.append(f"{key} of {name} has {stored[name][key]} increments of {increments[name, key]}")
    if sum(row["n"] for row in shown["accounts"]) != ACCOUNTS * BALANCE:
        found.append("money was made, or lost")
    if len(shown["transfers"]) != sum(work.transfers for work in works):
        found.append(f"{len(shown['transfers'])} transfers of {sum(work.transfers for work in works)}")
    return found


def measure(directory: Path, members: int, rounds: int) -> None:
    """Print what there is to tell of so many moves."""
    with stopped_at_end(Deployment(directory / f"database{members}")) as deployment:
        processes = Processes(deployment, members)
        router = processes.router
        router.admin.command("enableSharding", DATABASE, primaryShard="shard0")
        database = router[DATABASE]
        follower = Follower(router)
        for name in NAMES:
            database[name].insert_many([{"_id": number, "n": 0} for number in range(DOCUMENTS)])
            database[name].create_index("n")
        database.accounts.insert_many([{"_id": number, "n": BALANCE} for number in range(ACCOUNTS)])
        spawning = multiprocessing.get_context("spawn")
        ended, done, told = spawning.Event(), spawning.Value("q", 0), spawning.Queue()
        address = deployment.members["router"].address
        clients = [
            spawning.Process(target=run_clients, args=(address, number, ended, done, told))
            for number in range(PROCESSES)
        ]
        for each in clients:
            each.start()
        while done.value < 100:
            time.sleep(0.1)
        pids = {name: member.pid for name, member in deployment.members.items()}

        def watch(what: str, work: Any) -> None:
            spent, count, began = (
                {name: processor_seconds(pid) for name, pid in pids.items()},
                done.value,
                time.monotonic(),
            )
            own = sum(processor_seconds(each.pid or 0) for each in clients)
            work()
            seconds = time.monotonic() - began
            writes = max(done.value - count, 1)
            used = {name: processor_seconds(pid) - spent[name] for name, pid in pids.items()}
            used["clients"] = sum(processor_seconds(each.pid or 0) for each in clients) - own
            parts = ", ".join(f"{name} {value / seconds:.2f}" for name, value in used.items() if value > 0.02 * seconds)
            print(f"  {what:18}{seconds:7.2f} s {writes / seconds:7.0f} writes/s; processors: {parts}", flush=True)

        print(f"{members}-member shards, a database of {COLLECTIONS} collections; load {os.getloadavg()[0]:.1f}")
        try:
            watch("before", lambda: time.sleep(CALM_SECONDS))
            for turn in range(2 * rounds):
                to = f"shard{(turn + 1) % 2}"
                watch(f"move to {to}", lambda to=to: router.admin.command("movePrimary", DATABASE, to=to))
                watch("after", lambda: time.sleep(PAUSE_SECONDS))
        finally:
            ended.set()
        works = [told.get() for _ in clients]
        for each in clients:
            each.join()
        shown = {name: list(database[name].find()) for name in (*NAMES, "accounts", "transfers")}
        found = [*wrong(works, shown), *follower.end(shown)]
        for kind in sorted({kind for work in works for kind in work.longest}):
            print(f"  longest {kind:12}{max(work.longest.get(kind, 0.0) for work in works) * 1000:8.0f} ms")
        inserts, transfers = sum(len(work.inserted) for work in works), sum(work.transfers for work in works)
        print(f"  {inserts} inserts, {transfers} transactions, {follower.copy.taken} events; wrong: {len(found)}")
        for text in found[:10]:
            print(f"    {text}")
