"""What clients do in a schedule, and what their histories must show when all has come to rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import count
from typing import Any

import bson

from tests.checkers.durability import check_counters, check_inserts, check_rollback_files
from tests.checkers.history import Anomaly, History, of_majority
from tests.checkers.lists import check_lists
from tests.checkers.registers import check_registers
from tests.checkers.sessions import check_sessions
from tests.simulation.clients import SECONDARY, Client, Target
from tests.simulation.process import Incarnation
from tests.simulation.world import Broken, World

PAUSE_SECONDS = 0.02


class Workload:
    """Clients on machines of their own. `target` is made in each client's process, and says where commands go.

    Written values are unique within the schedule: a read tells which write it saw.
    """

    def __init__(self, world: World, target: Callable[[], Target], *, clients: int) -> None:
        self.world = world
        self.history = History(clock=lambda: world.now)
        self.over = False
        self._target = target
        self._values = count(1)
        self._running = 0
        self._count = clients

    def start(self, act: Callable[[Client, Workload], Awaitable[None]] | None = None) -> None:
        """Let the clients begin."""
        for number in range(self._count):
            dice = random.Random(self.world.client_dice.getrandbits(64))
            self._running += 1
            self.world.machine(f"client{number}", self._program(number, dice, act or any_operation)).start()

    def _program(
        self, number: int, dice: random.Random, act: Callable[[Client, Workload], Awaitable[None]]
    ) -> Callable[[Incarnation], Awaitable[None]]:
        async def program(process: Incarnation) -> None:
            client = Client(number, self.history, self._target(), dice)
            while not self.over:
                before = len(self.history)
                await act(client, self)
                for operation in self.history.operations[before:]:
                    if operation.process == number:
                        self.world.tell(process.name, str(operation))
                await asyncio.sleep(dice.expovariate(1 / PAUSE_SECONDS))
            self._running -= 1

        return program

    def value(self) -> int:
        """A value that nobody has written."""
        return next(self._values)

    async def stop(self) -> None:
        """Return when every client has ended its last operation."""
        self.over = True
        end = self.world.now + 60.0
        while self._running:
            if self.world.now > end:
                raise Broken(f"{self._running} clients never got an answer to their last operation")
            await asyncio.sleep(0.05)


async def any_operation(client: Client, work: Workload) -> None:
    """One of everything: registers, lists in causal sessions, counters, inserts with all concerns."""
    dice = client.dice
    kind = dice.random()
    w: int | str = "majority" if dice.random() < 0.7 else 1
    if kind < 0.35:
        key = dice.choice("ab")
        which = dice.random()
        if which < 0.45:
            await client.set_register(key, work.value(), w)
        elif which < 0.6:
            known = client.known.get(key, 0)
            await client.compare_and_set(key, known, work.value())
        else:
            client.known[key] = await client.read_register(key) or 0
    elif kind < 0.65:
        key, session = dice.choice("xy"), f"session {client.number}"
        if dice.random() < 0.5:
            await client.append(key, work.value(), "majority", session=session)
        else:
            options = {"read_preference": SECONDARY} if dice.random() < 0.6 else {}
            await client.read_list(key, "majority", session=session, **options)
    elif kind < 0.8:
        await client.add(dice.choice("mn"), w)
    else:
        await client.insert("inserts", f"{client.number}-{work.value()}", w, retryable=dice.random() < 0.5)


async def final_state(ask: Target, database: str = "test") -> dict[str, list[dict[str, Any]]]:
    """All documents by collection, as a majority has them."""
    found = {}
    for name in ("registers", "lists", "counters", "inserts"):
        command = {"find": name, "readConcern": {"level": "majority"}, "batchSize": 100_000}
        reply = bson.decode(await ask(database, command, retry=True, timeout=20.0))
        found[name] = reply["cursor"]["firstBatch"]
    return found


def anomalies(history: History, final: dict[str, list[dict[str, Any]]]) -> list[Anomaly]:
    """What no correct set does."""
    lists = {each["_id"]: each["list"] for each in final["lists"]}
    return [
        *check_registers(of_majority(history)),
        *check_lists(history, lists),
        *check_sessions(history, lists),
        *check_counters(history, {each["_id"]: each["number"] for each in final["counters"]}),
        *check_inserts(history, {each["_id"] for each in final["inserts"]}),
    ]


def rolled_back(
    history: History, final: dict[str, list[dict[str, Any]]], world: World, lost: Iterable[bytes] = ()
) -> list[Anomaly]:
    """Inserts and appends that were acknowledged and are gone must be in a rollback file on a member's disk.

    `lost`: entries of logs that went with the power of a machine. What they say may be nowhere.
    """
    kept = []
    for machine in world.machines.values():
        for file in sorted(machine.disk.path.rglob("*.bson")):
            kept += bson.decode_all(whole_documents(file.read_bytes()))
    elements = {(each["_id"], element) for each in kept for element in each.get("list", ())}
    ids = {each["_id"] for each in kept if "_id" in each}
    for entry in map(bson.decode, lost):
        ids.add(entry["o"].get("_id"))
        elements |= {(entry.get("o2", entry["o"]).get("_id"), number) for number in _numbers(entry["o"])}
    return check_rollback_files(
        history,
        final_ids={each["_id"] for each in final["inserts"]},
        final_lists={each["_id"]: each["list"] for each in final["lists"]},
        kept_ids=ids,
        kept_elements=elements,
    )


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
    elif isinstance(value, int):
        yield value


def whole_documents(data: bytes) -> bytes:
    """What a file holds but for a torn end."""
    at = 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "little")
        if size < 5 or at + size > len(data):
            break
        at += size
    return data[:at]
