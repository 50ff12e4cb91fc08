"""Speed as ratios to a reference server, in one alternating run.

DOCSTORE_REFERENCE names the command that runs the reference mongod; without it only our own figures are printed. Beside
a ratio stands the processor time that each server took for a unit of work, in microseconds: unlike the rates it does
not depend on what else the machine does. Without a part, work that reads or writes much is measured
(`bench_workloads`). `--start` measures the start to the first answer and the memory of an idle server instead, `--wide`
the wide-column mode beside documents (`bench_wide`), `--saturate` what applications send all day on a standalone, a
set's primary and a shard (`saturate`), `--members` on sets of three (`bench_members`), `--routed` on a router
(`saturate_routed`), `--routing` what routing costs by the number of chunks (`bench_routing`), `--moves` what a client
sees of a chunk of 64 MB that moves under load (`bench_moves`), `--report` what much data costs by the number of
documents (`bench_report`), `--shapes` what requests of a hundred shapes cost over a collection with eleven indexes
(`bench_shapes`), `--beside` how short requests fare beside a long one (`bench_beside`), `--growth` what a unit of work
costs by how much there was before (`bench_growth`), `--several` what many shapes cost a router and its shards
(`bench_routed`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pymongo

from scripts import (
    bench_beside,
    bench_growth,
    bench_members,
    bench_moves,
    bench_report,
    bench_routed,
    bench_routing,
    bench_shapes,
    bench_wide,
    bench_workloads,
    reference,
    saturate,
    saturate_routed,
)
from scripts.bench_routing import Processes
from scripts.cluster import initiate
from scripts.deployment import Deployment, Member, stopped_at_end
from scripts.measuring import resident_mib, server_pid


def measure_start(stack: ExitStack, directory: Path) -> None:
    """Start each server on an empty directory; print the seconds to its first answer, and its memory then."""
    starters = {"ours": start_ours}
    if reference.is_there():
        starters["reference"] = reference.start
    for side, start in starters.items():
        began = time.perf_counter()
        address = start(stack, directory / side)
        client: pymongo.MongoClient[dict[str, Any]]
        with pymongo.MongoClient(address) as client:
            client.admin.command("ping")
            seconds = time.perf_counter() - began
            memory = resident_mib(server_pid(client))
        print(f"{side:12} first answer after {seconds:.2f} s, {memory:.0f} MiB resident")


def start_ours(stack: ExitStack, directory: Path) -> str:
    """Our data node on a free port; gives its address."""
    deployment = stack.enter_context(stopped_at_end(Deployment(directory)))
    deployment.start(Member("node", "mongod", []))
    return deployment.members["node"].address


def measure_saturated(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    references = []
    if reference.is_there():
        for name, more in (("alone", ()), ("replicated", ("--replSet", reference.REFERENCE_SET))):
            references.append(reference.member(stack, directory / name, *more))
    saturate.compare(directory / "ours", options.only, options.rounds, references=references)


def measure_shapes(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    other = ""
    if reference.is_there():
        more = ("--replSet", reference.REFERENCE_SET) if options.replicated else ()
        other = reference.start(stack, directory / "reference", *more)
    bench_shapes.run(directory / "ours", options.only, options.rounds, reference=other, replicated=options.replicated)


def measure_much_data(_: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    sizes = [int(size) for size in options.documents.split(",")]
    bench_report.measure(directory / "report", sizes, options.cache_gb, options.picture)


def measure_wide(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    client = stack.enter_context(pymongo.MongoClient[dict[str, Any]](start_ours(stack, directory / "ours")))
    bench_wide.compare(client, options.only, options.rounds)


def measure_workloads(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    addresses = {"ours": start_ours(stack, directory / "ours")}
    if reference.is_there():
        addresses["reference"] = reference.start(stack, directory / "reference")
    bench_workloads.run(addresses, options.only, options.rounds)


def measure_growth(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    addresses = {"ours": start_ours(stack, directory / "ours")}
    if reference.is_there():
        addresses["reference"] = reference.start(stack, directory / "reference")
    bench_growth.run(addresses, options.only)


def measure_beside(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    bench_beside.run(_besides(stack, directory, options), options.only, options.clients)


def _besides(stack: ExitStack, directory: Path, options: argparse.Namespace) -> dict[str, str]:
    """Return the addresses of what is measured: standalones, primaries of sets of one, or a router of ours."""
    if options.through_router:
        deployment = stack.enter_context(stopped_at_end(Deployment(directory / "routed")))
        cluster = Processes(deployment)
        stack.callback(cluster.router.close)
        return {"ours": deployment.members["router"].address}
    if not options.replicated:
        addresses = {"ours": start_ours(stack, directory / "ours")}
        if reference.is_there():
            addresses["reference"] = reference.start(stack, directory / "reference")
        return addresses
    deployment = stack.enter_context(stopped_at_end(Deployment(directory / "ours")))
    members = {"ours": Member("node", "mongod", ["--replSet", "ours"])}
    deployment.start(members["ours"])
    if reference.is_there():
        members["reference"] = reference.member(stack, directory / "reference", "--replSet", reference.REFERENCE_SET)
    for side, member in members.items():
        initiate(side, [member])
    return {side: member.address for side, member in members.items()}


def measure_members(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    others = []
    if reference.is_there():
        more = ("--replSet", reference.REFERENCE_SET)
        others = [reference.member(stack, directory / f"reference{number}", *more) for number in range(3)]
    bench_members.run(directory / "ours", options.only, options.rounds, references=others)


def measure_several(stack: ExitStack, directory: Path, options: argparse.Namespace) -> None:
    other = ""
    if reference.is_there():
        other = reference.start(stack, directory / "reference", "--replSet", reference.REFERENCE_SET)
    bench_routed.run(directory / "several", options.only, options.rounds, reference=other)


Part = Callable[[ExitStack, Path, argparse.Namespace], None]
PARTS: dict[str, tuple[str, Part]] = {
    "start": ("start-up and memory", lambda stack, directory, _: measure_start(stack, directory)),
    "wide": ("columns and CQL beside documents", measure_wide),
    "saturate": ("what an operation costs a standalone, set, shard", measure_saturated),
    "members": ("single writes and reads, and many at once, on sets of three", measure_members),
    "shapes": ("many shapes over a collection with eleven indexes", measure_shapes),
    "routed": (
        "what an operation costs a router",
        lambda _, directory, options: saturate_routed.compare(directory / "routed", options.only, options.rounds),
    ),
    "several": ("many shapes through a router, for one shard and for two", measure_several),
    "routing": (
        "routing, moves and splits by number of chunks",
        lambda _stack, directory, _options: bench_routing.measure(directory / "routing"),
    ),
    "moves": (
        "moves of 64 MB under load; --rounds of each",
        lambda _, directory, options: bench_moves.measure(directory, options.only, options.rounds),
    ),
    "report": ("what much data costs", measure_much_data),
    "growth": ("what a unit of work costs by how much there was", measure_growth),
    "beside": ("short requests beside one long one; --clients", measure_beside),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads whose name holds this text")
    parser.set_defaults(part=measure_workloads)
    parts = parser.add_mutually_exclusive_group()
    for name, (what, part) in PARTS.items():
        parts.add_argument(f"--{name}", dest="part", action="store_const", const=part, help=f"measure {what}")
    parser.add_argument("--replicated", action="store_true", help="for --shapes, --beside: sets of one member")
    parser.add_argument("--through-router", action="store_true", help="for --beside: a router of ours, two shards")
    parser.add_argument("--clients", type=int, default=4, help="for --beside: clients with short requests")
    parser.add_argument("--documents", default="100000,1000000", help="for --report: numbers of documents")
    parser.add_argument("--cache-gb", type=float, help="for --report: the cache of each server")
    parser.add_argument("--picture", type=Path, default=Path("bench.svg"), help="for --report: where it is drawn")
    options = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="docstore-bench-")))
        options.part(stack, directory, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
