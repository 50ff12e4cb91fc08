"""Changes of definitions are seen by every router from the moment they are acknowledged, and whole.

Each operator has collections of its own, so it knows what must be: after every acknowledged statement it asks through
some router, perhaps another one, whether the collection, its options and indexes are there, and exactly the documents
that were inserted since it was made. A statement whose outcome is not known makes it go on with a new name; what has
become of the old one must still be the same to all routers and owners in the end. Nobody is cut off or paused here, so
no deposed primary answers.
"""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docstore.errors import Code, CommandError
from docstore.net import NetworkError
from tests.checkers.history import Anomaly
from tests.simulation.cluster_faults import ClusterNemesis
from tests.simulation.cluster_leaks import no_leaks
from tests.simulation.moments import COORDINATION, MIGRATION, ROUTING
from tests.simulation.process import Machine
from tests.simulation.scenarios.ddl import a_cluster
from tests.simulation.scenarios.elections import judge
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import SimulatedCluster
from tests.simulation.world import Broken, World

KEYS = 100
SECONDS = 20.0
ANSWER_SECONDS = 60.0
KINDS = ("kill", "kill", "power", "blink", "step down", "die at write")
MAJORITY = {"writeConcern": {"w": "majority"}}
STATEMENTS = (
    "create", "shard", "shard", "index", "index", "refused index", "drop index", "validator", "drop", "rename", "move",
    "move", "split", "insert", "insert", "insert", "many",
)  # fmt: skip


@dataclass(slots=True)
class Expected:
    """What a collection must be."""

    name: str
    exists: bool = False
    sharded: bool = False
    indexes: set[str] = field(default_factory=set)
    validator: int | None = None
    documents: set[str] = field(default_factory=set)


class Operator:
    """Changes collections of its own and looks at what has come of it."""

    def __init__(self, cluster: SimulatedCluster, dice: random.Random, number: int) -> None:
        self._cluster = cluster
        self._dice = dice
        self._number = number
        self._count = 0
        self._code = 0
        """Of the error of the last statement."""
        self.names: list[str] = []
        self.found: list[Anomaly] = []
        self.over = False
        self.mine = self._new()

    def _new(self) -> Expected:
        self._count += 1
        self.names.append(f"own{self._number}x{self._count}")
        return Expected(self.names[-1])

    async def run(self) -> None:
        while not self.over and not self.found:
            kind = self._dice.choice(STATEMENTS)
            if await self._act(kind):
                await self._look(kind)
            await asyncio.sleep(self._dice.expovariate(1 / 0.02))

    # Statements

    async def _act(self, kind: str) -> bool:
        """Whether there is something to look at."""
        mine, dice = self.mine, self._dice
        index = f"index{dice.randrange(2)}"
        match kind:
            case "create" if not mine.exists:
                return await self._change({"create": mine.name}, exists=True)
            case "shard" if not mine.sharded:
                command = {"shardCollection": f"test.{mine.name}", "key": {"k": 1}}
                indexes = {*mine.indexes, "k_1"}
                return await self._change(command, "admin", exists=True, sharded=True, indexes=indexes)
            case "index" if index not in mine.indexes:
                command = {"createIndexes": mine.name, "indexes": [{"key": {index: 1}, "name": index}]}
                return await self._change(command, exists=True, indexes={*mine.indexes, index})
            case "refused index" if mine.sharded and index in mine.indexes:
                return await self._refused(index)
            case "drop index" if index in mine.indexes:
                command = {"dropIndexes": mine.name, "index": index}
                return await self._change(command, indexes=mine.indexes - {index})
            case "validator" if mine.exists:
                number = dice.randrange(1000, 2000)
                command = {"collMod": mine.name, "validator": {"k": {"$lt": number}}}
                return await self._change(command, validator=number)
            case "drop" if mine.exists:
                gone = {"exists": False, "sharded": False, "indexes": set(), "validator": None, "documents": set()}
                return await self._change({"drop": mine.name}, **gone)
            case "rename" if mine.exists and not mine.sharded:
                to = self._new().name
                command = {"renameCollection": f"test.{mine.name}", "to": f"test.{to}"}
                return await self._change(command, "admin", name=to)
            case "insert":
                return await self._insert()
            case "many" if mine.documents:
                return await self._update_many()
            case "move" | "split" if mine.sharded:
                await self._send(*self._of_chunks(kind))
                return True
        return False

    def _of_chunks(self, kind: str) -> tuple[dict[str, Any], str]:
        namespace, key = f"test.{self.mine.name}", self._dice.randrange(1, KEYS)
        if kind == "split":
            return {"split": namespace, "middle": {"k": key}}, "admin"
        return {"moveChunk": namespace, "find": {"k": key}, "to": self._dice.choice(("shard0", "shard1"))}, "admin"

    async def _change(self, command: dict[str, Any], database: str = "test", **after: Any) -> bool:
        if await self._send(command, database) is None:
            self.mine = self._new()
            return False
        for name, value in after.items():
            setattr(self.mine, name, value)
        self._cluster.world.counts["acknowledged"] = self._cluster.world.counts.get("acknowledged", 0) + 1
        return True

    async def _refused(self, known: str) -> bool:
        """A build of one that is there, one that is new and one that cannot be: nothing changes."""
        keys = {known: {known: 1}, "new": {"new": 1}, "k_1": {"k": 1, "other": 1}}
        indexes = [{"key": key, "name": name} for name, key in keys.items()]
        command = {"createIndexes": self.mine.name, "indexes": indexes}
        if await self._send(command, "test") is not None:
            self._wrong("refusal", f"{command} was not refused of {self.mine}")
        if self._code == Code.IndexKeySpecsConflict:
            return True
        self.mine = self._new()
        return False

    async def _insert(self) -> bool:
        self._count += 1
        document = {"_id": f"{self._number}-{self._count}", "k": self._dice.randrange(KEYS)}
        mine = self.mine
        if await self._send({"insert": mine.name, "documents": [document], **MAJORITY}, "test") is None:
            self.mine = self._new()
            return False
        mine.documents.add(document["_id"])
        mine.exists = True
        return True

    async def _update_many(self) -> bool:
        update = {"q": {}, "u": {"$inc": {"times": 1}}, "multi": True}
        reply = await self._send({"update": self.mine.name, "updates": [update], **MAJORITY}, "test")
        if reply is not None and reply["n"] != len(self.mine.documents):
            self._wrong("not each once", f"an update met {reply['n']} of {len(self.mine.documents)}")
        return False

    async def _send(self, command: dict[str, Any], database: str) -> dict[str, Any] | None:
        """The reply; None where it failed."""
        world, machine = self._cluster.world, self._router()
        told = f"{machine.name}: {command}"
        world.tell(f"own{self._number}", told)
        self._code = 0
        try:
            async with asyncio.timeout(SECONDS):
                reply: dict[str, Any] = await self._cluster.admin(command, database, on=machine)
        except (CommandError, NetworkError, TimeoutError) as error:
            world.tell(f"own{self._number}", f"{told}: {error!r}"[:240])
            self._code = error.code if isinstance(error, CommandError) else 0
            return None
        world.tell(f"own{self._number}", f"{told}: done")
        return None if "writeErrors" in reply or "writeConcernError" in reply else reply

    def _router(self) -> Machine:
        return self._dice.choice(self._cluster.routers)

    # What must be seen

    async def _look(self, kind: str) -> None:
        mine, router = self.mine, self._router()
        listed = await self._ask(router, {"listCollections": 1, "filter": {"name": mine.name}, "cursor": {}})
        found = listed["cursor"]["firstBatch"]
        if bool(found) != mine.exists:
            self._wrong("definition", f"after {kind} {router.name} lists {found} of {mine}")
            return
        if mine.exists:
            options = found[0].get("options", {})
            if (options.get("validator") or {}).get("k", {}).get("$lt") != mine.validator:
                self._wrong("definition", f"after {kind} {router.name} shows the options {options} of {mine}")
            shown = await self._ask(router, {"listIndexes": mine.name, "cursor": {}})
            names = {each["name"] for each in shown["cursor"]["firstBatch"]} - {"_id_"}
            if names != mine.indexes:
                self._wrong("definition", f"after {kind} {router.name} shows the indexes {sorted(names)} of {mine}")
        read = await self._ask(router, {"find": mine.name, "batchSize": 100_000, "readConcern": {"level": "majority"}})
        ids = [each["_id"] for each in read["cursor"]["firstBatch"]]
        if sorted(ids) != sorted(mine.documents):
            self._wrong("documents", f"after {kind} {router.name} shows {sorted(ids)} of {mine}")

    async def _ask(self, router: Machine, command: dict[str, Any]) -> dict[str, Any]:
        """The answer, when there is one."""
        end = self._cluster.world.now + ANSWER_SECONDS
        while True:
            try:
                async with asyncio.timeout(5.0):
                    return dict(await self._cluster.admin(command, "test", on=router))
            except (CommandError, NetworkError, TimeoutError) as error:
                if isinstance(error, CommandError) and error.code == Code.NamespaceNotFound:
                    return {"cursor": {"firstBatch": []}}
                if self._cluster.world.now > end:
                    raise Broken(f"{router.name} does not answer {command}: {error}") from error
            await asyncio.sleep(0.1)

    def _wrong(self, what: str, text: str) -> None:
        self.found.append(Anomaly(f"acknowledged {what} not seen", text))


async def changing(
    world: World, cluster: SimulatedCluster, *, kinds: Sequence[str] = (), count: int = 0, seconds: float = 2.5
) -> None:
    """Three operators, perhaps faults; then all routers and owners agree on whatever there is."""
    world.network.base, world.network.jitter = world.fault_dice.choice(((3e-4, 5e-4), (3e-4, 2e-3), (5e-4, 5e-3)))
    nemesis = ClusterNemesis(cluster)
    nemesis.plan((*COORDINATION, *COORDINATION, *MIGRATION, *ROUTING), kinds, count)
    operators = [Operator(cluster, random.Random(world.client_dice.getrandbits(64)), number) for number in range(3)]
    running = [asyncio.ensure_future(each.run()) for each in operators]
    await asyncio.sleep(seconds)
    nemesis.end()
    for operator in operators:
        operator.over = True
    await asyncio.gather(*running)
    judge([found for operator in operators for found in operator.found])
    await cluster.settled()
    judge([*await _agree(cluster, [name for each in operators for name in each.names])])
    judge([*await cluster.catalogs(), *await cluster.member_anomalies()])
    await no_leaks(cluster, cursors=not count)
    world.counts |= {"faults": nemesis.done}


async def _agree(cluster: SimulatedCluster, names: list[str]) -> list[Anomaly]:
    """Both routers show the same documents of every name, each once."""
    found = []
    for name in names:
        shown = []
        for router in cluster.routers:
            shown.append(sorted(each["_id"] for each in await cluster.all_documents(router, "test", name)))
        if shown[0] != shown[1] or len(shown[0]) != len(set(shown[0])):
            found.append(Anomaly("routers differ", f"test.{name}: {shown[0]} and {shown[1]}"))
    return found


SCENARIOS = (
    Scenario(
        name="acknowledged",
        what="operators change collections of their own and see each change from everywhere at once",
        topology=a_cluster,
        run=changing,
    ),
    Scenario(
        name="acknowledged-moments",
        what="the same; processes die and primaries change at the phases",
        topology=a_cluster,
        run=functools.partial(changing, kinds=KINDS, count=3),
    ),
)
