"""Every bomb of the table thrown at a real node, with a ping beside it."""

from __future__ import annotations

from pathlib import Path

import pymongo

from scripts.deployment import Deployment, Member, stopped_at_end
from tests.harness.bombs import BOMBS, GROWTH_BYTES, Client, Command, fill, resident, throw

PING_SECONDS = 0.1
"""What 99 of 100 pings must stay below."""


def throw_bombs(directory: Path) -> int:
    """Throw all of them; how many things were not as they must be."""
    with stopped_at_end(Deployment(directory)) as deployment:
        node = Member("node", "mongod", [])
        deployment.start(node)
        with pymongo.MongoClient[Command]("127.0.0.1", node.port, directConnection=True) as client:
            fill(client)
            return _throw_all(client, node.pid)


def _throw_all(client: Client, pid: int) -> int:
    idle, wrong, pings = resident(pid), 0, list[float]()
    for bomb in BOMBS:
        outcome = throw(client, pid, idle, bomb)
        pings += outcome.pings
        bad = outcome.code not in bomb.codes or outcome.growth >= GROWTH_BYTES
        wrong += bad
        print(
            f"{'WRONG' if bad else 'ok':5} {bomb.name:34} code {outcome.code:7} in {outcome.seconds:6.2f} s,"
            f" +{outcome.growth >> 20} MB, longest ping {max(outcome.pings, default=0) * 1000:.0f} ms",
            flush=True,
        )
    slow = sorted(pings)[len(pings) * 99 // 100]
    print(f"99 of 100 pings took less than {slow * 1000:.1f} ms")
    return wrong + (slow >= PING_SECONDS)
