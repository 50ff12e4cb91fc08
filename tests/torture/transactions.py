"""Clients with transactions over many documents: a bank, and lists, by members of a set or by routers.

Every few seconds a new bank is opened, which keeps what one snapshot shows short. What such a client may say of a
transaction that did not end well is what drivers may: one whose commit was never asked for has not happened, nor has
one whose commit failed with the label `TransientTransactionError`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import bson

from tests.checkers.bank import ROLLED_BACK, Bank, check_bank
from tests.checkers.history import Anomaly, Kind, Operation, Outcome
from tests.checkers.isolation import APPEND, READ, check_isolation, write_skews
from tests.torture.caller import KEY_SECONDS, MAJORITY_MILLIS, Caller, World
from tests.torture.faults import FAILURES
from tests.torture.processes import Server

TRANSIENT = "TransientTransactionError"
ACCOUNTS, LISTS = 4, 4
BALANCE = 100
COMMITS = 8
"""So often a commit is asked for, under one number."""
LIFETIME_SECONDS = 4
_IS_THERE = (48, 20)
"""Errors where a collection is to be created that is there already; the latter is of one that is sharded."""
COLLECTIONS = ("accounts", "transfers", "tlists")
INDEX = {"key": {"bank": 1, "balance": 1}, "name": "balance"}
_SNAPSHOT = {"startTransaction": True, "readConcern": {"level": "snapshot"}}

Rows = list[dict[str, Any]]


class Aborted(Exception):
    """The transaction has certainly not happened."""


class Banker:
    """Opens a bank after the other. `open`: the number of the newest, 0 while there is none. `group`: the servers that
    carry transactions out.
    """

    def __init__(self, number: int, world: World, group: list[Server]) -> None:
        self.open = 0
        self._caller = Caller(number, world)
        self._world = world
        self._group = group

    async def run(self) -> None:
        try:
            for name in COLLECTIONS:
                await self._until_done({"create": name}, done=_IS_THERE)
            await self._until_done({"createIndexes": "accounts", "indexes": [INDEX]})
            while not self._world.stopped:
                number = self.open + 1
                accounts = [{"_id": account, "bank": number, "balance": BALANCE} for account in accounts_of(number)]
                await self._until_done({"insert": "accounts", "documents": accounts, "ordered": False}, done=(11000,))
                await self._short_lives()
                self.open = number
                end = self._world.history.clock() + KEY_SECONDS
                while not self._world.stopped and self._world.history.clock() < end:
                    await asyncio.sleep(0.2)
        finally:
            self._caller.close()

    async def _until_done(self, command: dict[str, Any], done: tuple[int, ...] = ()) -> None:
        """Again until a majority has it. `done`: errors of what was done before."""
        while not self._world.stopped:
            outcome, reply = await self._caller.write(command, w="majority")
            errors = [each.get("code") for each in (reply, *reply.get("writeErrors", ())) if "code" in each]
            if "writeConcernError" not in reply and (outcome is Outcome.OK or (errors and set(errors) <= set(done))):
                return
            await asyncio.sleep(0.2)

    async def _short_lives(self) -> None:
        """What nobody ends does not stand in the way of others for long."""
        command = {"setParameter": 1, "transactionLifetimeLimitSeconds": LIFETIME_SECONDS}
        for server in self._group:
            try:
                await server.ask(command, timeout=1)
            except FAILURES:
                continue


def accounts_of(bank: int) -> list[str]:
    """In the order of their ids these are far from each other, among those of other banks."""
    return [f"a{number}-b{bank}" for number in range(ACCOUNTS)]


class Transacting:
    """Does one transaction after the other until the world stops."""

    def __init__(self, number: int, world: World, pause: float, banker: Banker) -> None:
        self._caller = Caller(number, world)
        self._random = self._caller.random
        self._world = world
        self._pause = pause
        self._banker = banker
        self._lsid = {"id": bson.Binary.from_uuid(uuid.uuid4())}
        self._number = 0

    async def run(self) -> None:
        try:
            while not self._world.stopped:
                if self._banker.open:
                    await self._random.choice((self._transfer, self._transfer, self._lists, self._lists, self._read))()
                await asyncio.sleep(self._random.expovariate(1 / self._pause))
        finally:
            self._caller.close()

    # What

    async def _transfer(self) -> None:
        bank = self._banker.open
        source, target = self._random.sample(accounts_of(bank), 2)
        amount, key = self._random.randint(1, 9), f"b{bank}-t{self._caller.value()}"
        operation = self._caller.invoke(Kind.TRANSFER, key, [source, target, amount], w="majority")

        async def body(ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
            steps: list[dict[str, Any]] = [
                {"update": "accounts", "updates": [{"q": {"_id": account}, "u": {"$inc": {"balance": change}}}]}
                for account, change in ((source, -amount), (target, amount))
            ]
            steps.append({"insert": "transfers", "documents": [{"_id": key, "bank": bank}]})
            self._random.shuffle(steps)
            for step in steps:
                await ask(step)
                await self._think()

        await self._carry_out(operation, body)

    async def _read(self) -> None:
        bank = self._banker.open
        operation = self._caller.invoke(Kind.READ_BANK, f"b{bank}", read_concern="snapshot")

        async def body(ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
            async def find(collection: str, **options: Any) -> Rows:
                command = {"find": collection, "filter": {"bank": bank}, "batchSize": 100_000, **options}
                rows: Rows = (await ask(command))["cursor"]["firstBatch"]
                await self._think()
                return rows

            def balances(rows: Rows) -> dict[str, int]:
                return {row["_id"]: row["balance"] for row in rows}

            shown: dict[str, Any] = {"accounts": balances(await find("accounts"))}
            shown["transfers"] = [row["_id"] for row in await find("transfers")]
            shown["by index"] = balances(await find("accounts", hint="balance"))
            group = {"$group": {"_id": None, "sum": {"$sum": "$balance"}, "count": {"$sum": 1}}}
            stages = [{"$match": {"bank": bank}}, group]
            (totals,) = (await ask({"aggregate": "accounts", "pipeline": stages, "cursor": {}}))["cursor"]["firstBatch"]
            shown |= {"sum": totals["sum"], "count": totals["count"]}
            operation.result = shown

        await self._carry_out(operation, body)

    async def _lists(self) -> None:
        generation = self._world.generation()
        operation = self._caller.invoke(Kind.TRANSACTION, "tlists", [], w="majority")

        async def body(ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]) -> None:
            for _ in range(self._random.randint(2, 4)):
                key = f"t{self._random.randrange(LISTS)}-{generation}"
                if self._random.random() < 0.5:
                    rows = (await ask({"find": "tlists", "filter": {"_id": key}}))["cursor"]["firstBatch"]
                    operation.value.append([READ, key, rows[0]["v"] if rows else []])
                else:
                    element = self._caller.value()
                    operation.value.append([APPEND, key, element])
                    update = {"q": {"_id": key}, "u": {"$push": {"v": element}}, "upsert": True}
                    await ask({"update": "tlists", "updates": [update]})
                await self._think()

        await self._carry_out(operation, body)

    async def _think(self) -> None:
        await asyncio.sleep(self._random.choice((0.0, 0.0, 0.005, 0.2)) * self._random.random())

    # How

    async def _carry_out(self, operation: Operation, body: Callable[[Any], Awaitable[None]]) -> None:
        caller = self._caller
        self._number += 1
        where = caller.whom()
        fields = {"lsid": self._lsid, "txnNumber": bson.Int64(self._number), "autocommit": False}
        first = dict(_SNAPSHOT)
        token: dict[str, Any] = {}
        """By which another router finds out how it has ended."""

        async def ask(command: dict[str, Any]) -> dict[str, Any]:
            whole = {**command, **fields, **first}
            first.clear()
            outcome, reply = await caller.ask(where, whole)
            if outcome is not Outcome.OK:
                caller.leave(where)
                raise Aborted
            token.update({"recoveryToken": reply["recoveryToken"]} if "recoveryToken" in reply else {})
            return reply

        commits = False
        try:
            await body(ask)
            commits = True
            caller.end(operation, await self._commit(where, {**fields, **token}), operation.result)
        except Aborted:
            if commits and operation.kind is Kind.TRANSFER:
                operation.result = ROLLED_BACK
            caller.end(operation, Outcome.FAILED)
            if not commits and self._random.random() < 0.8:
                await caller.ask(where, {"abortTransaction": 1, **fields, **token, "$db": "admin"}, timeout=1.0)

    async def _commit(self, where: int, fields: dict[str, Any]) -> Outcome:
        """Ask until the outcome is known. Errors: Aborted."""
        concern = {"w": "majority", "wtimeout": MAJORITY_MILLIS}
        command = {"commitTransaction": 1, **fields, "writeConcern": concern, "$db": "admin"}
        for _ in range(COMMITS):
            outcome, reply = await self._caller.ask(where, command)
            if outcome is Outcome.OK:
                return outcome
            if TRANSIENT in reply.get("errorLabels", ()):
                raise Aborted
            self._caller.leave(where)
            where = self._caller.whom()
            await asyncio.sleep(self._random.uniform(0.05, 0.6))
        return Outcome.UNKNOWN


def judge_transactions(operations: list[Operation], state: dict[str, Rows]) -> list[Anomaly]:
    """`state`: the documents of each collection in the end."""
    found: list[Anomaly] = []
    for bank in sorted({row["bank"] for row in state["accounts"]}):
        mine = [each for each in operations if str(each.key).partition("-")[0] == f"b{bank}"]
        shown = {
            "accounts": {row["_id"]: row["balance"] for row in state["accounts"] if row["bank"] == bank},
            "transfers": [row["_id"] for row in state["transfers"] if row["bank"] == bank],
        }
        found += check_bank(mine, Bank(dict.fromkeys(accounts_of(bank), BALANCE)), shown)
    return [*found, *check_isolation(operations, {row["_id"]: row["v"] for row in state["tlists"]})]


def told(operations: list[Operation], state: dict[str, Rows]) -> str:
    """For the report."""
    kinds = (Kind.TRANSFER, Kind.TRANSACTION, Kind.READ_BANK)
    all_of_them = [each for each in operations if each.kind in kinds]
    skews = len(write_skews(operations, {row["_id"]: row["v"] for row in state["tlists"]}))
    return f"transactions: {sum(each.ok for each in all_of_them)} of {len(all_of_them)} committed; write skews: {skews}"
