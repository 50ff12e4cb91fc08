"""What sets of three members cost, and how long their clients wait, where writes wait for the majority.

One client of pymongo, or sixteen threads of one, sends the same work to a set of ours and to one of the reference in
turn; all six members are on one machine, and one set works at a time. The figures are operations (or documents, where
there are many) a second, and the processor time that the primary and both secondaries took for each, in microseconds,
until all members have applied what was written; medians of the rounds. Above 1 a ratio of rates says how many times as
fast ours is, one of times how many times as much the reference takes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pymongo
from pymongo.write_concern import WriteConcern

from scripts.cluster import initiate
from scripts.deployment import Deployment, Member, stopped_at_end
from scripts.measuring import processor_seconds, server_pid
from scripts.reference import REFERENCE_SET

Collection = pymongo.collection.Collection[dict[str, Any]]
COUNT = 1_600
"""Operations a round of those that come singly."""
MANY = 20_000
"""Documents a round of those that come together."""
_SET = "ours"
_BATCH = 1_000
_CLIENTS = 16
_TIMEOUT_MS = 60_000


class Operation(NamedTuple):
    """One operation, of the document with a number; or `every` document in one call of it."""

    name: str
    send: Callable[[Collection, int], object]
    every: bool = False


def _insert_all(posts: Collection, count: int) -> None:
    for start in range(0, count, _BATCH):
        posts.insert_many([_document(number) for number in range(start, min(start + _BATCH, count))])


def _document(number: int) -> dict[str, Any]:
    """About 100 bytes."""
    return {"_id": number, "key": number, "content": "data for content", "hits": 0, "tags": ["a", "b"]}


SINGLE = (
    Operation("insert", lambda posts, number: posts.insert_one(_document(number))),
    Operation("find by _id", lambda posts, number: posts.find_one({"_id": number})),
    Operation("find by key", lambda posts, number: posts.find_one({"key": number})),
    Operation("update by _id", lambda posts, number: posts.update_one({"_id": number}, {"$inc": {"hits": 1}})),
    Operation("update by key", lambda posts, number: posts.update_one({"key": number}, {"$inc": {"hits": 1}})),
    Operation(
        "findAndModify by key", lambda posts, number: posts.find_one_and_update({"key": number}, {"$inc": {"hits": 1}})
    ),
    Operation("delete by _id", lambda posts, number: posts.delete_one({"_id": number})),
)
"""In this order: each works on the documents that the insert has left."""

TOGETHER = (
    Operation("insert of 1,000", _insert_all, every=True),
    Operation("updateMany", lambda posts, _: posts.update_many({}, {"$inc": {"hits": 1}}), every=True),
    Operation("deleteMany", lambda posts, _: posts.delete_many({}), every=True),
)


class Set(NamedTuple):
    """A set that is asked through its primary, and the processes of its members, the primary first."""

    client: pymongo.MongoClient[dict[str, Any]]
    processes: Sequence[int]

    @property
    def posts(self) -> Collection:
        concern = WriteConcern("majority", wtimeout=_TIMEOUT_MS)
        return self.client.get_database("bench", write_concern=concern)["posts"]

    def wait_applied(self) -> None:
        """Until every member has what was written."""
        self.client.bench.command("insert", "last", documents=[{}], writeConcern={"w": 3, "wtimeout": _TIMEOUT_MS})


class Cost(NamedTuple):
    """Of one round: units a second, and the processor seconds for each of the primary and of both secondaries."""

    rate: float
    primary: float
    secondaries: float


def measure(replica_set: Set, operation: Operation, count: int, clients: int) -> Cost:
    replica_set.wait_applied()
    posts = replica_set.posts
    before = [processor_seconds(pid) for pid in replica_set.processes]
    began = time.perf_counter()
    if operation.every:
        operation.send(posts, count)
    else:
        # Each thread has numbers of its own: to hand out one at a time takes the client longer than to send it.
        with ThreadPoolExecutor(clients) as threads:
            for done in [
                threads.submit(_send, operation, posts, range(first, count, clients)) for first in range(clients)
            ]:
                done.result()
    seconds = time.perf_counter() - began
    replica_set.wait_applied()
    spent = [processor_seconds(pid) - earlier for pid, earlier in zip(replica_set.processes, before, strict=True)]
    return Cost(count / seconds, spent[0] / count, sum(spent[1:]) / count)


def _send(operation: Operation, posts: Collection, numbers: range) -> None:
    for number in numbers:
        operation.send(posts, number)


def _started(stack: ExitStack, name: str, members: Sequence[Member]) -> Set:
    """Make a set of the members; they are asked through their primary."""
    initiate(name, list(members))
    clients = [
        stack.enter_context(closing(pymongo.MongoClient[dict[str, Any]](member.address, directConnection=True)))
        for member in members
    ]
    clients.sort(key=lambda client: not client.admin.command("hello")["isWritablePrimary"])
    replica_set = Set(clients[0], [server_pid(client) for client in clients])
    replica_set.wait_applied()
    replica_set.posts.create_index("key")
    return replica_set


def run(
    directory: Path,
    only: str,
    rounds: int,
    *,
    references: Sequence[Member] = (),
    count: int = COUNT,
    many: int = MANY,
) -> None:
    """Measure the operations whose name holds `only`, and those that make or remove their documents, on each set in
    turn; print a line for each. `references`: three members, started with the name `REFERENCE_SET`, where there is a
    reference.
    """
    with ExitStack() as stack:
        deployment = stack.enter_context(stopped_at_end(Deployment(directory)))
        own = [Member(f"member{number}", "mongod", ["--replSet", _SET]) for number in range(3)]
        deployment.start(*own)
        sets = {"ours": _started(stack, _SET, own)}
        if references:
            sets["reference"] = _started(stack, REFERENCE_SET, references)
        print(f"{'':34}{'a second: ours, real, ratio':>30}{'us of primary':>24}{'us of secondaries':>24}")
        for clients, operations, units in ((1, SINGLE, count), (_CLIENTS, SINGLE, count), (1, TOGETHER, many)):
            chosen = [each for each in operations if only in each.name or each in (operations[0], operations[-1])]
            costs: dict[tuple[str, str], list[Cost]] = {}
            for _ in range(rounds):
                for operation in chosen:
                    for side, replica_set in sets.items():
                        costs.setdefault((operation.name, side), []).append(
                            measure(replica_set, operation, units, clients)
                        )
            for operation in chosen:
                _print(operation.name, clients, [costs[operation.name, side] for side in sets])


def _print(name: str, clients: int, sides: Sequence[list[Cost]]) -> None:
    medians = [Cost(*(statistics.median(values) for values in zip(*costs, strict=True))) for costs in sides]
    ours, theirs = medians[0], medians[-1]
    cells = [f"{ours.rate:9.0f}{theirs.rate:9.0f}{ours.rate / theirs.rate:12.2f}"]
    for mine, other in ((ours.primary, theirs.primary), (ours.secondaries, theirs.secondaries)):
        # Of a few operations the system may not have counted anything yet.
        cells.append(f"{mine * 1e6:8.1f}{other * 1e6:8.1f}{other / mine if mine else 0:8.2f}")
    print(f"{name + (f', {clients} clients' if clients > 1 else ''):34}" + "".join(cells), flush=True)
