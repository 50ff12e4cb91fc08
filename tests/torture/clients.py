"""Clients of a replica set that record what they asked for and what they were told.

A client talks to one member at a time and believes it to be the primary until it is refused or left without an answer,
so that a primary which has been cut off keeps its clients for a while. Nothing is sent twice, but for retryable writes,
whose every attempt carries the same transaction number.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import bson
from bson.timestamp import Timestamp

from tests.checkers.history import History, Kind, Operation, Outcome
from tests.torture.wire import Link, Lost, NotSent

DATABASE = "torture"
ATTEMPTS = 6
REPLY_SECONDS = 5.0
MAJORITY_MILLIS = 2500
REGISTERS, LISTS, COUNTERS = 4, 4, 2
HASTY = 4
"""Every such client never waits for a majority, so a primary that is cut off goes on taking its writes."""
KEY_SECONDS = 10.0
"""Registers and lists are left for new ones after this time, which keeps them short."""

_NOT_EXECUTED = frozenset([10107, 13435, 13436, 11000])
"""Errors that are given before anything was done: not primary, and a duplicate key."""


@dataclass
class World:
    """What the clients of one run share. `started`: on the history's clock."""

    history: History
    addresses: Sequence[str]
    seed: int
    started: float
    errors: Counter[str] = field(default_factory=Counter)
    stopped: bool = False

    def generation(self) -> int:
        return int((self.history.clock() - self.started) / KEY_SECONDS)


@dataclass
class _Tokens:
    """What a session knows of time."""

    operation: Timestamp | None = None
    cluster: dict[str, Any] | None = None

    def learn(self, reply: dict[str, Any]) -> None:
        operation = reply.get("operationTime")
        if operation is not None and (self.operation is None or operation > self.operation):
            self.operation = operation
        cluster = reply.get("$clusterTime")
        if cluster and (self.cluster is None or cluster["clusterTime"] > self.cluster["clusterTime"]):
            self.cluster = cluster


class Client:
    """One process of the history."""

    def __init__(self, number: int, world: World, pause: float) -> None:
        self.number = number
        self.world = world
        self.random = random.Random(f"{world.seed}/client/{number}")
        self._pause = pause
        self._links = [Link(address) for address in world.addresses]
        self._primary = 0
        self._lsid = {"id": bson.Binary.from_uuid(uuid.uuid4())}
        self._transaction = 0
        self._values = 0
        self._causal, self._seen = _Tokens(), _Tokens()
        self._inserted: list[str] = []

    async def run(self) -> None:
        steps = [self.write, self.append, self.add, self.insert]
        if self.number % HASTY:
            steps += [self.read, self.compare_and_set, self.read_list, self.causal_append, self.causal_read]
            steps += [self.read_counter, self.insert, self.delete]
        try:
            while not self.world.stopped:
                await self.random.choice(steps)()
                await asyncio.sleep(self.random.expovariate(1 / self._pause))
        finally:
            for link in self._links:
                link.close()

    async def write(self) -> None:
        value = self._value()
        operation = self._invoke(Kind.WRITE, self._key("r", REGISTERS), value, w=self._w())
        await self._upsert("registers", operation, {"$set": {"v": value}})

    async def read(self) -> None:
        operation = self._invoke(Kind.READ, self._key("r", REGISTERS), read_concern="linearizable")
        await self._find("registers", operation, lambda found: found[0]["v"] if found else None)

    async def compare_and_set(self) -> None:
        """Only a match says something: one that does not match writes nothing, and what it looked at may be old."""
        key, value = self._key("r", REGISTERS), self._value()
        expected = self.random.choice([each.value for each in self._recent(key)] or [0])
        operation = self._invoke(Kind.CAS, key, [expected, value], w="majority")
        statement = {"q": {"_id": key, "v": expected}, "u": {"$set": {"v": value}}}
        outcome, reply = await self._send({"update": "registers", "updates": [statement]}, w="majority")
        if outcome is Outcome.OK and reply.get("n"):
            self.world.history.ok(operation, True)
        elif outcome is Outcome.UNKNOWN:
            self.world.history.unknown(operation)
        else:
            self.world.history.failed(operation)

    async def append(self) -> None:
        element = self._value()
        operation = self._invoke(Kind.APPEND, self._key("l", LISTS), element, w=self._w(), retryable=self._may_retry())
        await self._upsert("lists", operation, {"$push": {"v": element}})

    async def read_list(self) -> None:
        level = self.random.choice(["local", "majority", "linearizable", "snapshot"])
        operation = self._invoke(Kind.READ_LIST, self._key("l", LISTS), read_concern=level)
        await self._find("lists", operation, lambda found: found[0]["v"] if found else [])

    async def causal_append(self) -> None:
        element = self._value()
        operation = self._invoke(Kind.APPEND, self._key("l", LISTS), element, w="majority", session=f"s{self.number}")
        await self._upsert("lists", operation, {"$push": {"v": element}})

    async def causal_read(self) -> None:
        operation = self._invoke(
            Kind.READ_LIST, self._key("l", LISTS), read_concern="majority", session=f"s{self.number}"
        )
        await self._find("lists", operation, lambda found: found[0]["v"] if found else [])

    async def add(self) -> None:
        operation = self._invoke(Kind.ADD, self._key("c", COUNTERS), 1, w=self._w(), retryable=self._may_retry())
        await self._upsert("counters", operation, {"$inc": {"v": 1}})

    async def read_counter(self) -> None:
        level = self.random.choice(["local", "majority", "linearizable"])
        operation = self._invoke(Kind.READ_COUNTER, self._key("c", COUNTERS), read_concern=level)
        await self._find("counters", operation, lambda found: found[0]["v"] if found else 0)

    async def insert(self) -> None:
        operation = self._invoke(Kind.INSERT, f"i{self.number}-{self._value()}", w=self._w())
        outcome, _ = await self._send({"insert": "inserts", "documents": [{"_id": operation.key}]}, w=operation.w)
        self._end(operation, outcome)
        if operation.majority:
            self._inserted.append(str(operation.key))

    async def delete(self) -> None:
        if not self._inserted:
            return
        key = self._inserted.pop(self.random.randrange(len(self._inserted)))
        operation = self._invoke(Kind.DELETE, key, w="majority")
        deletes = [{"q": {"_id": key}, "limit": 1}]
        outcome, reply = await self._send({"delete": "inserts", "deletes": deletes}, w="majority")
        self._end(operation, outcome, reply.get("n"))

    async def _upsert(self, collection: str, operation: Operation, update: dict[str, Any]) -> None:
        """One attempt, or several of a retryable write; unknown if any of them may have happened and none answered."""
        statement = {"q": {"_id": operation.key}, "u": update, "upsert": True}
        command: dict[str, Any] = {"update": collection, "updates": [statement]}
        if operation.retryable is not None:
            command |= {"lsid": self._lsid, "txnNumber": bson.Int64(operation.retryable)}
        attempted = False
        for _ in range(1 if operation.retryable is None else ATTEMPTS):
            outcome, _reply = await self._send(command, w=operation.w, causal=operation.session is not None)
            if outcome is Outcome.OK:
                self._end(operation, outcome)
                return
            attempted = attempted or outcome is Outcome.UNKNOWN
            await asyncio.sleep(self.random.uniform(0.02, 0.4))
        self._end(operation, Outcome.UNKNOWN if attempted else Outcome.FAILED)

    async def _send(
        self, command: dict[str, Any], *, w: int | str | None, causal: bool = False
    ) -> tuple[Outcome, dict[str, Any]]:
        """A write to whom we take for the primary."""
        concern = {"w": w, "wtimeout": MAJORITY_MILLIS}
        number = self._primary
        outcome, reply = await self._ask(number, {**command, "writeConcern": concern}, causal=causal)
        if outcome is not Outcome.OK and self._primary == number:
            self._primary = self.random.randrange(len(self._links))
        return outcome, reply

    async def _find(self, collection: str, operation: Operation, result: Any) -> None:
        level, causal = operation.read_concern, operation.session is not None
        concern: dict[str, Any] = {"level": level}
        if causal and self._causal.operation is not None:
            concern["afterClusterTime"] = self._causal.operation
        if level == "snapshot" and self._seen.operation is not None and self.random.random() < 0.5:
            concern["atClusterTime"] = self._seen.operation
        command = {"find": collection, "filter": {"_id": operation.key}, "limit": 1, "singleBatch": True}
        command |= {"readConcern": concern, "maxTimeMS": 3000}
        number = self._primary
        if level != "linearizable":
            number = self.random.randrange(len(self._links))
            command["$readPreference"] = {"mode": "secondaryPreferred"}
        outcome, reply = await self._ask(number, command, causal=causal)
        if outcome is Outcome.OK:
            self.world.history.ok(operation, result(reply["cursor"]["firstBatch"]))
        else:
            self.world.history.failed(operation)
            if level == "linearizable":
                self._primary = self.random.randrange(len(self._links))

    async def _ask(self, number: int, command: dict[str, Any], *, causal: bool) -> tuple[Outcome, dict[str, Any]]:
        message = {**command, "$db": DATABASE}
        if causal:
            message["lsid"] = self._lsid
        tokens = self._causal if causal else self._seen
        if tokens.cluster is not None:
            message["$clusterTime"] = tokens.cluster
        try:
            reply = await self._links[number].command(message, timeout=REPLY_SECONDS)
        except NotSent:
            return Outcome.FAILED, {}
        except Lost:
            self.world.errors["no answer"] += 1
            return Outcome.UNKNOWN, {}
        tokens.learn(reply)
        return self._judged(reply), reply

    def _judged(self, reply: dict[str, Any]) -> Outcome:
        errors = [] if reply.get("ok") else [reply]
        errors += reply.get("writeErrors", [])
        if errors:
            self.world.errors[str(errors[0].get("codeName", errors[0].get("code")))] += 1
            return Outcome.FAILED if errors[0].get("code") in _NOT_EXECUTED else Outcome.UNKNOWN
        if "writeConcernError" in reply:
            self.world.errors["write concern"] += 1
            return Outcome.UNKNOWN
        return Outcome.OK

    def _invoke(self, kind: Kind, key: str, value: Any = None, **fields: Any) -> Operation:
        return self.world.history.invoke(self.number, kind, key, value, **fields)

    def _end(self, operation: Operation, outcome: Outcome, result: Any = None) -> None:
        if outcome is Outcome.OK:
            self.world.history.ok(operation, result)
        elif outcome is Outcome.FAILED:
            self.world.history.failed(operation)
        else:
            self.world.history.unknown(operation)

    def _recent(self, key: str) -> list[Operation]:
        return [each for each in self.world.history.operations[-200:] if each.key == key and each.kind is Kind.WRITE]

    def _key(self, prefix: str, count: int) -> str:
        number = self.random.randrange(count)
        return f"{prefix}{number}" if prefix == "c" else f"{prefix}{number}-{self.world.generation()}"

    def _value(self) -> int:
        """A number that nobody else writes."""
        self._values += 1
        return self._values * 1000 + self.number

    def _w(self) -> int | str:
        if self.number % HASTY == 0:
            return 1
        return "majority" if self.random.random() < 2 / 3 else 1

    def _may_retry(self) -> int | None:
        if self.random.random() < 0.5:
            return None
        self._transaction += 1
        return self._transaction
