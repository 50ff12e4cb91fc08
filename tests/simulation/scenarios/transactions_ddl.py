"""Transactions beside changes of the collections that they use, and ends that others make of them.

What a transaction uses stays as it is until it ends: collections are not dropped or renamed under it, indexes neither
come nor go. Who wants to change them waits, and not for longer than transactions may stay open. Those that stay open
for longer, or whose sessions are killed, have not happened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from docstore.collection.oplog import operations
from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from tests.checkers.history import Anomaly
from tests.simulation.clients import Client, Unknown, of_set, quietly
from tests.simulation.replica_set import SimulatedSet
from tests.simulation.scenarios.membership import ask_primary
from tests.simulation.scenarios.transactions import LARGE, LIFETIME_SECONDS, a_bank, transacting
from tests.simulation.schedule import Scenario
from tests.simulation.transactions import MAJORITY, Aborted, OpenTransaction, anything, think
from tests.simulation.workloads import Workload
from tests.simulation.world import World

SIDES = ("side", "other")
PATIENCE_SECONDS = LIFETIME_SECONDS + 6.0
"""Nobody waits for transactions for longer: those that one waits for may be open for `LIFETIME_SECONDS`, and no further
one begins to use the collection.
"""
EXPIRY_SECONDS = 2.5
"""How much longer a transaction may be open than it should: they are looked at every second."""
INDEX = {"key": {"n": 1}, "name": "n"}
Act = Callable[[Client, Workload], Coroutine[Any, Any, None]]
REFUSALS = (Code.NamespaceNotFound, Code.NamespaceExists, Code.IndexNotFound)


class Changes:
    """What clients and the operator of one schedule do beside the bank: `act`. `found`: the anomalies."""

    def __init__(self, act: Act = anything) -> None:
        self.found: list[Anomaly] = []
        self._anything = act
        self._sessions: dict[int, Any] = {}

    async def act(self, client: Client, work: Workload) -> None:
        self._sessions[client.number] = client.session
        kinds = (self._anything, self._use_side, self._insert_outside, self._by_new_index, self._stay)
        await client.dice.choices(kinds, (50, 25, 5, 15, 3))[0](client, work)

    async def _use_side(self, client: Client, work: Workload) -> None:
        """Insert into a collection that may be dropped or made at any time, and look at it twice."""
        transaction, name, mine = OpenTransaction(client), client.dice.choice(SIDES), []

        async def look() -> set[Any]:
            return {each["_id"] for each in await transaction.find(name, {})}

        try:
            before = await look() if client.dice.random() < 0.5 else None
            for _ in range(client.dice.randint(1, 3)):
                mine.append(work.value())
                await transaction.run({"insert": name, "documents": [{"_id": mine[-1], "text": "x" * 150}]})
                await think(client)
            seen = await look()
            await think(client)
            again = await look()
            if seen != again or not seen.issuperset(mine) or (before is not None and seen != before.union(mine)):
                text = f"{name} held {before}, {seen} with its own {mine}, and then {again}"
                self.found.append(Anomaly("changed under a transaction", text))
            await transaction.commit()
        except (Aborted, Unknown):
            await transaction.abort()

    async def _insert_outside(self, client: Client, work: Workload) -> None:
        command = {"insert": client.dice.choice(SIDES), "documents": [{"_id": work.value()}]}
        await quietly(client.write(command, "majority", retryable=True))

    async def _by_new_index(self, client: Client, _work: Workload) -> None:
        """An index that comes and goes shows what the documents say."""
        transaction = OpenTransaction(client)
        try:
            ways = [
                await transaction.find("accounts", {}, hint=hint, projection={"n": 1}, sort={"n": 1})
                for hint in client.dice.sample(("n", "_id_"), 2)
            ]
            shown = [{each["_id"]: each["n"] for each in way} for way in ways]
            if shown[0] != shown[1]:
                self.found.append(Anomaly("index differs in a transaction", f"{shown[0]} and {shown[1]}"))
            await transaction.commit()
        except (Aborted, Unknown):
            await transaction.abort()

    async def _stay(self, client: Client, work: Workload) -> None:
        """For longer than a transaction may, with a document that others want."""
        transaction, loop = OpenTransaction(client), asyncio.get_running_loop()
        try:
            await transaction.change("accounts", {"_id": "a0"}, {"$inc": {"balance": 1}})
            began = loop.time()
            await asyncio.sleep(LIFETIME_SECONDS + EXPIRY_SECONDS)
            await transaction.commit()
            text = f"a transaction was committed {loop.time() - began:.1f} s after its first statement"
            self.found.append(Anomaly("outlived its time", text))
        except (Aborted, Unknown):
            work.world.counts["expired"] = work.world.counts.get("expired", 0) + 1

    async def operate(self, world: World, members: SimulatedSet, work: Workload) -> list[Anomaly]:
        """Change collections and indexes, end sessions, until the clients are done."""
        dice = world.fault_dice
        ask = of_set(members.name, members.hosts)
        while not work.over:
            name, other = dice.sample(SIDES, 2)
            statements: tuple[tuple[str, dict[str, Any]], ...] = (
                ("test", {"drop": name}),
                ("test", {"create": name}),
                ("test", {"createIndexes": "accounts", "indexes": [INDEX]}),
                ("test", {"createIndexes": "accounts", "indexes": [INDEX]}),
                ("test", {"dropIndexes": "accounts", "index": "n"}),
                ("admin", {"renameCollection": f"test.{name}", "to": f"test.{other}", "dropTarget": True}),
                ("test", {"createIndexes": name, "indexes": [{"key": {"text": 1}, "name": "text"}]}),
            )
            await self.change(world, ask, *dice.choice(statements))
            if dice.random() < 0.2:
                await self._end_sessions(world, members)
            await asyncio.sleep(dice.expovariate(1 / 0.05))
        return self.found

    async def change(
        self, world: World, ask: Any, database: str, command: dict[str, Any], patience: float = PATIENCE_SECONDS
    ) -> None:
        """Carry out a statement of the operator, whatever comes of it but that it waits for longer than it may."""
        began = world.now
        try:
            await ask(database, {**command, "writeConcern": MAJORITY}, timeout=patience)
        except CommandError as error:
            world.tell("operator", f"{command}: {error!r}"[:200])
            if error.code not in REFUSALS:
                return
        except NetworkError as error:
            if world.now - began >= patience - 0.01:
                self.found.append(Anomaly("waits for ever", f"{command}: {error!r}"))
            return
        world.tell("operator", f"{command}: after {world.now - began:.3f} s")
        world.counts["changes"] = world.counts.get("changes", 0) + 1

    async def _end_sessions(self, world: World, members: SimulatedSet) -> None:
        if not self._sessions or world.fault_dice.random() < 0.5:
            await ask_primary(members, {"killAllSessions": []})
            return
        lsid = self._sessions[world.fault_dice.choice(sorted(self._sessions))]
        await ask_primary(members, {world.fault_dice.choice(("killSessions", "endSessions")): [lsid]})


async def changing(world: World, members: SimulatedSet) -> None:
    operations.MOST_BYTES = world.fault_dice.choice((LARGE, 16 << 20, 16 << 20))
    changes = Changes()

    async def stepping_down(world: World, members: SimulatedSet, _work: Workload) -> None:
        dice = world.fault_dice
        for _ in range(2):
            await asyncio.sleep(dice.uniform(1.5, 3.0))
            if dice.random() < 0.3:
                await ask_primary(members, {"replSetStepDown": 1, "secondaryCatchUpPeriodSecs": 1})
        await asyncio.sleep(1.0)

    await transacting(world, members, disturb=stepping_down, act=changes.act, also=(changes.operate,))


SCENARIOS = (
    Scenario(
        name="transactions-ddl",
        what="transactions beside drops, renames, index builds, and ends of their sessions",
        topology=a_bank,
        run=changing,
    ),
)
