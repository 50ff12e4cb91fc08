"""What requests of many shapes cost a router and its shards, beside what they cost a set that has everything.

Two shards of one member each; each shape (`routed_requests`) is sent by one client of pymongo, a request at a time with
other values each time, through the router, to a set of ours and to one of the reference in turn. The figures are the
processor time that each took for a request, in microseconds, medians of the rounds. Answers are compared: what differs
is printed.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import pymongo

from scripts import routed_requests
from scripts.bench_routing import Processes
from scripts.cluster import initiate
from scripts.deployment import Deployment, Member, stopped_at_end
from scripts.measuring import processor_seconds, server_pid
from scripts.reference import REFERENCE_SET
from scripts.routed_requests import Database, Requests, Shape

DOCUMENTS = 10_000
_SET = "whole"
_WARM = 5


class Side(NamedTuple):
    """A server that is asked, and the processes whose time is told, by the name of the column."""

    database: Database
    processes: Mapping[str, Sequence[int]]


def _sides(stack: ExitStack, directory: Path, documents: int, reference: str) -> dict[str, Side]:
    deployment = stack.enter_context(stopped_at_end(Deployment(directory)))
    cluster = Processes(deployment)
    stack.enter_context(closing(cluster.router))
    admin, members = cluster.router.admin, deployment.members
    for name, field in routed_requests.SHARDED.items():
        middle = documents // 2 if field == "_id" else documents // 20
        admin.command("shardCollection", f"bench.{name}", key={field: 1})
        admin.command("split", f"bench.{name}", middle={field: middle})
        admin.command("moveChunk", f"bench.{name}", find={field: middle}, to="shard1")
    shards = [members[f"shard{number}-0"].pid for number in range(2)]
    sides = {"router": Side(cluster.router.bench, {"router": [members["router"].pid], "shards": shards})}
    whole = Member("whole", "mongod", ["--replSet", _SET])
    deployment.start(whole)
    servers = {"set": (_SET, whole)}
    if reference:
        servers["reference"] = (REFERENCE_SET, Member("", "", [], port=int(reference.rpartition(":")[2])))
    for side, (name, member) in servers.items():
        initiate(name, [member])
        client = stack.enter_context(
            closing(pymongo.MongoClient[dict[str, Any]](member.address, directConnection=True))
        )
        sides[side] = Side(client.bench, {side: [server_pid(client)]})
    for each in sides.values():
        routed_requests.fill(each.database, documents)
    return sides


def measure(shape: Shape, side: Side, turn: int) -> tuple[dict[str, float], list[object]]:
    """Microseconds a request of each column, and the answers; the values of a turn are the same on each side."""
    rng = random.Random(f"{shape.name} {turn}")
    answers = [shape.send(side.database, rng) for _ in range(_WARM)]
    before = {name: sum(map(processor_seconds, pids)) for name, pids in side.processes.items()}
    answers += [shape.send(side.database, rng) for _ in range(shape.count)]
    spent = {
        name: (sum(map(processor_seconds, pids)) - before[name]) / shape.count * 1e6
        for name, pids in side.processes.items()
    }
    if not shape.ordered:
        answers = [sorted(map(repr, each)) if isinstance(each, list) else each for each in answers]
    return spent, answers


def run(directory: Path, only: str, rounds: int, *, reference: str = "", documents: int = DOCUMENTS) -> list[str]:
    """Start everything, send each shape whose name holds `only`, print a line for each; the names of those that the
    router answered in another way than the set.
    """
    different = []
    with ExitStack() as stack:
        sides = _sides(stack, directory, documents, reference)
        columns = [name for side in sides.values() for name in side.processes]
        print(f"{'us of processor time':40}" + "".join(f"{name:>11}" for name in columns))
        for shape in Requests(documents).shapes():
            if only not in shape.name:
                continue
            costs: dict[str, list[float]] = {name: [] for name in columns}
            for turn in range(rounds):
                answers = {}
                for name, side in sides.items():
                    spent, answers[name] = measure(shape, side, turn)
                    for column, cost in spent.items():
                        costs[column].append(cost)
                if answers["router"] != answers["set"] and shape.name not in different:
                    different.append(shape.name)
            print(
                f"{shape.name:40}" + "".join(f"{statistics.median(cost):11.0f}" for cost in costs.values()), flush=True
            )
    for name in different:
        print(f"answered in another way: {name}")
    return different
