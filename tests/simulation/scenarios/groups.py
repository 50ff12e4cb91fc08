"""Commands of many statements that each ask for one `_id`, while chunks move on shards of one member.

A data node carries such statements out side by side, in groups. Each command must be told what follows from what it
consists of: most documents are one client's own, so that it knows what is in them, and the others are never deleted.
Some commands are sent twice under one transaction number, the second time perhaps before the first one is answered;
both must be told the same. Where nothing goes wrong none may fail.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import bson

from tests.checkers.history import Anomaly, Kind, Operation
from tests.simulation.clients import Client, Refused, Unknown
from tests.simulation.process import Machine
from tests.simulation.scenarios import moves
from tests.simulation.scenarios.handover import HOT, WIDTH, Documents, a_small_cluster, handing_over
from tests.simulation.schedule import Scenario
from tests.simulation.sharded import COLLECTION, SimulatedCluster
from tests.simulation.transactions import OpenTransaction
from tests.simulation.workloads import Workload

APART = 100_000
"""How far the `_id`s of two chunks are from each other, where they are in the order of chunks."""
SIZES = (2, 3, 8, 20, 80)
"""Of commands, in statements; the largest are more than one group."""
SHARED = 12
"""Documents that all clients update."""
FAULTS = ("kill", "power", "isolate", "pause", "step down", "resets", "slow link")
HOLDER = 0
"""The client that has transactions."""


class Command(StrEnum):
    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"
    """In a bulkWrite alone."""


@dataclass(slots=True)
class Statement:
    """What one asks for, and what must come of it: `n` documents concerned, `modified` ones, perhaps one `made`."""

    kind: Command
    key: int
    change: Any = None
    where: dict[str, Any] = field(default_factory=dict)
    """Besides the `_id`."""
    n: int = 1
    modified: int = 1
    upsert: bool = False
    made: bool = False

    def alone(self) -> dict[str, Any]:
        """As an update or delete command has it."""
        where = {"_id": self.key, **self.where}
        if self.kind is Command.DELETE:
            return {"q": where, "limit": 1}
        return {"q": where, "u": self.change, "upsert": self.upsert}

    def among_others(self) -> dict[str, Any]:
        """As a bulkWrite has it."""
        where = {"_id": self.key, **self.where}
        match self.kind:
            case Command.INSERT:
                return {"insert": 0, "document": {"_id": self.key, **self.change}}
            case Command.DELETE:
                return {"delete": 0, "filter": where}
        return {"update": 0, "filter": where, "updateMods": self.change, "upsert": self.upsert}


@dataclass(frozen=True, slots=True)
class Told:
    """What a reply says, or must say: of all statements together, and the `_id`s of documents that upserts made."""

    n: int
    modified: int
    made: tuple[int, ...]


class ById(Documents):
    """Of a collection that is sharded by `_id`, so that statements for one shard are one request."""

    sharded_by = ("_id", APART)
    forgetful = 0.2
    sizes: tuple[int, ...] = SIZES
    may_fail = False
    """Whether a command may get no answer, or be refused."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: list[int] = []
        self._mine: dict[int, dict[int, list[int]]] = {}
        """By client the documents that it alone writes to, with the tags that they have."""

    def routers(self, cluster: SimulatedCluster) -> list[list[Machine]]:
        """See the base. A transaction is with one router."""
        others = [cluster.routers] * 7
        return [cluster.routers[:1], *others]

    async def act(self, client: Client, work: Workload) -> None:
        """See the base."""
        if len(self._shared) < SHARED:
            await self.insert_shared(client, work)
        elif client.number == HOLDER:
            await self.have_others_wait(client, work)
        elif client.dice.random() < 0.1:
            await self.find_all(client)
        else:
            await self.send(client, work)

    async def insert_shared(self, client: Client, work: Workload) -> None:
        place = client.dice.choice(HOT)
        key = place * APART + work.value()
        self._keys[key] = place * WIDTH
        operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
        row = {"_id": key, "k": place * WIDTH, "tags": []}
        writing = client.write({"insert": moves.NAME, "documents": [row]}, "majority", retryable=True)
        await client.record(operation, client._done(writing))
        if operation.ok:
            self._shared.append(key)

    async def have_others_wait(self, client: Client, work: Workload) -> None:
        """Have a document in a transaction for a while, which groups that ask for it meet."""
        key, tag = client.dice.choice(self._shared), work.value()
        operation = client.history.invoke(client.number, Kind.UPDATE_BY_ID, key, tag, w="majority")
        # Of whatever time the shard is at: what other clients were told of is there.
        transaction = OpenTransaction(client, {"level": "local"})
        where = {"_id": key, "k": self._keys[key]}
        changing = transaction.change_alone(moves.NAME, where, {"$push": {"tags": tag}}, stays=0.03)
        await client.record(operation, changing)
        await asyncio.sleep(client.dice.uniform(0.0, 0.4))

    # Commands

    def ordered(self, client: Client) -> bool:
        """Whether the next command is."""
        return client.dice.random() < 0.7

    async def send(self, client: Client, work: Workload) -> None:
        """One command of many statements, of one kind or a bulkWrite."""
        ordered = self.ordered(client)
        kind = client.dice.choice((Command.UPDATE, Command.UPDATE, Command.DELETE, None))
        statements: list[Statement] = []
        operations: list[Operation] = []
        for statement, operation in self._statements(client, work, kind, ordered=ordered):
            statements.append(statement)
            operations += [] if operation is None else [operation]
        if kind is None:
            command: dict[str, Any] = {
                "bulkWrite": 1, "ops": [each.among_others() for each in statements],
                "nsInfo": [{"ns": COLLECTION}], "ordered": ordered,
            }  # fmt: skip
        else:
            command = {kind.value: moves.NAME, f"{kind}s": [each.alone() for each in statements], "ordered": ordered}
        due = Told(
            sum(each.n for each in statements), sum(each.modified for each in statements if each.n and not each.made),
            tuple(each.key for each in statements if each.made),
        )  # fmt: skip
        try:
            replies = await self._asked(client, command)
        except (Refused, Unknown) as error:
            if not self.may_fail:
                self.refused.append(Anomaly("refused beside moves", str(error)[:500], tuple(operations[:1])))
            for operation in operations:
                client.history.unknown(operation)
            for each in statements:
                # What is in it nobody knows any more.
                self._mine.get(client.number, {}).pop(each.key, None)
            return
        for reply in replies:
            told = _told(reply)
            if told != due:
                text = f"{told} where {due} was to be told of {command}"
                self.refused.append(Anomaly("not carried out once each", text[:2000], tuple(operations[:1])))
        for operation in operations:
            client.history.ok(operation, None if operation.kind is Kind.INSERT else 1)

    async def _asked(self, client: Client, command: dict[str, Any]) -> list[dict[str, Any]]:
        """The replies: several where it is sent again. Errors: Refused, Unknown."""
        dice = client.dice
        if dice.random() < 0.3:
            return [await client.write(command, "majority")]
        numbered = {**command, **client.next_number(), "writeConcern": {"w": "majority"}}
        first = asyncio.ensure_future(client.command(numbered, repeatable=True))
        if dice.random() < 0.5:
            return [await first]
        if dice.random() < 0.5:
            await asyncio.wait([first])
        await asyncio.sleep(dice.choice((0.0, 0.001, 0.01, 0.05)))
        second = asyncio.ensure_future(client.command(numbered, repeatable=True))
        await asyncio.wait([first, second])
        return [first.result(), second.result()]

    def _statements(
        self, client: Client, work: Workload, kind: Command | None, *, ordered: bool
    ) -> Iterator[tuple[Statement, Operation | None]]:
        """Those of a command with what each does in the history; of any kind where no `kind` is given."""
        dice = client.dice
        places = [dice.choice(HOT) for _ in range(dice.choice((1, 1, 2, 4)))]
        place, chosen = places[0], Command.UPDATE
        used: set[int] = set()
        for _ in range(dice.choice(self.sizes)):
            if dice.random() < 0.3:
                place = dice.choice(places)
            if kind is None and dice.random() < 0.2:
                chosen = dice.choice((Command.INSERT, Command.UPDATE, Command.UPDATE, Command.DELETE))
            # Nobody says in which order those of one that is not ordered are carried out.
            free = {key for key in self._mine.get(client.number, ()) if ordered or key not in used}
            here = sorted(key for key in free if key // APART == place) or sorted(free)
            shared = [key for key in self._shared if key // APART in places and (ordered or key not in used)]
            match kind or chosen:
                case Command.INSERT:
                    statement, operation = self._make(client, work, place, Command.INSERT)
                case Command.DELETE:
                    statement, operation = self._delete(client, work, place, here)
                case _:
                    statement, operation = self._change(client, work, place, here, shared)
            used.add(statement.key)
            yield statement, operation

    def _delete(
        self, client: Client, work: Workload, place: int, keys: list[int]
    ) -> tuple[Statement, Operation | None]:
        if not keys or client.dice.random() < 0.2:
            return Statement(Command.DELETE, place * APART + work.value(), n=0, modified=0), None
        key = client.dice.choice(keys)
        del self._mine[client.number][key]
        operation = client.history.invoke(client.number, Kind.DELETE, key, w="majority")
        return Statement(Command.DELETE, key, modified=0), operation

    def _change(
        self, client: Client, work: Workload, place: int, keys: list[int], shared: list[int]
    ) -> tuple[Statement, Operation | None]:
        dice = client.dice
        kind, mine = dice.random(), self._mine.get(client.number, {})
        if kind < 0.1:
            return Statement(Command.UPDATE, place * APART + work.value(), {"$set": {"by": 0}}, n=0, modified=0), None
        if kind < 0.15 and shared:
            return Statement(Command.UPDATE, dice.choice(shared), {"$unset": {"nothing": 1}}, modified=0), None
        if kind < 0.3 and shared:
            key, tag = dice.choice(shared), work.value()
        elif kind < 0.55 or not keys:
            return self._make(client, work, place, Command.UPDATE)
        else:
            key, tag = dice.choice(keys), work.value()
        operation = client.history.invoke(client.number, Kind.UPDATE_BY_ID, key, tag, w="majority")
        changes: list[Any] = [{"$push": {"tags": tag}}] * 6
        changes += [{"$push": {"tags": tag}, "$set": {"by": client.number}}, {"$push": {"tags": {"$each": [tag]}}}]
        changes += [[{"$set": {"tags": {"$concatArrays": ["$tags", [tag]]}}}]]
        if key in mine:
            mine[key].append(tag)
            changes.append({"k": self._keys[key], "tags": list(mine[key])})
        return Statement(Command.UPDATE, key, dice.choice(changes), upsert=self._upserts(dice.random())), operation

    def _make(self, client: Client, work: Workload, place: int, kind: Command) -> tuple[Statement, Operation | None]:
        """Insert a new document, by an upsert where the kind is an update."""
        key, number, tag = place * APART + work.value(), place * WIDTH, work.value()
        self._keys[key] = number
        self._mine.setdefault(client.number, {})[key] = [tag]
        operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
        whole = {"k": number, "tags": [tag]}
        if kind is Command.INSERT:
            return Statement(kind, key, whole, modified=0), operation
        change: dict[str, Any] = whole
        if client.dice.random() < 0.7:
            change = {"$push": {"tags": tag}, "$setOnInsert": self._set_where_made(number)}
        return Statement(kind, key, change, self.where_made(number), upsert=True, made=True), operation

    def _upserts(self, chance: float) -> bool:
        """Whether an update of what is there would insert it if it were not."""
        return chance < 0.2 and self.sharded_by[0] == "_id"

    def where_made(self, number: int) -> dict[str, Any]:
        """What an upsert asks for besides the `_id`."""
        return {}

    def _set_where_made(self, number: int) -> dict[str, Any]:
        return {"by": 0, **({} if self.where_made(number) else {"k": number})}

    # The end

    async def anomalies(self, cluster: SimulatedCluster, work: Workload) -> list[Anomaly]:
        """See the base. What a client alone has written to is as its commands have made it."""
        found = await super().anomalies(cluster, work)
        database, _, name = COLLECTION.partition(".")
        final = {each["_id"]: each["tags"] for each in await cluster.all_documents(cluster.routers[0], database, name)}
        for number, documents in self._mine.items():
            for key, tags in documents.items():
                if final.get(key) != tags:
                    text = f"{key} has {final.get(key)}, where client {number} has left {tags}"
                    found.append(Anomaly("not carried out once each", text))
        return found


class AmidFaults(ById):
    """Where primaries die, and what was carried out under one is asked for again of the next."""

    may_fail = True
    clients = 3
    sizes = SIZES[:4]


class ByNumber(ById):
    """Of a collection that is sharded by something else: what is asked by `_id` alone goes to all shards, which must
    leave alone what is not theirs.
    """

    sharded_by = ("k", WIDTH)
    clients = 5

    def ordered(self, client: Client) -> bool:
        """See the base. Statements of an ordered command are sent one by one."""
        return client.dice.random() < 0.1

    def where_made(self, number: int) -> dict[str, Any]:
        """See the base."""
        return {"k": number}


def _told(reply: dict[str, Any]) -> Told:
    if "cursor" not in reply:
        made = tuple(each["_id"] for each in reply.get("upserted", ()))
        return Told(reply["n"], reply.get("nModified", 0), made)
    rows = reply["cursor"]["firstBatch"]
    made = tuple(each["upserted"]["_id"] for each in rows if "upserted" in each)
    n = sum(reply[name] for name in ("nInserted", "nMatched", "nUpserted", "nDeleted"))
    assert sum(each["n"] for each in rows) == n, f"a bulkWrite whose parts are not the whole: {bson.encode(reply)!r}"
    return Told(n, reply["nModified"], made)


SCENARIOS = (
    Scenario(
        name="groups",
        what="two shards of one: chunks move while commands have many statements by the shard key, which is the _id",
        topology=functools.partial(a_small_cluster, key="_id", width=APART),
        run=functools.partial(handing_over, kind=ById),
    ),
    Scenario(
        name="groups-everywhere",
        what="two shards of one: chunks move while commands have many statements by _id, which go to all shards",
        topology=a_small_cluster,
        run=functools.partial(handing_over, kind=ByNumber),
    ),
    Scenario(
        name="groups-faults",
        what="two shards of three: chunks move and faults come while commands have many statements by the shard key",
        topology=functools.partial(a_small_cluster, members=3, key="_id", width=APART),
        run=functools.partial(handing_over, kind=AmidFaults, faults=FAULTS),
    ),
)
