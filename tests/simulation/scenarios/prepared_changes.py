"""Indexes come and go while transactions are prepared on shards whose primaries change, as do those of coordinators.

What is prepared stays so until its coordinator has a primary again. Whoever becomes primary of a participant meanwhile
keeps the collections as they are: an index that is built then would lack what the transaction has written.
"""

from __future__ import annotations

import functools
import random
from typing import Any

from tests.checkers.history import Anomaly
from tests.simulation.clients import DATABASE, Client, Unknown
from tests.simulation.routed import Routers, Times, a_bank, act, turn
from tests.simulation.scenarios.routed_transactions import LONG_SECONDS, transacting
from tests.simulation.scenarios.transactions_ddl import Changes
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.transactions import Aborted, OpenTransaction, transfer
from tests.simulation.workloads import Workload
from tests.simulation.world import World

MOMENTS = (
    "participant prepared", "participant prepared", "participant's vote heard", "decision on its way to disk",
)  # fmt: skip
KINDS = ("step down", "step down", "kill")
INDEX = {"key": {"balance": 1, "n": 1}, "name": "both"}


class IndexChanges(Changes):
    """See `Changes`: of one index, and looked at by it."""

    async def act(self, client: Client, work: Workload) -> None:
        """A transfer, or a look at the accounts by the index."""
        turn(client)
        kinds = (transfer, self._compare, act)
        await client.dice.choices(kinds, (60, 25, 15))[0](client, work)

    async def _compare(self, client: Client, _work: Workload) -> None:
        transaction = OpenTransaction(client)
        try:
            shown: list[dict[str, Any]] = []
            for hint in client.dice.sample(("both", "_id_"), 2):
                rows = await transaction.find("accounts", {}, hint=hint)
                shown.append({row["_id"]: row["balance"] for row in rows})
            if shown[0] != shown[1]:
                self.found.append(Anomaly("index differs in a transaction", f"{shown[0]} and {shown[1]}"))
            await transaction.commit()
        except (Aborted, Unknown):
            await transaction.abort()

    async def operate_on(self, cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
        """Build the index and drop it, until the workload is over."""
        world = cluster.world
        dice = random.Random(world.client_dice.getrandbits(64))
        while not work.over:
            ask = Routers(cluster, dice, Times())
            for command in (
                {"createIndexes": "accounts", "indexes": [INDEX]},
                {"dropIndexes": "accounts", "index": "both"},
            ):
                await self.change(world, ask, DATABASE, command, LONG_SECONDS)
        return self.found


async def changing(world: World, cluster: SimulatedCluster) -> None:
    changes = IndexChanges()
    await transacting(
        world, cluster, count=8, moments=MOMENTS, kinds=KINDS, also=(changes.operate_on,), act=changes.act
    )


SCENARIOS = (
    Scenario(
        name="prepared-changes",
        what="two shards of three: indexes come and go while prepared transactions outlive primaries",
        topology=functools.partial(a_bank, members=3),
        run=changing,
    ),
)
