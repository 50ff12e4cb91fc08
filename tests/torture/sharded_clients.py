"""Clients of a sharded collection by something else than its key, and those who move chunks and change collections.

`documents` is sharded by {k: 1}. A document's `_id` says to which group it belongs, and `g` says so too: updates of
many and finds of all mean a group, so every shard is asked. Each update leaves a tag of its own.

`late` is sharded by {k: 1} too. Its documents are there throughout; updates of one are sent again seconds later, by
whichever router, and once more at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid5

from bson.binary import Binary
from bson.int64 import Int64

from tests.checkers.history import Kind, Operation, Outcome
from tests.torture.caller import DATABASE, MAJORITY_MILLIS, Caller, World

DOCUMENTS = "documents"
LATE = "late"
LATE_DOCUMENTS = 20
LATE_SECONDS = 20.0
MAX_LATE_WRITES = 300
"""So many may be sent again, of each client."""
GROUPS = 8
KEYS = 10_000
MANY_SECONDS = 15.0
MOVED_DATABASES = 0.15
"""The part of moves that are of a database's unsharded collections."""
CHANGING = "torture_changing"
"""The database whose collections come and go."""
CHANGING_COLLECTIONS = 3
INDEX = {"key": {"a": 1}, "name": "a_1"}


def group_of(id_: str) -> int:
    return int(id_.split("-")[1])


def concerns(operation: Operation, id_: Any) -> bool:
    """Whether an update or find of many means a document."""
    return str(operation.key) == f"group {group_of(id_)}" if str(id_).startswith("d-") else False


class ManyClient:
    """Documents that come and go, updates by `_id`, updates of many, finds of all."""

    def __init__(self, number: int, world: World, pause: float) -> None:
        self._caller = Caller(number, world)
        self._random = self._caller.random
        self._world = world
        self._pause = pause
        self._inserted: list[str] = []

    async def run(self) -> None:
        steps = [self._insert, self._insert, self._insert, self._delete, self._delete]
        steps += [self._by_id, self._by_id, self._by_id, self._by_id, self._many, self._find_all]
        try:
            while not self._world.stopped:
                await self._random.choice(steps)()
                await asyncio.sleep(self._random.expovariate(1 / self._pause))
        finally:
            self._caller.close()

    async def _insert(self) -> None:
        group = self._random.randrange(GROUPS)
        operation = self._caller.invoke(Kind.INSERT, f"d-{group}-{self._caller.value()}", w="majority")
        document = {"_id": operation.key, "k": self._random.randrange(KEYS), "g": group, "tags": []}
        outcome, _ = await self._caller.write({"insert": DOCUMENTS, "documents": [document]}, w="majority")
        self._caller.end(operation, outcome)
        if operation.ok:
            self._inserted.append(str(operation.key))

    async def _delete(self) -> None:
        if len(self._inserted) < 40:
            return
        key = self._inserted.pop(self._random.randrange(len(self._inserted)))
        operation = self._caller.invoke(Kind.DELETE, key, w="majority")
        command = {"delete": DOCUMENTS, "deletes": [{"q": {"_id": key}, "limit": 1}]}
        outcome, reply = await self._caller.write(command, w="majority")
        if outcome is Outcome.OK and not reply.get("n"):
            outcome = Outcome.UNKNOWN  # an update by id says whether documents are found
        self._caller.end(operation, outcome, reply.get("n"))

    async def _by_id(self) -> None:
        if not self._inserted:
            return
        tag = self._caller.value()
        operation = self._caller.invoke(Kind.UPDATE_BY_ID, self._random.choice(self._inserted), tag, w="majority")
        statement = {"q": {"_id": operation.key}, "u": {"$push": {"tags": tag}}}
        outcome, reply = await self._caller.write({"update": DOCUMENTS, "updates": [statement]}, w="majority")
        self._caller.end(operation, outcome, reply.get("n"))

    async def _many(self) -> None:
        tag, group = self._caller.value(), self._random.randrange(GROUPS)
        operation = self._caller.invoke(Kind.UPDATE_MANY, f"group {group}", tag, w="majority")
        statement = {"q": {"g": group}, "u": {"$push": {"tags": tag}}, "multi": True}
        command = {"update": DOCUMENTS, "updates": [statement]}
        outcome, reply = await self._caller.write(command, w="majority", timeout=MANY_SECONDS)
        # A statement over many that fails may have met some.
        outcome = Outcome.UNKNOWN if outcome is Outcome.FAILED else outcome
        self._caller.end(operation, outcome, reply.get("n"))

    async def _find_all(self) -> None:
        group = self._random.randrange(GROUPS)
        concern: dict[str, Any] = {"level": "majority"}
        if self._world.seen.operation is not None:
            concern["afterClusterTime"] = self._world.seen.operation
        operation = self._caller.invoke(Kind.FIND_ALL, f"group {group}", read_concern="majority")
        find = {"find": DOCUMENTS, "filter": {"g": group}, "projection": {"_id": 1}, "batchSize": 20}
        outcome, reply = await self._caller.favourite({**find, "readConcern": concern}, timeout=MANY_SECONDS)
        ids: list[str] = []
        while outcome is Outcome.OK:
            cursor = reply["cursor"]
            ids += [row["_id"] for row in cursor.get("firstBatch", cursor.get("nextBatch"))]
            if not cursor["id"]:
                break
            more = {"getMore": cursor["id"], "collection": DOCUMENTS, "batchSize": 20}
            outcome, reply = await self._caller.favourite(more, timeout=MANY_SECONDS)
        self._caller.end(operation, outcome if outcome is Outcome.OK else Outcome.FAILED, ids)


@dataclass(slots=True)
class LateWrite:
    """A retryable write that puts `tag` on a document; `due`: when it is sent again."""

    command: dict[str, Any]
    key: str
    tag: int
    due: float


class LateClient:
    """Sends retryable writes again, late and by any router, whatever it was told."""

    def __init__(self, number: int, world: World, pause: float) -> None:
        self._caller = Caller(number, world)
        self._random = self._caller.random
        self._world = world
        self._pause = pause
        self._keys = [f"w-{number}-{place}" for place in range(LATE_DOCUMENTS)]
        self._numbers: dict[str, int] = {}
        self._writes: list[LateWrite] = []

    async def run(self) -> None:
        now = self._world.history.clock
        try:
            await self._insert()
            while not self._world.stopped:
                due = [each for each in self._writes if each.due <= now()]
                write = self._random.choice(due) if due and self._random.random() < 0.6 else self._begin()
                write.due = now() + self._random.choice((0.1, 1.0, 5.0, LATE_SECONDS))
                await self._send(write)
                await asyncio.sleep(self._random.expovariate(1 / self._pause))
            for write in self._writes:
                await self._send(write, last=True)
        finally:
            self._caller.close()

    async def _insert(self) -> None:
        """The documents, until they are there for good."""
        updates = [
            {
                "q": {"_id": key, "k": place * KEYS // LATE_DOCUMENTS},
                "u": {"$setOnInsert": {"tags": []}},
                "upsert": True,
            }
            for place, key in enumerate(self._keys)
        ]
        while not self._world.stopped:
            outcome, _ = await self._caller.write({"update": LATE, "updates": updates}, w="majority", timeout=10)
            if outcome is Outcome.OK:
                return

    def _begin(self) -> LateWrite:
        """A new one, under a session of some."""
        place = self._random.randrange(LATE_DOCUMENTS)
        session = f"{self._random.randrange(1 + len(self._writes) // 4)}"
        number = self._numbers[session] = self._numbers.get(session, 0) + 1
        tag = self._caller.value()
        where = {"_id": self._keys[place]}
        if self._random.random() < 0.7:
            where["k"] = place * KEYS // LATE_DOCUMENTS
        lsid = {"id": Binary.from_uuid(uuid5(self._caller.lsid["id"].as_uuid(), session))}
        command = {"update": LATE, "updates": [{"q": where, "u": {"$push": {"tags": tag}}}]}
        write = LateWrite({**command, "lsid": lsid, "txnNumber": Int64(number)}, self._keys[place], tag, 0.0)
        if len(self._writes) == MAX_LATE_WRITES:
            self._writes.pop(self._random.randrange(MAX_LATE_WRITES))
        self._writes.append(write)
        return write

    async def _send(self, write: LateWrite, *, last: bool = False) -> None:
        w = "majority" if last or self._random.random() < 0.5 else 1
        number = int(write.command["txnNumber"])
        operation = self._caller.invoke(Kind.UPDATE_BY_ID, write.key, write.tag, w=w, retryable=number)
        concern = {"w": w, "wtimeout": MAJORITY_MILLIS}
        outcome, reply = await self._caller.anyone({**write.command, "writeConcern": concern})
        self._caller.end(operation, outcome, reply.get("n"))


def late_writes(operations: Iterable[Operation]) -> list[Operation]:
    """Return the updates that were sent again."""
    return [each for each in operations if str(each.key).startswith("w-")]


def tags_of(rows: Iterable[Mapping[str, Any]]) -> dict[Any, list[int]]:
    """Return the tags of each document by its `_id`."""
    return {row["_id"]: row["tags"] for row in rows}


class Mover:
    """Splits chunks, and moves them, and databases, between the shards."""

    def __init__(self, number: int, world: World, shards: list[str], pause: float) -> None:
        self._caller = Caller(number, world)
        self._random = self._caller.random
        self._world = world
        self._shards = shards
        self._pause = pause
        self._splits = 0

    async def run(self) -> None:
        try:
            while not self._world.stopped:
                if self._splits < 20 and self._random.random() < 0.1:
                    self._splits += 1
                    middle = {"k": self._random.randrange(1, KEYS)}
                    command = {"split": f"{DATABASE}.{DOCUMENTS}", "middle": middle}
                    outcome, _ = await self._caller.favourite({**command, "$db": "admin"}, timeout=20)
                    self._world.acts[f"split {outcome}"] += 1
                elif self._random.random() < MOVED_DATABASES:
                    await self._move_database()
                else:
                    await self._move()
                await asyncio.sleep(self._random.expovariate(1 / self._pause))
        finally:
            self._caller.close()

    async def _move(self) -> None:
        collection = self._random.choice([DOCUMENTS, DOCUMENTS, LATE, LATE, "lists", "registers", "accounts", "tlists"])
        by_key = {"k": self._random.randrange(KEYS)}
        by_id = {"_id": f"{collection[0]}{self._random.randrange(4)}-{self._world.generation()}"}
        command = {
            "moveChunk": f"{DATABASE}.{collection}",
            "find": by_key if collection in (DOCUMENTS, LATE) else by_id,
            "to": self._random.choice(self._shards),
            "$db": "admin",
        }
        outcome, _ = await self._caller.favourite(command, timeout=30)
        self._world.acts[f"moveChunk {outcome}"] += 1

    async def _move_database(self) -> None:
        database = self._random.choice([DATABASE, CHANGING])
        command = {"movePrimary": database, "to": self._random.choice(self._shards), "$db": "admin"}
        outcome, _ = await self._caller.favourite(command, timeout=30)
        self._world.acts[f"movePrimary {outcome}"] += 1


class Changer:
    """Creates, shards, fills, indexes, moves and drops collections, and drops their database."""

    def __init__(self, number: int, world: World, shards: list[str], pause: float) -> None:
        self._caller = Caller(number, world)
        self._random = self._caller.random
        self._world = world
        self._shards = shards
        self._pause = pause

    async def run(self) -> None:
        steps = [self._insert] * 6 + [self._drop] * 2 + [self._drop_database, self._index_of_documents]
        steps += [self._create, self._shard, self._shard, self._index, self._index, self._change, self._unindex]
        steps += [self._move]
        try:
            while not self._world.stopped:
                collection = f"c{self._random.randrange(CHANGING_COLLECTIONS)}"
                await self._random.choice(steps)(collection)
                await asyncio.sleep(self._random.expovariate(1 / self._pause))
        finally:
            self._caller.close()

    async def _insert(self, collection: str) -> None:
        number = self._caller.value()
        namespace = f"{CHANGING}.{collection}"
        operation = self._caller.invoke(Kind.INSERT, f"{namespace}/{number}", namespace, w="majority")
        documents = [{"_id": operation.key, "k": self._random.randrange(KEYS)}]
        command = {"insert": collection, "documents": documents, "$db": CHANGING}
        outcome, _ = await self._caller.write(command, w="majority")
        self._caller.end(operation, outcome)

    async def _drop(self, collection: str) -> None:
        operation = self._caller.invoke(Kind.DROP, f"{CHANGING}.{collection}", w="majority")
        outcome = await self._do({"drop": collection})
        self._caller.end(operation, outcome)

    async def _drop_database(self, _collection: str) -> None:
        if self._random.random() < 0.7:
            return
        names = [f"{CHANGING}.c{number}" for number in range(CHANGING_COLLECTIONS)]
        operations = [self._caller.invoke(Kind.DROP, name, w="majority") for name in names]
        outcome = await self._do({"dropDatabase": 1})
        for operation in operations:
            self._caller.end(operation, outcome)

    async def _create(self, collection: str) -> None:
        await self._do({"create": collection})

    async def _shard(self, collection: str) -> None:
        namespace = f"{CHANGING}.{collection}"
        await self._do({"enableSharding": CHANGING, "$db": "admin"})
        await self._do({"shardCollection": namespace, "key": {"k": 1}, "$db": "admin"})
        await self._do({"split": namespace, "middle": {"k": KEYS // 2}, "$db": "admin"})

    async def _move(self, collection: str) -> None:
        command = {"moveChunk": f"{CHANGING}.{collection}", "find": {"k": self._random.choice([0, KEYS])}}
        await self._do({**command, "to": self._random.choice(self._shards), "$db": "admin"})

    async def _index(self, collection: str) -> None:
        await self._do({"createIndexes": collection, "indexes": [INDEX]})

    async def _unindex(self, collection: str) -> None:
        await self._do({"dropIndexes": collection, "index": INDEX["name"]})

    async def _change(self, collection: str) -> None:
        options: list[dict[str, Any]] = [{"validationLevel": self._random.choice(["strict", "moderate"])}]
        options += [{"index": {"name": INDEX["name"], "hidden": self._random.random() < 0.5}}]
        await self._do({"collMod": collection, **self._random.choice(options)})

    async def _index_of_documents(self, _collection: str) -> None:
        if self._random.random() < 0.5:
            await self._do({"createIndexes": DOCUMENTS, "indexes": [INDEX], "$db": DATABASE})
        else:
            await self._do({"dropIndexes": DOCUMENTS, "index": INDEX["name"], "$db": DATABASE})

    async def _do(self, command: dict[str, Any]) -> Outcome:
        """A command that may be refused for good reasons: a missing collection, an index that is there."""
        outcome, _ = await self._caller.favourite({**command, "$db": command.get("$db", CHANGING)}, timeout=30)
        self._world.acts[f"{next(iter(command))} {outcome}"] += 1
        return outcome
