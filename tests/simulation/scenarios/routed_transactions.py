"""Two shards whose clients have transactions over both, through two routers, beside all that can happen to a cluster.

A transaction is there on both shards or on none, in every snapshot and in the end; what was acknowledged stays; and
when all has come to rest nothing is left of how it was decided (`tests.simulation.cluster_leaks`).
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from mongod.transactions.driver import ANSWER_SECONDS
from tests.checkers.history import Anomaly
from tests.simulation.clients import DATABASE, Client
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.moments import COMMIT, MIGRATION, ROUTING
from tests.simulation.process import Incarnation, Machine
from tests.simulation.routed import Routers, Times, a_bank, act, clients_of, final_of, move_about, turn
from tests.simulation.scenarios.elections import judge
from tests.simulation.scenarios.transactions import short_lives
from tests.simulation.scenarios.transactions_ddl import INDEX, PATIENCE_SECONDS, SIDES, Act, Changes
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.transactions import anomalies, report
from tests.simulation.workloads import Workload
from tests.simulation.world import World

CLIENTS = 5
KINDS = (
    "kill", "kill", "power", "blink", "step down", "step down", "pause", "isolate", "one way", "halves", "from its set",
    "from its set", "from its set", "die at write",    "slow disk", "slow link", "resets",
)  # fmt: skip
LONG_SECONDS = 60.0
"""As long as that may take, once no fault comes any more."""
DECIDED = "decision logged"
Operator = Callable[[SimulatedCluster, Workload], Coroutine[Any, Any, Any]]


async def transacting(
    world: World, cluster: SimulatedCluster, *, kinds: Sequence[str] = KINDS, count: int = 0, seconds: float = 4.0,
    moments: Sequence[str] = (), also: Sequence[Operator] = (), act: Act = act,
) -> None:  # fmt: skip
    """Clients work while faults come, at `moments` where there are any; then all comes to rest and is judged. `also`:
    what goes on beside them until the workload is over, and may give the anomalies that it has found.
    """
    world.hiccups = world.fault_dice.choice((0.0, 0.005))
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (3e-4, 2e-3), (1e-3, 8e-3)))
    nemesis = ClusterNemesis(cluster)
    if moments:
        nemesis.plan(moments, kinds, count)
    for each in cluster.shards.values():
        await short_lives(each)
    work, together = clients_of(cluster, clients=CLIENTS)
    work.start(act)
    operators = [asyncio.ensure_future(each(cluster, work)) for each in also]
    if count and not moments:
        await nemesis.run(seconds, kinds, count=count)
    else:
        await asyncio.sleep(seconds)
    if count:
        nemesis.end()
    work.over = True
    found: list[Anomaly] = [anomaly for each in operators for anomaly in await each or ()]
    await work.stop()
    await cluster.settled()
    final, misplaced = await final_of(cluster)
    report(world, work.history, final)
    world.counts["faults"] = nemesis.done
    told = anomalies(work.history, final)
    # Who has not heard of a time may be shown what was before it.
    found += misplaced + [each for each in told if together or each.kind != "stale snapshot"]
    judge([*found, *await cluster.catalogs(), *await cluster.member_anomalies()])
    await no_leaks(cluster, cursors=False)


async def changing(world: World, cluster: SimulatedCluster, *, count: int) -> None:
    """Collections are made, sharded, moved and dropped, indexes come and go, sessions are ended, beside all of that."""
    changes = Changes(act)

    async def change(cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
        dice = world.fault_dice
        while not work.over:
            name = dice.choice(SIDES)
            statements: tuple[tuple[str, dict[str, Any]], ...] = (
                (DATABASE, {"drop": name}),
                (DATABASE, {"create": name}),
                ("admin", {"shardCollection": f"{DATABASE}.{name}", "key": {"_id": 1}}),
                ("admin", {"split": f"{DATABASE}.{name}", "middle": {"_id": dice.randrange(40)}}),
                ("admin", {"moveChunk": f"{DATABASE}.{name}", "find": {"_id": dice.randrange(40)}, "to": "shard1"}),
                (DATABASE, {"createIndexes": "accounts", "indexes": [INDEX]}),
                (DATABASE, {"createIndexes": "accounts", "indexes": [INDEX]}),
                (DATABASE, {"dropIndexes": "accounts", "index": "n"}),
            )
            ask = Routers(cluster, dice, Times())
            await changes.change(world, ask, *dice.choice(statements), LONG_SECONDS if count else PATIENCE_SECONDS)
            await asyncio.sleep(dice.expovariate(1 / 0.1))
        return changes.found

    async def do(client: Client, work: Workload) -> None:
        turn(client)
        await changes.act(client, work)

    await transacting(world, cluster, count=count, also=(change,), act=do)


async def away(cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
    """When a commit is decided, the shard that has not heard of it dies. It is away for longer than a coordinator waits
    for an answer.
    """
    world, dice = cluster.world, random.Random(cluster.world.fault_dice.getrandbits(64))
    passing, gone = [None] * dice.randrange(4), list[Machine]()

    def go(process: Incarnation, moment: str) -> None:
        if moment != DECIDED or gone:
            return
        if passing:
            passing.pop()
            return
        gone.extend(each for members in cluster.shards.values() for each in members.machines)
        gone.remove(process.machine)
        for each in gone:
            each.kill("away for long")

    world.moments.append(go)
    await cluster.config.until(lambda: bool(gone) or work.over, LONG_SECONDS, "a commit over both shards")
    await asyncio.sleep(dice.uniform(1.1, 1.6) * ANSWER_SECONDS)
    world.moments.remove(go)
    for each in gone:
        each.start()
    return []


SCENARIOS = (
    Scenario(
        name="routed-transactions",
        what="two shards of three, two routers, transactions over both shards: every fault",
        topology=a_bank,
        run=functools.partial(transacting, count=3),
    ),
    Scenario(
        name="routed-transactions-moves",
        what="the same beside moves of chunks; faults at the states of these",
        topology=a_bank,
        run=functools.partial(
            transacting, count=3, moments=(*MIGRATION, *ROUTING, *COMMIT),
            also=(functools.partial(move_about, pause=0.15),),
        ),
    ),
    Scenario(
        name="routed-transactions-steps",
        what="the same; faults at the steps of commits over both shards",
        topology=a_bank,
        run=functools.partial(transacting, count=5, moments=COMMIT),
    ),
    Scenario(
        name="commits-away",
        what="two shards of one: when a commit is decided, the shard that has not heard of it is away for long",
        topology=functools.partial(a_bank, members=1),
        run=functools.partial(transacting, seconds=2.0, also=(away,)),
    ),
    Scenario(
        name="routed-transactions-ddl",
        what="the same beside changes of collections and indexes",
        topology=a_bank,
        run=functools.partial(changing, count=2),
    ),
)  # fmt: skip
