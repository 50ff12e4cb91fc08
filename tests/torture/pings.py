"""Long work of a set's members, with a ping of each beside it: how long a member keeps others waiting.

Each member is pinged from a process of its own, so that what measures does not wait for what works. An idle node that
is no member is pinged too: what its pings take is the machine's and not ours.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pymongo
from bson.raw_bson import RawBSONDocument

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.pinger import ping

ROLLED_BACK = 100_000
MANY = 1_000_000
_SECONDS = 120.0
_PAUSE = 0.002

Client = pymongo.MongoClient[RawBSONDocument]


def measure_pings(directory: Path) -> None:
    """Print a line for each kind of work and each node."""
    with stopped_at_end(Deployment(directory)) as deployment:
        members = [Member(f"member{n}", "mongod", ["--replSet", "pings"]) for n in range(3)]
        idle = Member("idle", "mongod", [])
        deployment.start(*members, idle)
        rows = [{"_id": n, "host": each.address} for n, each in enumerate(members)]
        # With a timeout so long that the primary writes alone until it is killed.
        config = {"_id": "pings", "members": rows, "settings": {"electionTimeoutMillis": 60_000}}
        with _client(members[0]) as client:
            client.admin.command({"replSetInitiate": config})
        _primary(members)
        _rollback(deployment, members, idle)
        _work(members, idle)
        _initial_sync(deployment, members, idle)


def _rollback(deployment: Deployment, members: list[Member], idle: Member) -> None:
    """A primary writes alone, dies, and finds another primary when it comes back."""
    old = _primary(members)
    others = [each for each in members if each is not old]
    with _client(old) as client:
        client.pings.c.insert_one({"_id": -1, "s": "x" * 100})
        for each in others:
            deployment.kill(each.name)
        with _pings({"primary": old, "idle": idle}, f"{ROLLED_BACK} inserts"):
            for at in range(0, ROLLED_BACK, 10_000):
                rows = [{"_id": n, "s": "x" * 100} for n in range(at, at + 10_000)]
                client.pings.get_collection("c", write_concern=pymongo.WriteConcern(1)).insert_many(rows)
    deployment.kill(old.name)
    deployment.start(*others)
    _wait(lambda: _steps_up(others[0]))
    source = _primary(others)
    with _client(source) as client:
        client.pings.other.insert_one({})
    deployment.start(old)
    with _pings({"rolls back": old, "source": source, "idle": idle}, f"rollback of {ROLLED_BACK} inserts"):
        _wait(lambda: _is_secondary(old) and _count(old, "c") == 1)


def _work(members: list[Member], idle: Member) -> None:
    """What a primary does in one go and its secondaries after it."""
    primary = _primary(members)
    nodes = {("primary" if each is primary else each.name): each for each in members} | {"idle": idle}
    everyone = pymongo.WriteConcern(3)
    with _client(primary) as client:
        database = client.get_database("pings", write_concern=everyone)
        rows = [{"_id": n, "s": "x" * 118} for n in range(100_000)]
        with _pings(nodes, f"one request of {len(rows)} inserts, 14 MB"):
            database.d.insert_many(rows)
        with _pings(nodes, "update and removal of as many"):
            database.d.update_many({}, {"$set": {"s": "y" * 118}})
            database.d.delete_many({})
        with _pings(nodes, f"{MANY} inserts"):
            for at in range(0, MANY, 10_000):
                database.e.insert_many([{"_id": n, "a": n % 1000, "s": "x" * 30} for n in range(at, at + 10_000)])
        with _pings(nodes, f"index of {MANY}"):
            database.e.create_index("a")
        with _pings(nodes, f"update of {MANY // 4}"):
            database.e.update_many({"_id": {"$lt": MANY // 4}}, {"$set": {"b": 1}})
        with _pings(nodes, "unique index and its drop"):
            database.e.create_index([("_id", 1), ("a", 1)], unique=True)
            database.e.drop_index("_id_1_a_1")


def _initial_sync(deployment: Deployment, members: list[Member], idle: Member) -> None:
    """A member that has lost its data, then the drop of what was copied."""
    primary = _primary(members)
    copied = next(each for each in members if each is not primary)
    deployment.kill(copied.name)
    fresh = Member(copied.name + "-again", "mongod", copied.arguments, port=copied.port)
    members[members.index(copied)] = fresh
    deployment.start(fresh)
    with _pings({"copies": fresh, "primary": primary, "idle": idle}, f"initial sync of {MANY}"):
        _wait(lambda: _is_secondary(fresh))
    with _client(primary) as client, _pings({"primary": primary, "copies": fresh, "idle": idle}, f"drop of {MANY}"):
        client.get_database("pings", write_concern=pymongo.WriteConcern(3)).drop_collection("e")
        end = time.monotonic() + 5
        while time.monotonic() < end:  # its space is given back behind the answer
            client.admin.command("ping")
            time.sleep(0.05)


@contextlib.contextmanager
def _pings(nodes: dict[str, Member], what: str) -> Iterator[None]:
    """Ping nodes while the body runs; then print what it took."""
    context = multiprocessing.get_context("spawn")
    running = []
    for name, node in nodes.items():
        ours, theirs = context.Pipe()
        process = context.Process(target=_ping_until_told, args=(node.port, theirs))
        process.start()
        ours.recv()
        running.append((name, ours, process))
    began = time.monotonic()
    try:
        yield
    finally:
        seconds = time.monotonic() - began
        print(f"{what}, {seconds:.1f} s", flush=True)
        for name, pipe, process in running:
            pipe.send(None)
            taken = pipe.recv()
            process.join()
            shown = [f"{taken[len(taken) * part // 1000] * 1000:7.1f}" for part in (500, 990, 999)]
            slow = sum(each > 0.1 for each in taken)
            longest = taken[-1] * 1000
            print(f"    {name:12} 50/99/99.9% {' '.join(shown)} ms, longest {longest:6.1f} ms, {slow} above 100 ms")


def _ping_until_told(port: int, pipe: Connection) -> None:
    """Seconds of each ping, in order, to the other end of the pipe."""
    taken = []
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipe.send(None)
        while not pipe.poll(_PAUSE):
            taken.append(ping(link))
    pipe.send(sorted(taken))


def _client(node: Member) -> Client:
    return pymongo.MongoClient("127.0.0.1", node.port, directConnection=True, document_class=RawBSONDocument)


def _hello(node: Member) -> RawBSONDocument:
    with _client(node) as client:
        return client.admin.command("hello")


def _steps_up(node: Member) -> bool:
    try:
        with _client(node) as client:
            client.admin.command("replSetStepUp")
    except pymongo.errors.PyMongoError:
        return False
    return True


def _is_secondary(node: Member) -> bool:
    return bool(_hello(node).get("secondary"))


def _primary(members: list[Member]) -> Member:
    found: list[Member] = []

    def looked() -> bool:
        found[:] = [each for each in members if _hello(each).get("isWritablePrimary")]
        others = [each for each in members if each not in found]
        return len(found) == 1 and all(_is_secondary(each) for each in others)

    _wait(looked)
    return found[0]


def _count(node: Member, collection: str) -> int:
    with _client(node) as client:
        database = client.get_database("pings", read_preference=pymongo.ReadPreference.SECONDARY_PREFERRED)
        return database[collection].estimated_document_count()


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("not reached")
        time.sleep(0.05)
