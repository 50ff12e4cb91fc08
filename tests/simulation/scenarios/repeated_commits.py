"""Commits that are asked for again while shards that were only read restart or change their primaries.

A client may not hear how its commit has ended, and an application may ask for it twice. Whatever happens to the readers
meanwhile, a transaction that was committed is never told to be gone: its client would begin it anew, and counters would
show more than what was acknowledged.
"""

from __future__ import annotations

import asyncio
import functools

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.history import Kind, Outcome
from tests.simulation.clients import DATABASE, Client
from tests.simulation.moments import COMMIT, ENDS
from tests.simulation.routed import a_bank, act, turn
from tests.simulation.scenarios.routed_transactions import transacting
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.transactions import TRANSIENT, Aborted, OpenTransaction, carry_out, think
from tests.simulation.workloads import Workload
from tests.simulation.world import World

KINDS = ("kill", "kill", "kill", "power", "blink", "step down", "step down", "resets")
COUNTERS = ("b0", "c0", "d0")
"""One on each shard."""
READS = (("accounts", "a0"), ("accounts", "a1"), ("counters", "d1"), ("counters", "b1"))
"""Documents of the three shards."""
IMPATIENCE = (0.003, 0.01, 0.03, 0.1)
PAUSES = (0.0, 0.05, 0.3, 1.0)


class DoubtedTransaction(OpenTransaction):
    """Its client does not wait for the first answer to its commit, and asks again after the last one."""

    async def commit(self) -> None:
        """See `OpenTransaction`. Errors: Aborted too where a later answer says so."""
        dice = self._client.dice
        if dice.random() < 0.6:
            await self._doubt(dice.choice(IMPATIENCE), elsewhere=False)
        await super().commit()
        while dice.random() < 0.6:
            await self._doubt(self._client.seconds, elsewhere=dice.random() < 0.2)

    async def _doubt(self, seconds: float, *, elsewhere: bool) -> None:
        dice = self._client.dice
        try:
            await self.ask_for_commit(elsewhere=elsewhere, seconds=seconds)
        except NetworkError:
            pass
        except CommandError as error:
            if TRANSIENT in error.labels:
                raise Aborted(repr(error)) from error
        await asyncio.sleep(dice.choice(PAUSES) * dice.random())


async def three_shards(world: World) -> SimulatedCluster:
    """Of one member each; the third has counters alone."""
    cluster = await a_bank(world, members=1, shards=3)
    namespace = f"{DATABASE}.counters"
    await cluster.admin({"split": namespace, "middle": {"_id": "d"}})
    await cluster.admin({"moveChunk": namespace, "find": {"_id": "d"}, "to": "shard2"})
    await cluster.settled()
    return cluster


async def count_beside_reads(client: Client, work: Workload) -> None:
    """Add to counters of one or two shards, and read of others."""
    turn(client)
    dice = client.dice
    if dice.random() < 0.2:
        await act(client, work)
        return
    keys = dice.sample(COUNTERS, dice.choice((1, 1, 2)))
    operations = [client.history.invoke(client.number, Kind.ADD, key, 1, w="majority") for key in keys]

    async def read(transaction: OpenTransaction) -> None:
        for name, key in dice.sample(READS, dice.choice((1, 2))):
            await transaction.find(name, {"_id": key})
            await think(client)

    async def body(transaction: OpenTransaction) -> None:
        before = dice.random() < 0.5
        if before:
            await read(transaction)
        for key in keys:
            await transaction.change("counters", {"_id": key}, {"$inc": {"number": 1}}, upsert=True)
        if not before:
            await read(transaction)

    first, *others = operations
    await carry_out(client, first, body, opens=DoubtedTransaction)
    for other in others:
        if first.outcome is not Outcome.UNKNOWN:
            (client.history.ok if first.ok else client.history.failed)(other)


SCENARIOS = (
    Scenario(
        name="repeated-commits",
        what="commits that are asked for again while readers restart",
        topology=three_shards,
        run=functools.partial(
            transacting, count=6, moments=(*ENDS, *ENDS, *COMMIT), kinds=KINDS, act=count_beside_reads
        ),
    ),
)
