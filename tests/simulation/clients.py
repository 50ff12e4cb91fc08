"""Clients: processes on machines of their own that work through the project's client and record what they were told.

Each follows one operation after the other; what it may say of one that failed follows from the error: a request that
never left, or that a member refused before doing anything, has failed; everything else is unknown.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

import bson
from bson.binary import Binary
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.commands.concerns import ReadMode, ReadPreference
from docstore.errors import CommandError
from docstore.net import NetworkError, Pool, ReplicaSetClient
from docstore.net.replica_set_client import NOT_DONE_CODES
from tests.checkers.history import History, Kind, Operation

DATABASE = "test"
Target = Callable[..., Awaitable[bytes]]
Elsewhere = AbstractAsyncContextManager[Target]
SECONDARY = ReadPreference(ReadMode.SECONDARY_PREFERRED)


class Refused(Exception):
    """The operation has certainly not happened."""


class Unknown(Exception):
    """Nobody knows."""


class Client:
    """One client. `ask(database, command, retry=..., timeout=...)` sends a command where it belongs."""

    def __init__(self, number: int, history: History, ask: Target, dice: random.Random) -> None:
        self.number = number
        self.history = history
        self.dice = dice
        self.ask = ask
        self.session = {"id": Binary(uuid.UUID(int=dice.getrandbits(128)).bytes, 4)}
        self._transaction = 0
        self._times: dict[str, Any] = {}
        self.known: dict[str, int] = {}
        """What it last read of each register."""
        self.seconds = 5.0
        """How long an operation is waited for."""
        self.read_limit_ms = 3000
        """How long a member may take over a read of its, in milliseconds; 0: as long as it wants."""
        self.hurries = False
        """Whether it goes on with a transaction at once."""
        self.patience = 0.3
        """How long it leaves a transaction open between two statements, at most."""
        self.abandons = 0.3
        """How often it leaves a transaction that it gives up open, until that expires."""
        self.elsewhere: Callable[[], Elsewhere] | None = None
        """Somebody who knows nothing yet, where there is anybody else to ask how a transaction has ended."""

    @property
    def times(self) -> dict[str, Any]:
        """`$clusterTime` and `operationTime` of the last reply."""
        return self._times

    def hear(self, time: Timestamp) -> None:
        """Take in an operation time of somewhere else, which is later than all that it knows."""
        signed = {**self._times["$clusterTime"], "clusterTime": time}
        self._times = {"$clusterTime": signed, "operationTime": time}

    # Commands

    async def command(self, command: Mapping[str, Any], *, repeatable: bool = False, **options: Any) -> dict[str, Any]:
        """The decoded reply. Errors: Refused, Unknown."""
        try:
            database = "admin" if "bulkWrite" in command else DATABASE
            raw = await self.ask(database, command, retry=repeatable, timeout=self.seconds, **options)
        except NetworkError as error:
            if not error.sent and not repeatable:
                raise Refused(str(error)) from error
            raise Unknown(str(error)) from error
        except CommandError as error:
            if error.code in NOT_DONE_CODES and not repeatable:
                raise Refused(str(error)) from error
            raise Unknown(str(error)) from error
        reply: dict[str, Any] = bson.decode(raw)
        if reply.get("writeErrors") or reply.get("nErrors"):
            raise Unknown(str(reply.get("writeErrors") or reply["cursor"]))
        if reply.get("writeConcernError"):
            raise Unknown(str(reply["writeConcernError"]))
        if "$clusterTime" in reply:
            self._times = {name: reply[name] for name in ("$clusterTime", "operationTime") if name in reply}
        return reply

    async def write(self, command: Mapping[str, Any], w: int | str, *, retryable: bool = False) -> dict[str, Any]:
        """A write command; `retryable`: sent again under one transaction number until its outcome is known."""
        whole = {**command, "writeConcern": {"w": w, "wtimeout": 2000}}
        if retryable:
            whole |= self.next_number()
        return await self.command(whole, repeatable=retryable)

    def next_number(self) -> dict[str, Any]:
        """The session, and a number in it that nothing has had."""
        self._transaction += 1
        return {"lsid": self.session, "txnNumber": Int64(self._transaction)}

    async def record(self, operation: Operation, work: Awaitable[Any]) -> Any:
        """Note what comes of it; the result, None where it failed."""
        try:
            result = await work
        except Refused:
            self.history.failed(operation)
            return None
        except Unknown:
            self.history.unknown(operation)
            return None
        self.history.ok(operation, result)
        return result

    @staticmethod
    async def _done(work: Awaitable[Any]) -> None:
        """What was told but for its success says nothing."""
        await work

    # Operations

    async def insert(self, collection: str, key: Any, w: int | str, *, retryable: bool = False) -> None:
        operation = self.history.invoke(self.number, Kind.INSERT, key, w=w)
        command = {"insert": collection, "documents": [{"_id": key, "by": self.number}]}
        await self.record(operation, self._done(self.write(command, w, retryable=retryable)))

    async def set_register(self, key: str, value: int, w: int | str = "majority") -> None:
        operation = self.history.invoke(self.number, Kind.WRITE, key, value, w=w)
        update = {"q": {"_id": key}, "u": {"$set": {"value": value}}, "upsert": True}
        command = {"update": "registers", "updates": [update]}
        await self.record(operation, self._done(self.write(command, w, retryable=True)))

    async def compare_and_set(self, key: str, expected: int, value: int) -> None:
        operation = self.history.invoke(self.number, Kind.CAS, key, [expected, value], w="majority")
        update = {"q": {"_id": key, "value": expected}, "u": {"$set": {"value": value}}}

        async def work() -> bool:
            reply = await self.write({"update": "registers", "updates": [update]}, "majority", retryable=True)
            if reply["n"]:
                self.known[key] = value
            return bool(reply["n"])

        await self.record(operation, work())

    async def read_register(self, key: str, level: str = "linearizable") -> Any:
        operation = self.history.invoke(self.number, Kind.READ, key, read_concern=level)

        async def work() -> Any:
            found = await self._find("registers", {"_id": key}, level)
            return found[0]["value"] if found else None

        return await self.record(operation, work())

    async def append(self, key: str, element: int, w: int | str, *, session: str | None = None) -> None:
        operation = self.history.invoke(self.number, Kind.APPEND, key, element, w=w, session=session)
        update = {"q": {"_id": key}, "u": {"$push": {"list": element}}, "upsert": True}
        command = {"update": "lists", "updates": [update]}
        await self.record(operation, self._done(self.write(command, w, retryable=True)))

    async def read_list(self, key: str, level: str, *, session: str | None = None, **options: Any) -> None:
        operation = self.history.invoke(self.number, Kind.READ_LIST, key, read_concern=level, session=session)

        async def work() -> list[Any]:
            found = await self._find("lists", {"_id": key}, level, causal=session is not None, **options)
            return list(found[0]["list"]) if found else []

        await self.record(operation, work())

    async def add(self, key: str, w: int | str) -> None:
        operation = self.history.invoke(self.number, Kind.ADD, key, 1, w=w)
        update = {"q": {"_id": key}, "u": {"$inc": {"number": 1}}, "upsert": True}
        command: dict[str, Any] = {"update": "counters", "updates": [update]}
        if self.dice.random() < 0.5:
            command = self._beside_others(update)
        await self.record(operation, self._done(self.write(command, w, retryable=True)))

    @staticmethod
    def _beside_others(update: Mapping[str, Any]) -> dict[str, Any]:
        """An update of a counter between others of another collection, in one request."""
        one = {"updateMods": update["u"], "upsert": True}
        operations = [{"update": place, "filter": update["q"], **one} for place in (1, 0, 1)]
        namespaces = [{"ns": f"{DATABASE}.counters"}, {"ns": f"{DATABASE}.others"}]
        return {"bulkWrite": 1, "ops": operations, "nsInfo": namespaces}

    async def _find(
        self, collection: str, where: Mapping[str, Any], level: str, *, causal: bool = False, **options: Any
    ) -> list[dict[str, Any]]:
        concern: dict[str, Any] = {"level": level}
        command: dict[str, Any] = {"find": collection, "filter": where, "maxTimeMS": self.read_limit_ms}
        if causal and self._times:
            concern["afterClusterTime"] = self._times["operationTime"]
            command["$clusterTime"] = self._times["$clusterTime"]
        command["readConcern"] = concern
        if "read_preference" in options:
            command["$readPreference"] = options["read_preference"].document()
        reply = await self.command(command, **options)
        found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
        return found


def of_set(set_name: str, seeds: list[str]) -> Target:
    """Asks the primary of a set, or whom the read preference allows."""
    client = ReplicaSetClient(seeds, set_name, Pool(application="client", connect_timeout=1.0))
    return client.command


@asynccontextmanager
async def anew(set_name: str, seeds: list[str]) -> AsyncIterator[Target]:
    """As `of_set`, by somebody who has never heard of the set, as another router may be."""
    pool = Pool(application="client", connect_timeout=1.0)
    client = ReplicaSetClient(seeds, set_name, pool)
    try:
        yield client.command
    finally:
        await client.close()
        await pool.close()


async def at_random_times(dice: random.Random, until: Callable[[], bool], act: Callable[[], Awaitable[None]]) -> None:
    """Act again and again, with pauses, until it is over."""
    while not until():
        await act()
        await asyncio.sleep(dice.expovariate(1 / 0.03))


async def quietly(work: Awaitable[Any]) -> Any:
    """The result, None where it failed."""
    with suppress(NetworkError, CommandError, Refused, Unknown):
        return await work
    return None
