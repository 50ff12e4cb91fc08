"""What much data costs a server, by the number of documents, ours beside the reference, as a table and a picture.

Each step is done on one server, then on the other, both over the same documents of 300 to 500 bytes. The figures are
the processor time that the server's process has taken (`/proc/PID/stat`), for each document or operation; a restart and
a checkpoint also say how long they took. Both servers have caches of the same size, or those that they have by default.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymongo

from scripts import reference
from scripts.bench_picture import draw
from scripts.deployment import places_of, unused_port
from scripts.measuring import processor_seconds, resident_mib

Collection = pymongo.collection.Collection[dict[str, Any]]
INDEXES = (1, 10, 40)
_CACHE_OPTIONS = {"ours": "--rocksdbCacheSizeGB", "reference": "--wiredTigerCacheSizeGB"}
_BATCH = 1_000
_POINTS = 4_000
_TURNS = 3
_DEADLINE_SECONDS = 300
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DICE = random.Random(0)
_WORDS = ["".join(_DICE.choices(_LETTERS, k=_DICE.randrange(2, 10))) for _ in range(2_000)]
_TEXT = " ".join(_DICE.choices(_WORDS, k=100_000))


@dataclass
class Server:
    """One server over one directory, started and stopped by turns."""

    side: str
    directory: Path
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    client: pymongo.MongoClient[dict[str, Any]] = field(init=False)

    def start(self) -> None:
        port = unused_port()
        self.directory.mkdir(exist_ok=True)
        command = [*self.command, *places_of(self.directory, port)]
        nowhere = subprocess.DEVNULL
        # As servers usually run: what Python has compiled is kept.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            command, stdout=nowhere, stderr=nowhere, env=environment, start_new_session=True
        )
        self.client = pymongo.MongoClient("127.0.0.1", port, serverSelectionTimeoutMS=_DEADLINE_SECONDS * 1000)
        self.client.admin.command("ping")

    def stop(self) -> None:
        if self.process is not None:
            self.client.close()
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(_DEADLINE_SECONDS)
            self.process = None

    @property
    def posts(self) -> Collection:
        return self.client.report.posts

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def processor_seconds(self) -> float:
        return processor_seconds(self.pid)

    def disk_mib(self) -> float:
        return sum(file.stat().st_blocks * 512 for file in self.directory.rglob("*") if file.is_file()) / (1 << 20)


def post(number: int, rng: random.Random) -> dict[str, Any]:
    """300 to 500 bytes."""
    return {
        "_id": number,
        "n": rng.randrange(1 << 30),
        "s": "".join(rng.choices(_LETTERS, k=12)),
        "g": number % 100,
        "t": [rng.randrange(10_000) for _ in range(3)],
        "text": _TEXT[(place := rng.randrange(len(_TEXT) - 370)) : place + rng.randrange(170, 370)],
    }


def load(posts: Collection, count: int) -> None:
    rng = random.Random(1)
    for start in range(0, count, _BATCH):
        posts.insert_many([post(number, rng) for number in range(start, min(start + _BATCH, count))])


def by_id(posts: Collection, count: int) -> None:
    rng = random.Random(2)
    for _ in range(_POINTS):
        assert posts.find_one({"_id": rng.randrange(count)})


def by_key(posts: Collection, _count: int) -> None:
    rng = random.Random(1)
    for number in range(_POINTS):
        assert posts.find_one({"n": post(number, rng)["n"]})


def ranges(posts: Collection, _count: int) -> None:
    rng = random.Random(3)
    for _ in range(_POINTS // 20):
        assert list(posts.find_raw_batches({"n": {"$gte": rng.randrange(1 << 29)}}, sort=[("n", 1)], limit=100))


def drain(cursor: Any) -> None:
    for _ in cursor:
        pass


STEPS: list[tuple[str, Callable[[Collection, int], object], Callable[[int], int]]] = [
    ("insert_many of 1,000, a document", load, int),
    ("index of numbers, a document", lambda posts, _: posts.create_index("n"), int),
    ("index of strings, a document", lambda posts, _: posts.create_index("s"), int),
    ("compound index, a document", lambda posts, _: posts.create_index([("g", 1), ("n", -1)]), int),
    ("index of arrays of three, a document", lambda posts, _: posts.create_index("t"), int),
    ("find by `_id`", by_id, lambda _: _POINTS),
    ("find by key", by_key, lambda _: _POINTS),
    ("range of 100 by an index, a document", ranges, lambda _: _POINTS // 20 * 100),
    ("read of all, a document", lambda posts, _: drain(posts.find_raw_batches()), int),
    (
        "sort of all without an index, a document",
        lambda posts, _: drain(posts.aggregate_raw_batches([{"$sort": {"text": 1, "_id": 1}}], allowDiskUse=True)),
        int,
    ),
    (
        "count by a filter without an index, a document",
        lambda posts, _: posts.count_documents({"text": "none"}),
        int,
    ),
    (
        "condition on arrays without an index, a document",
        lambda posts, _: posts.count_documents({"t": 7}, hint={"$natural": 1}),
        int,
    ),
    (
        "`$group` into 100, a document",
        lambda posts, _: drain(posts.aggregate([{"$group": {"_id": "$g", "n": {"$sum": "$n"}}}])),
        int,
    ),
    (
        "updateMany of a tenth, a document",
        lambda posts, _: posts.update_many({"g": {"$lt": 10}}, {"$inc": {"hits": 1}}),
        lambda count: count // 10,
    ),
    (
        "the same of an indexed field, a document",
        lambda posts, _: posts.update_many({"g": {"$gte": 90}}, {"$inc": {"n": 1}}),
        lambda count: count // 10,
    ),
]

Row = tuple[str, dict[str, float]]
"""A name, and a figure for each side."""


def measure_size(servers: list[Server], count: int) -> tuple[list[Row], list[Row]]:
    """(microseconds of each step, figures of the whole server) with so many documents."""
    steps: list[Row] = []
    for name, run, units in STEPS:
        costs: dict[str, float] = {}
        for server in servers:
            before = server.processor_seconds()
            run(server.posts, count)
            costs[server.side] = (server.processor_seconds() - before) / units(count) * 1e6
        steps.append((name, costs))
        print(name, costs, file=sys.stderr, flush=True)
    return steps, measure_whole(servers)


def measure_whole(servers: list[Server]) -> list[Row]:
    figures: dict[str, dict[str, float]] = {}

    def note(name: str, server: Server, value: float) -> None:
        figures.setdefault(name, {})[server.side] = value

    for server in servers:
        before, began = server.processor_seconds(), time.perf_counter()
        server.client.admin.command("fsync")
        spent = server.processor_seconds() - before
        note("checkpoint (`fsync`) after that, ms of processor time", server, spent * 1e3)
        note("the same, ms", server, (time.perf_counter() - began) * 1e3)
        note("memory then, MiB", server, resident_mib(server.pid))
        server.stop()
        note("disk, MiB", server, server.disk_mib())
        began = time.perf_counter()
        server.start()
        assert server.posts.find_one({"_id": 0})
        note("restart to the first document, ms", server, (time.perf_counter() - began) * 1e3)
        note("the same, ms of processor time", server, server.processor_seconds() * 1e3)
        note("memory after a restart, MiB", server, resident_mib(server.pid))
    return list(figures.items())


def indexed(number: int) -> dict[str, Any]:
    """A document with values for 40 indexes."""
    return {"_id": number, **{f"f{place}": (number * 7919 + place) % 100_003 for place in range(max(INDEXES))}}


def insert_each(posts: Collection, start: int) -> None:
    for number in range(start, start + _POINTS):
        posts.insert_one(indexed(number))


def update_each(posts: Collection, start: int) -> None:
    for number in range(start, start + _POINTS):
        posts.update_one({"_id": number}, {"$inc": {"f0": 1}})


def delete_each(posts: Collection, start: int) -> None:
    for number in range(start, start + _POINTS):
        posts.delete_one({"_id": number})


def measure_points(servers: list[Server]) -> list[Row]:
    """Medians of single writes by the number of indexes."""
    rows: list[Row] = []
    for indexes in INDEXES:
        for server in servers:
            server.posts.drop()
            for place in range(indexes):
                server.posts.create_index(f"f{place}")
        found: dict[str, dict[str, list[float]]] = {}
        for turn in range(_TURNS):
            for name, run in (("insert", insert_each), ("update", update_each), ("delete", delete_each)):
                for server in servers:
                    before = server.processor_seconds()
                    run(server.posts, turn * _POINTS)
                    spent = (server.processor_seconds() - before) / _POINTS * 1e6
                    found.setdefault(name, {}).setdefault(server.side, []).append(spent)
        for name, sides in found.items():
            medians = {side: statistics.median(values) for side, values in sides.items()}
            rows.append((f"{name} with {indexes} {'index' if indexes == 1 else 'indexes'}", medians))
            print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def cell(costs: dict[str, float]) -> str:
    shown = " / ".join(f"{value:.0f}" if value >= 100 else f"{value:.2f}" for value in costs.values())
    if len(costs) == 1 or not costs["ours"]:
        return shown
    return f"{shown} ({costs['reference'] / costs['ours']:.2f})"


def table(columns: list[str], rows: list[list[Row]]) -> Iterator[str]:
    """Lines of a table; `rows` holds the same rows for each column."""
    yield f"| | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for each in zip(*rows, strict=True):
        yield f"| {each[0][0]} | {' | '.join(cell(costs) for _, costs in each)} |"


def measure(directory: Path, sizes: list[int], cache_gb: float | None, picture: Path) -> None:
    """Print the tables and draw the picture."""
    directory.mkdir()
    commands = {"ours": [sys.executable, "-m", "mongod"]}
    if reference.is_there():
        commands["reference"] = reference.command()
    if cache_gb is not None:
        for side, command in commands.items():
            command += (_CACHE_OPTIONS[side], str(cache_gb))
    steps, wholes = [], []
    with ExitStack() as stack:
        for count in sizes:
            servers = [Server(side, directory / f"{side}{count}", command) for side, command in commands.items()]
            for server in servers:
                stack.callback(server.stop)
                server.start()
            of_steps, of_whole = measure_size(servers, count)
            steps.append(of_steps)
            wholes.append(of_whole)
            if count != sizes[0]:
                for server in servers:
                    server.stop()
            else:
                points = measure_points(servers)
    columns = [f"{count:,} documents: ours / real (ratio)" for count in sizes]
    print(*table(columns, steps), sep="\n", end="\n\n")
    print(*table(columns, wholes), sep="\n", end="\n\n")
    print(*table(["us: ours / real (ratio)"], [points]), sep="\n")
    picture.write_text(draw([(f"{count:,} documents", rows) for count, rows in zip(sizes, steps, strict=True)]))
