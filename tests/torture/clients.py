"""Clients of registers, lists, counters and single documents, by members of a set or by routers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import bson

from tests.checkers.history import Kind, Operation, Outcome
from tests.torture.caller import Caller, World

ATTEMPTS = 6
"""At a retryable write; each carries the same transaction number."""
REGISTERS, LISTS, COUNTERS = 4, 4, 2
HASTY = 4
"""Every such client never waits for a majority, so a primary that is cut off goes on taking its writes."""

Rows = list[dict[str, Any]]


class Client:
    """Does one thing after the other until the world stops."""

    def __init__(self, number: int, world: World, pause: float) -> None:
        self._caller = Caller(number, world)
        self._random = self._caller.random
        self._world = world
        self._pause = pause
        self._hasty = number % HASTY == 0
        self._session = f"s{number}"
        self._transaction = 0
        self._inserted: list[str] = []

    async def run(self) -> None:
        steps = [self._write, self._append, self._add, self._insert]
        if not self._hasty:
            steps += [self._read, self._compare_and_set, self._read_list, self._causal_append, self._causal_read]
            steps += [self._read_counter, self._insert, self._delete]
        try:
            while not self._world.stopped:
                await self._random.choice(steps)()
                await asyncio.sleep(self._random.expovariate(1 / self._pause))
        finally:
            self._caller.close()

    async def _write(self) -> None:
        value = self._caller.value()
        operation = self._caller.invoke(Kind.WRITE, self._key("r", REGISTERS), value, w=self._w())
        await self._upsert("registers", operation, {"$set": {"v": value}})

    async def _read(self) -> None:
        operation = self._caller.invoke(Kind.READ, self._key("r", REGISTERS), read_concern="linearizable")
        await self._find("registers", operation, lambda rows: rows[0]["v"] if rows else None)

    async def _compare_and_set(self) -> None:
        """Only a match says something: one that does not match writes nothing, and what it looked at may be old."""
        key, value = self._key("r", REGISTERS), self._caller.value()
        recent = [each for each in self._world.history.operations[-200:] if each.kind is Kind.WRITE and each.key == key]
        expected = self._random.choice(recent).value if recent else 0
        operation = self._caller.invoke(Kind.CAS, key, [expected, value], w="majority")
        statement = {"q": {"_id": key, "v": expected}, "u": {"$set": {"v": value}}}
        outcome, reply = await self._caller.write({"update": "registers", "updates": [statement]}, w="majority")
        if outcome is Outcome.OK and not reply.get("n"):
            outcome = Outcome.FAILED
        self._caller.end(operation, outcome, True)

    async def _append(self) -> None:
        element = self._caller.value()
        fields = {"w": self._w(), "retryable": self._may_retry()}
        operation = self._caller.invoke(Kind.APPEND, self._key("l", LISTS), element, **fields)
        await self._upsert("lists", operation, {"$push": {"v": element}})

    async def _read_list(self) -> None:
        level = self._random.choice(["local", "majority", "linearizable", "snapshot"])
        operation = self._caller.invoke(Kind.READ_LIST, self._key("l", LISTS), read_concern=level)
        await self._find("lists", operation, lambda rows: rows[0]["v"] if rows else [])

    async def _causal_append(self) -> None:
        element = self._caller.value()
        fields = {"w": "majority", "session": self._session}
        operation = self._caller.invoke(Kind.APPEND, self._key("l", LISTS), element, **fields)
        await self._upsert("lists", operation, {"$push": {"v": element}})

    async def _causal_read(self) -> None:
        fields = {"read_concern": "majority", "session": self._session}
        operation = self._caller.invoke(Kind.READ_LIST, self._key("l", LISTS), **fields)
        await self._find("lists", operation, lambda rows: rows[0]["v"] if rows else [])

    async def _add(self) -> None:
        fields = {"w": self._w(), "retryable": self._may_retry()}
        operation = self._caller.invoke(Kind.ADD, self._key("c", COUNTERS), 1, **fields)
        await self._upsert("counters", operation, {"$inc": {"v": 1}})

    async def _read_counter(self) -> None:
        level = self._random.choice(["local", "majority", "linearizable"])
        operation = self._caller.invoke(Kind.READ_COUNTER, self._key("c", COUNTERS), read_concern=level)
        await self._find("counters", operation, lambda rows: rows[0]["v"] if rows else 0)

    async def _insert(self) -> None:
        operation = self._caller.invoke(Kind.INSERT, f"i{self._caller.number}-{self._caller.value()}", w=self._w())
        command = {"insert": "inserts", "documents": [{"_id": operation.key}]}
        outcome, _ = await self._caller.write(command, w=operation.w)
        self._caller.end(operation, outcome)
        if operation.majority:
            self._inserted.append(str(operation.key))

    async def _delete(self) -> None:
        if not self._inserted:
            return
        key = self._inserted.pop(self._random.randrange(len(self._inserted)))
        operation = self._caller.invoke(Kind.DELETE, key, w="majority")
        deletes = [{"q": {"_id": key}, "limit": 1}]
        outcome, reply = await self._caller.write({"delete": "inserts", "deletes": deletes}, w="majority")
        self._caller.end(operation, outcome, reply.get("n"))

    async def _upsert(self, collection: str, operation: Operation, update: dict[str, Any]) -> None:
        """One attempt, or several of a retryable write; unknown if any of them may have happened and none answered."""
        statement = {"q": {"_id": operation.key}, "u": update, "upsert": True}
        command: dict[str, Any] = {"update": collection, "updates": [statement]}
        if operation.retryable is not None:
            command |= {"lsid": self._caller.lsid, "txnNumber": bson.Int64(operation.retryable)}
        attempted = False
        for _ in range(1 if operation.retryable is None else ATTEMPTS):
            outcome, _reply = await self._caller.write(command, w=operation.w, causal=operation.session is not None)
            if outcome is Outcome.OK:
                self._caller.end(operation, outcome)
                return
            attempted = attempted or outcome is Outcome.UNKNOWN
            await asyncio.sleep(self._random.uniform(0.02, 0.4))
        self._caller.end(operation, Outcome.UNKNOWN if attempted else Outcome.FAILED)

    async def _find(self, collection: str, operation: Operation, result: Callable[[Rows], Any]) -> None:
        """A read of one document: linearizable from the primary, else from anyone."""
        level, causal = operation.read_concern, operation.session is not None
        concern: dict[str, Any] = {"level": level}
        if causal and self._caller.causal.operation is not None:
            concern["afterClusterTime"] = self._caller.causal.operation
        if level == "snapshot" and self._world.seen.operation is not None and self._random.random() < 0.5:
            concern["atClusterTime"] = self._world.seen.operation
        command = {"find": collection, "filter": {"_id": operation.key}, "limit": 1, "singleBatch": True}
        command |= {"readConcern": concern, "maxTimeMS": 3000}
        if level == "linearizable":
            outcome, reply = await self._caller.favourite(command)
        else:
            # A member that is asked itself answers; a router chooses whom it asks.
            primary = self._world.routed and self._random.random() < 0.5
            command["$readPreference"] = {"mode": "primary" if primary else "secondaryPreferred"}
            outcome, reply = await self._caller.anyone(command, causal=causal)
        if outcome is Outcome.OK:
            self._caller.end(operation, outcome, result(reply["cursor"]["firstBatch"]))
        else:
            self._caller.end(operation, Outcome.FAILED)

    def _key(self, prefix: str, count: int) -> str:
        number = self._random.randrange(count)
        return f"{prefix}{number}" if prefix == "c" else f"{prefix}{number}-{self._world.generation()}"

    def _w(self) -> int | str:
        if self._hasty:
            return 1
        return "majority" if self._random.random() < 2 / 3 else 1

    def _may_retry(self) -> int | None:
        if self._random.random() < 0.5:
            return None
        self._transaction += 1
        return self._transaction
