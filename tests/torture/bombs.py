"""Every bomb of the table thrown at a real node, then at a router in front of one, with pings beside it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pymongo

from scripts.deployment import Deployment, Member, replica_set, stopped_at_end
from tests.harness.argument_bombs import handmade_bombs, send
from tests.harness.bombs import BOMBS, GROWTH_BYTES, Client, Command, fill, resident, throw
from tests.harness.pinger import pinger
from tests.harness.waiting import wait_until

ENTRIES = 200_000
"""The length of long arguments."""
PING_SECONDS = 0.1
"""What 99 of 100 pings must stay below."""


def throw_bombs(directory: Path) -> int:
    """Throw all of them; how many things were not as they must be."""
    return _at_node(directory / "node") + _at_router(directory / "routed")


def _at_node(directory: Path) -> int:
    with stopped_at_end(Deployment(directory)) as deployment:
        node = Member("node", "mongod", [])
        deployment.start(node)
        print("a node", flush=True)
        with _client(node) as client:
            return _throw_all(client, [node], deployment)


def _at_router(directory: Path) -> int:
    with stopped_at_end(Deployment(directory)) as deployment:
        router, shard = start_routed(deployment)
        print("a router and its shard", flush=True)
        with _client(router) as client:
            return _throw_all(client, [router, shard], deployment)


def start_routed(deployment: Deployment) -> tuple[Member, Member]:
    """A router, and the one shard behind it."""
    config, (shard,) = Member("config", "configsvr", []), replica_set("one", 1, [])
    deployment.start(config, shard)
    with _client(shard) as client:
        client.admin.command("replSetInitiate", {"_id": "one", "members": [{"_id": 0, "host": shard.address}]})
        wait_until(lambda: client.admin.command("hello")["isWritablePrimary"], 30)
    router = Member("router", "mongos", ["--configdb", config.address])
    deployment.start(router)
    with _client(router) as client:
        client.admin.command("addShard", f"one/{shard.address}", name="one")
    return router, shard


def _client(member: Member) -> Client:
    return pymongo.MongoClient[Command]("127.0.0.1", member.port, directConnection=True)


def _throw_all(client: Client, watched: list[Member], deployment: Deployment) -> int:
    fill(client)
    bystander = Member("bystander", "mongod", [])
    deployment.start(bystander)
    idle, wrong, pings = {each.pid: resident(each.pid) for each in watched}, 0, list[float]()
    with ExitStack() as pinging:
        pingers = [pinging.enter_context(pinger(each.port)) for each in watched]
        # What the pings of a node take that has nothing to do is the machine's and not ours.
        others = pinging.enter_context(pinging.enter_context(pinger(bystander.port)).during())
        for bomb in BOMBS:
            outcome = throw(client, idle, bomb, pingers)
            pings += outcome.pings
            bad = outcome.code not in bomb.codes or outcome.growth >= GROWTH_BYTES
            wrong += bad
            print(
                f"{'WRONG' if bad else 'ok':5} {bomb.name:42} code {outcome.code:7} in {outcome.seconds:6.2f} s,"
                f" +{outcome.growth >> 20} MB, longest ping {max(outcome.pings, default=0) * 1000:.0f} ms",
                flush=True,
            )
        for long in handmade_bombs(ENTRIES):
            with ExitStack() as beside:
                taken = [beside.enter_context(each.during()) for each in pingers]
                code = send(client, long)
            longest = max(max(each, default=0) for each in taken)
            pings += [ping for each in taken for ping in each]
            print(f"ok    {long.argument:42} code {code:7}, longest ping {longest * 1000:.0f} ms", flush=True)
    slow = _slow(pings)
    print(
        f"99 of 100 pings took less than {slow * 1000:.1f} ms, of a node with nothing to do {_slow(others) * 1000:.1f}"
    )
    return wrong + (slow >= PING_SECONDS)


def _slow(pings: list[float]) -> float:
    """What 99 of 100 pings stay below."""
    return sorted(pings)[len(pings) * 99 // 100]
