"""Causal reads of a set that nothing is written to, after times of other sets: no member waits for a write for ever.

A cluster time that a client brings along is ahead of the set's log. A primary that is asked writes an entry of that
time; whoever else is asked must have it write one, also while the primary is paused, cut off or changes.
"""

from __future__ import annotations

import asyncio
import functools

from bson.timestamp import Timestamp

from tests.checkers.history import Anomaly
from tests.checkers.waiting import check_patience
from tests.simulation.clients import SECONDARY, Client, Refused, Unknown, of_set
from tests.simulation.faults import Nemesis
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.elections import a_set, judge, report, surroundings
from tests.simulation.schedule import Scenario
from tests.simulation.workloads import Workload, anomalies, final_state
from tests.simulation.world import World

CLIENTS = 3
ROUNDS = 2
KINDS = ("pause", "isolate", "one way", "kill", "resets", "slow link")
PRIMARY_KINDS = (*KINDS, "power", "blink")
"""Whoever asked another member that loses its power hears nothing of that before its connection is given up."""
PATIENCE_SECONDS = 30.0
LONGEST_SECONDS = 10.0
"""A fault, an election by its time-out, and what a member finds out about both."""
IDLE_SECONDS = 12.0
"""Longer than that, so that no later write ends the waiting."""
THOUGHT_SECONDS = 0.3
LEVELS = ("majority", "majority", "local", "snapshot")


class Clients:
    """`waits`: how long each read took, in seconds. `early`: reads that were answered before their time."""

    def __init__(self) -> None:
        self.may_write = True
        self.waits: dict[str, float] = {}
        self.early: list[Anomaly] = []

    async def act(self, client: Client, work: Workload) -> None:
        """Append where that is allowed; else read, mostly after a time that another set has told."""
        client.seconds, client.read_limit_ms = PATIENCE_SECONDS, 0
        dice, key, session = client.dice, client.dice.choice("xy"), f"session {client.number}"
        if self.may_write and dice.random() < 0.5:
            await client.append(key, work.value(), "majority", session=session)
            return
        await asyncio.sleep(dice.uniform(0.0, THOUGHT_SECONDS))
        if client.times and dice.random() < 0.8:
            newest = client.times["$clusterTime"]["clusterTime"]
            client.hear(Timestamp(newest.time + dice.choice((0, 0, 0, 2)), newest.inc + dice.randint(1, 1000)))
        level, began = dice.choice(LEVELS), work.world.now
        if level == "majority":
            await client.read_list(key, level, session=session, read_preference=SECONDARY)
        else:
            await self._read(client, level)
        self.waits[f"a {level} read by client {client.number} from {began:.3f} on"] = work.world.now - began

    async def _read(self, client: Client, level: str) -> None:
        """Read with another concern, whose result the histories do not judge."""
        after = client.times.get("operationTime")
        concern = {"level": level} if after is None else {"level": level, "afterClusterTime": after}
        command = {"find": "lists", "readConcern": concern, "$readPreference": SECONDARY.document()}
        if after is not None:
            command["$clusterTime"] = client.times["$clusterTime"]
        try:
            reply = await client.command(command, read_preference=SECONDARY)
        except (Refused, Unknown):
            return
        if after is not None and reply["operationTime"] < after:
            self.early.append(Anomaly("read before its time", f"{reply['operationTime']} is before {after}"))


async def idle(world: World, members: SimulatedSet) -> None:
    """Let clients write, then read alone while a member fails, and judge how long they waited."""
    surroundings(world)
    dice, clients = world.fault_dice, Clients()
    nemesis = Nemesis(world, members.machines, members.primary)
    work = Workload(world, lambda: of_set(members.name, members.hosts), clients=CLIENTS)
    work.start(clients.act)
    for _ in range(ROUNDS):
        clients.may_write = True
        await asyncio.sleep(dice.uniform(0.2, 0.5))
        clients.may_write = False
        await asyncio.sleep(dice.uniform(0.0, 1.0))
        primary = members.primary()
        if primary is not None and dice.random() < 0.8:
            machine = primary if dice.random() < 0.7 else dice.choice(members.machines)
            nemesis.strike(dice.choice(PRIMARY_KINDS if machine is primary else KINDS), machine)
        await asyncio.sleep(IDLE_SECONDS)
    nemesis.end()
    await work.stop()
    await members.settled()
    final = await final_state(of_set(members.name, members.hosts))
    report(world, members, nemesis, work)
    world.counts["longest ms"] = int(1000 * max(clients.waits.values(), default=0))
    late = check_patience(clients.waits, LONGEST_SECONDS)
    judge([*late, *clients.early, *anomalies(work.history, final), *await members.anomalies()])


SCENARIOS = (
    Scenario(
        name="idle-reads",
        what="a set of three that nothing is written to: causal reads of secondaries after times of other sets",
        topology=functools.partial(a_set, size=3),
        run=idle,
    ),
)
