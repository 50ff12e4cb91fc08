"""Clients with transactions over many documents: a bank, lists, names that are unique, counters.

Where a client's transactions go is for `Client` to know, as with everything else that it asks for: to the primary of a
set, or to a router. What it may say of one that did not end well follows from the rules of drivers: one whose commit
was never asked for has not happened, nor has one whose commit failed with the label `TransientTransactionError`; a
commit is asked for again under the same number until its outcome is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import bson

from docstore.errors import CommandError
from docstore.net import NetworkError
from tests.checkers.bank import ROLLED_BACK, Bank, check_bank, check_unique
from tests.checkers.durability import check_counters, check_inserts
from tests.checkers.history import Anomaly, History, Kind
from tests.checkers.isolation import APPEND, READ, check_isolation, write_skews
from tests.simulation.clients import DATABASE, SECONDARY, Client, Refused, Target, Unknown
from tests.simulation.workloads import Workload
from tests.simulation.world import World

TRANSIENT = "TransientTransactionError"
BALANCE = 100
BANK = Bank(dict.fromkeys(("a0", "a1", "a2", "a3", "a4"), BALANCE), ("x", "y", "z"))
LISTS = ("k", "l", "m", "n")
MAJORITY = {"w": "majority", "wtimeout": 2000}
COMMIT_SECONDS = 8.0
INDEXES = {
    "accounts": [{"key": {"balance": 1}, "name": "balance"}],
    "holders": [{"key": {"name": 1}, "name": "name", "unique": True}],
    "names": [{"key": {"name": 1}, "name": "name", "unique": True}],
}


class Aborted(Exception):
    """The transaction has certainly not happened. `write_errors`: of the statement that ended it."""

    def __init__(self, message: str, write_errors: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.write_errors = write_errors


class OpenTransaction:
    """One transaction of a client, from its first statement to its commit or abort."""

    def __init__(self, client: Client, concern: Mapping[str, Any] | None = None) -> None:
        """`concern`: the read concern."""
        self._client = client
        self._fields = {**client.next_number(), "autocommit": False}
        self._first: dict[str, Any] = {"startTransaction": True, "readConcern": concern or {"level": "snapshot"}}
        self._token: dict[str, Any] = {}

    async def run(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to a statement. Errors: Aborted; nothing is asked of the transaction then but to be aborted."""
        client = self._client
        whole = {**command, **self._fields, **self._first}
        self._first = {}
        try:
            reply: dict[str, Any] = bson.decode(await client.ask(DATABASE, whole, timeout=client.seconds))
        except (NetworkError, CommandError) as error:
            raise Aborted(repr(error)) from error
        if "recoveryToken" in reply:
            self._token = {"recoveryToken": reply["recoveryToken"]}
        if reply.get("writeErrors"):
            raise Aborted(str(reply["writeErrors"]), reply["writeErrors"])
        return reply

    async def find(self, collection: str, where: Mapping[str, Any], **options: Any) -> list[dict[str, Any]]:
        reply = await self.run({"find": collection, "filter": where, "batchSize": 10_000, **options})
        found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
        return found

    async def change(self, collection: str, where: Mapping[str, Any], change: Any, **options: Any) -> int:
        """How many documents an update met."""
        update = {"q": where, "u": change, **options}
        return int((await self.run({"update": collection, "updates": [update]}))["n"])

    async def change_alone(self, collection: str, where: Mapping[str, Any], change: Any, *, stays: float) -> int:
        """As `change`, then the commit, up to so many seconds later. Errors: Refused, Unknown."""
        try:
            met = await self.change(collection, where, change)
            await asyncio.sleep(self._client.dice.uniform(0.0, stays))
            await self.commit()
        except Aborted as error:
            await self.abort()
            raise Refused(str(error)) from error
        return met

    async def commit(self) -> None:
        """Errors: Aborted, Unknown."""
        client = self._client
        end = asyncio.get_running_loop().time() + COMMIT_SECONDS
        elsewhere = False
        while True:
            try:
                reply = bson.decode(await self.ask_for_commit(elsewhere=elsewhere, seconds=client.seconds))
            except NetworkError as error:
                told: Exception = error
            except CommandError as error:
                if TRANSIENT in error.labels:
                    raise Aborted(repr(error)) from error
                told = error
            else:
                if not reply.get("writeConcernError"):
                    return
                told = Unknown(str(reply["writeConcernError"]))
            if asyncio.get_running_loop().time() >= end:
                raise Unknown(repr(told)) from told
            elsewhere = client.dice.random() < 0.5
            await asyncio.sleep(client.dice.uniform(0.01, 0.2))

    async def ask_for_commit(self, *, elsewhere: bool, seconds: float) -> bytes:
        """The reply to one commitTransaction, `elsewhere` of somebody who knows nothing of the transaction yet."""
        client = self._client
        command = {"commitTransaction": 1, **self._fields, "writeConcern": MAJORITY, **self._token}
        if client.elsewhere is None:
            return await client.ask("admin", command, retry=True, timeout=seconds)
        if not elsewhere:
            return await client.ask("admin", command, timeout=seconds)
        async with client.elsewhere() as ask:
            return await ask("admin", command, timeout=seconds)

    async def abort(self) -> None:
        """Whatever comes of it."""
        with suppress(NetworkError, CommandError):
            command = {"abortTransaction": 1, **self._fields, **self._token}
            await self._client.ask("admin", command, timeout=1.0)


Body = Callable[[OpenTransaction], Awaitable[Any]]


async def carry_out(
    client: Client, operation: Any, body: Body, *, gives_up: float = 0.1,
    opens: Callable[..., OpenTransaction] = OpenTransaction, **options: Any,
) -> bool:  # fmt: skip
    """Do it in one transaction, and note what came of it; whether it is committed. `gives_up`: how often not at all."""
    transaction, asked = opens(client, **options), False
    try:
        await body(transaction)
        if client.dice.random() < gives_up:
            raise Aborted("given up")
        asked = True
        await transaction.commit()
    except Aborted:
        if asked and operation.kind is Kind.TRANSFER:
            operation.result = ROLLED_BACK
        client.history.failed(operation)
        await end(client, transaction)
        return False
    except Unknown:
        client.history.unknown(operation)
        return False
    client.history.ok(operation, operation.result)
    return True


async def end(client: Client, transaction: OpenTransaction) -> None:
    """Abort what was given up, or abandon it."""
    if client.dice.random() >= client.abandons:
        await transaction.abort()


async def think(client: Client) -> None:
    """Between two statements; now and then for long."""
    if not client.hurries:
        longest = client.dice.choice((0.0, 0.0, 0.003, 0.003, 0.03, client.patience))
        await asyncio.sleep(longest * client.dice.random())


# The bank


async def transfer(client: Client, work: Workload) -> None:
    """Money from one account to another, with a row that says so."""
    dice = client.dice
    source, target = dice.sample(sorted(BANK.accounts), 2)
    amount, key = dice.randint(1, 9), f"t{work.value()}"
    operation = client.history.invoke(client.number, Kind.TRANSFER, key, [source, target, amount], w="majority")

    async def body(transaction: OpenTransaction) -> None:
        def row() -> Awaitable[Any]:
            return transaction.run({"insert": "transfers", "documents": [{"_id": key, "by": client.number}]})

        if dice.random() < 0.2:
            steps = [row, lambda: _move_at_once(transaction, source, target, amount)]
        else:
            moves = ((source, -amount), (target, amount))
            steps = [row, *(lambda move=move: _add(client, transaction, *move) for move in moves)]
        dice.shuffle(steps)
        for step in steps:
            await step()
            await think(client)

    await carry_out(client, operation, body)


async def _move_at_once(transaction: OpenTransaction, source: str, target: str, amount: int) -> None:
    change = {"$add": ["$balance", {"$cond": [{"$eq": ["$_id", source]}, -amount, amount]}]}
    where = {"_id": {"$in": [source, target]}}
    _met(await transaction.change("accounts", where, [{"$set": {"balance": change}}], multi=True), 2)


async def _add(client: Client, transaction: OpenTransaction, account: str, amount: int) -> None:
    kind = client.dice.random()
    if kind < 0.5:
        _met(await transaction.change("accounts", {"_id": account}, {"$inc": {"balance": amount}}))
    elif kind < 0.75:
        command = {"findAndModify": "accounts", "query": {"_id": account}, "update": {"$inc": {"balance": amount}}}
        _met((await transaction.run(command))["lastErrorObject"]["n"])
    else:
        found = await transaction.find("accounts", {"_id": account})
        _met(len(found))
        deletes = [{"q": {"_id": account}, "limit": 1}]
        _met((await transaction.run({"delete": "accounts", "deletes": deletes}))["n"])
        document = {**found[0], "balance": found[0]["balance"] + amount}
        _met((await transaction.run({"insert": "accounts", "documents": [document]}))["n"])


def _met(count: int, expected: int = 1) -> None:
    assert count == expected, f"a transaction has met {count} documents of {expected} that are there at every moment"


async def read_bank(client: Client, _work: Workload, *, at: Any = None) -> None:
    """All of it in one transaction, by several ways. `at`: a moment that has been."""
    level = "snapshot" if at is None else "majority"
    operation = client.history.invoke(client.number, Kind.READ_BANK, "bank", read_concern=level)
    concern = {"level": "snapshot"} if at is None else {"level": "snapshot", "atClusterTime": at}

    async def body(transaction: OpenTransaction) -> None:
        shown = await read_all(client, transaction)
        operation.result = shown

    await carry_out(client, operation, body, gives_up=0.05, concern=concern)


async def read_all(client: Client, transaction: OpenTransaction) -> dict[str, Any]:
    """What one snapshot shows, as `tests.checkers.bank` has it."""
    shown: dict[str, Any] = {}

    async def accounts(name: str = "accounts", **options: Any) -> None:
        found = await transaction.find("accounts", {}, **options)
        shown[name] = {each["_id"]: each["balance"] for each in found}

    async def totals() -> None:
        stages = [{"$group": {"_id": None, "sum": {"$sum": "$balance"}, "count": {"$sum": 1}}}]
        reply = await transaction.run({"aggregate": "accounts", "pipeline": stages, "cursor": {}})
        (found,) = reply["cursor"]["firstBatch"]
        shown.update(sum=found["sum"], count=found["count"])

    async def richer() -> None:
        limit = BALANCE + client.dice.randint(-15, 15)
        found = await transaction.find("accounts", {"balance": {"$gte": limit}}, hint="balance", projection={"_id": 1})
        shown["richer"] = [limit, [each["_id"] for each in found]]

    async def transfers() -> None:
        shown["transfers"] = [each["_id"] for each in await transaction.find("transfers", {})]

    async def holders() -> None:
        shown["holders"] = [each["name"] for each in await transaction.find("holders", {})]

    def by_index() -> Awaitable[None]:
        covered = {"hint": "balance", "projection": {"balance": 1}, "sort": {"balance": 1}}
        return accounts("by index", **covered)

    ways: list[Callable[[], Awaitable[None]]] = [accounts, by_index, totals, richer, transfers, holders]
    client.dice.shuffle(ways)
    for way in ways:
        await way()
        await think(client)
    await accounts("again")
    return shown


async def read_outside(client: Client, _work: Workload) -> None:
    """By one pipeline, of any member: each shows one moment, however it comes to it."""
    dice = client.dice
    level = dice.choice(("local", "local", "majority"))
    operation = client.history.invoke(client.number, Kind.READ_BANK, "bank", read_concern=level)
    parts = [{"$unionWith": {"coll": name, "pipeline": []}} for name in ("transfers", "holders")]
    options = {"read_preference": SECONDARY} if dice.random() < 0.8 else {}
    command: dict[str, Any] = {"aggregate": "accounts", "pipeline": parts, "cursor": {"batchSize": 10_000}}
    command |= {"readConcern": {"level": level}}
    if "read_preference" in options:
        command["$readPreference"] = SECONDARY.document()

    async def work() -> dict[str, Any]:
        reply = await client.command(command, **options)
        return _sorted_out(reply["cursor"]["firstBatch"])

    await client.record(operation, work())


async def read_twice(client: Client, work: Workload) -> None:
    """Of one moment, by finds of which each may go to another member; then perhaps in a transaction."""
    operation = client.history.invoke(client.number, Kind.READ_BANK, "bank", read_concern="majority")
    moment: list[Any] = []

    async def find(name: str) -> list[dict[str, Any]]:
        concern = {"level": "snapshot", **({"atClusterTime": moment[0]} if moment else {})}
        command = {"find": name, "batchSize": 10_000, "readConcern": concern, "$readPreference": SECONDARY.document()}
        cursor = (await client.command({**command, "maxTimeMS": 3000}, read_preference=SECONDARY))["cursor"]
        moment[:] = [cursor["atClusterTime"]]
        found: list[dict[str, Any]] = cursor["firstBatch"]
        return found

    async def both() -> dict[str, Any]:
        found = []
        for name in client.dice.sample(("accounts", "transfers", "holders"), 3):
            found += await find(name)
            await think(client)
        return _sorted_out(found)

    if await client.record(operation, both()) is not None and client.dice.random() < 0.5:
        await read_bank(client, work, at=moment[0])


def _sorted_out(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "accounts": {each["_id"]: each["balance"] for each in found if "balance" in each},
        "transfers": [each["_id"] for each in found if each["_id"].startswith("t")],
        "holders": [each["name"] for each in found if "name" in each],
    }


# Lists, names, counters


async def append_and_read(client: Client, work: Workload) -> None:
    """Some steps over the lists."""
    dice = client.dice
    operation = client.history.invoke(client.number, Kind.TRANSACTION, "lists", [], w="majority")

    async def body(transaction: OpenTransaction) -> None:
        for _ in range(dice.randint(2, 4)):
            key = dice.choice(LISTS)
            if dice.random() < 0.5:
                found = await transaction.find("lists", {"_id": key})
                operation.value.append([READ, key, list(found[0]["list"]) if found else []])
            else:
                element = work.value()
                operation.value.append([APPEND, key, element])
                await transaction.change("lists", {"_id": key}, {"$push": {"list": element}}, upsert=True)
            await think(client)

    await carry_out(client, operation, body, gives_up=0.05)


async def take_name(client: Client, work: Workload) -> None:
    """A name from who holds it; or one that somebody holds, which must be refused."""
    dice, name, key = client.dice, client.dice.choice(sorted(BANK.names)), f"h{work.value()}"
    insert = {"insert": "holders", "documents": [{"_id": key, "name": name}]}
    if dice.random() < 0.3:
        with suppress(Refused, Unknown):
            await client.write(insert, "majority")
        return
    transaction = OpenTransaction(client)
    try:
        if dice.random() < 0.7:
            deletes = [{"q": {"name": name}, "limit": 1}]
            _met((await transaction.run({"delete": "holders", "deletes": deletes}))["n"])
            await think(client)
        await transaction.run(insert)
        await think(client)
        await transaction.commit()
    except (Aborted, Unknown):
        await end(client, transaction)


async def take_free_name(client: Client, work: Workload) -> None:
    """One that nobody has had; others want it too."""
    key = work.value()
    insert = {"insert": "names", "documents": [{"_id": key, "name": f"n{key // 6}"}]}
    operation = client.history.invoke(client.number, Kind.INSERT, key, w="majority")
    if client.dice.random() < 0.3:
        await client.record(operation, client.write(insert, "majority"))
        return

    async def body(transaction: OpenTransaction) -> None:
        await transaction.run(insert)
        await think(client)

    await carry_out(client, operation, body)


async def count(client: Client, work: Workload) -> None:
    """Increments of counters that the first one makes: in a transaction, or outside; and of a field of an account."""
    dice = client.dice
    if dice.random() < 0.3:
        account = dice.choice(sorted(BANK.accounts))
        operation = client.history.invoke(client.number, Kind.ADD, f"n of {account}", 1, w="majority")
        update = {"q": {"_id": account}, "u": {"$inc": {"n": 1}}}
        await client.record(operation, _once(client, {"update": "accounts", "updates": [update]}))
        return
    key = f"c{work.value() // 20}"
    if dice.random() < 0.4:
        await client.add(key, "majority")
        return
    operation = client.history.invoke(client.number, Kind.ADD, key, 2, w="majority")

    async def body(transaction: OpenTransaction) -> None:
        for _ in range(2):
            await transaction.change("counters", {"_id": key}, {"$inc": {"number": 1}}, upsert=True)
            await think(client)

    await carry_out(client, operation, body)


async def _once(client: Client, command: Mapping[str, Any]) -> None:
    reply = await client.write(command, "majority", retryable=True)
    assert reply["n"] == 1, f"{command} has met {reply['n']}"


async def anything(client: Client, work: Workload) -> None:
    """One of all these."""
    act = client.dice.choices(
        (transfer, read_bank, read_outside, read_twice, append_and_read, take_name, take_free_name, count),
        (30, 12, 12, 5, 30, 8, 6, 12),
    )[0]
    await act(client, work)


# The beginning and the end


async def prepare(ask: Target) -> None:
    """What there must be before clients begin."""
    for name, indexes in INDEXES.items():
        await ask(DATABASE, {"createIndexes": name, "indexes": indexes, "writeConcern": {"w": "majority"}})
    accounts = [{"_id": account, "balance": balance, "n": 0} for account, balance in BANK.accounts.items()]
    holders = [{"_id": f"h{name}", "name": name} for name in BANK.names]
    for name, documents in (("accounts", accounts), ("holders", holders)):
        await ask(DATABASE, {"insert": name, "documents": documents, "writeConcern": {"w": "majority"}})
    for name in ("transfers", "lists", "counters"):
        await ask(DATABASE, {"create": name, "writeConcern": {"w": "majority"}})


async def final_state(ask: Target) -> dict[str, list[dict[str, Any]]]:
    """All documents by collection, as a majority has them."""
    found = {}
    for name in ("accounts", "transfers", "holders", "names", "lists", "counters"):
        command = {"find": name, "readConcern": {"level": "majority"}, "batchSize": 100_000}
        reply = bson.decode(await ask(DATABASE, command, retry=True, timeout=20.0))
        found[name] = reply["cursor"]["firstBatch"]
    return found


def anomalies(history: History, final: Mapping[str, list[dict[str, Any]]]) -> list[Anomaly]:
    """What no correct set, and no correct cluster, does."""
    shown = _sorted_out([*final["accounts"], *final["transfers"], *final["holders"]])
    lists = {each["_id"]: each["list"] for each in final["lists"]}
    numbers = {each["_id"]: each["number"] for each in final["counters"]}
    numbers |= {f"n of {each['_id']}": each["n"] for each in final["accounts"]}
    return [
        *check_bank(history, BANK, shown),
        *check_unique("names", [each["name"] for each in final["names"]]),
        *check_inserts(
            [each for each in history if each.kind is Kind.INSERT], {each["_id"] for each in final["names"]}
        ),
        *check_isolation(history, lists),
        *check_counters(history, numbers),
    ]


def report(world: World, history: History, final: Mapping[str, list[dict[str, Any]]]) -> None:
    """How much there was to be judged."""
    kinds = (Kind.TRANSFER, Kind.TRANSACTION)
    transactions = [each for each in history if each.kind in kinds]
    lists = {each["_id"]: each["list"] for each in final["lists"]}
    world.counts |= {
        "operations": len(history),
        "acknowledged": sum(each.ok for each in history),
        "transactions": len(transactions),
        "committed": sum(each.ok for each in transactions),
        "write skews": len(write_skews(history, lists)),
    }
