"""What stands in the servers when all is healed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import bson

from tests.checkers.members import Description
from tests.torture.faults import FAILURES, primary_of
from tests.torture.processes import Server
from tests.torture.wire import Link, Refused


class NotReached(Exception):
    """A condition did not come true in time; the message says how far it came."""


async def eventually(what: str, condition: Callable[[], Awaitable[str]], seconds: float) -> None:
    """Return once the condition gives "", which is what is wrong. NotReached."""
    end = time.monotonic() + seconds
    while True:
        try:
            wrong = await condition()
        except FAILURES as error:
            wrong = repr(error)
        if not wrong:
            return
        if time.monotonic() > end:
            raise NotReached(f"{what}: {wrong}")
        await asyncio.sleep(0.2)


async def settled(group: Sequence[Server], database: str) -> None:
    """Return when there is a primary, all others are secondaries, and all have its last entry. NotReached."""

    async def wrong() -> str:
        primary = await primary_of(group)
        if primary is None:
            return "no primary"
        note = {"insert": "settled", "documents": [{}], "writeConcern": {"w": "majority", "wtimeout": 5000}}
        reply = await primary.ask({**note, "$db": database}, timeout=8)
        if "writeConcernError" in reply or "writeErrors" in reply:
            return f"{reply}"
        hellos = await asyncio.gather(*[server.ask({"hello": 1}) for server in group])
        if not all(hello.get("isWritablePrimary") or hello.get("secondary") for hello in hellos):
            return "a member is neither primary nor secondary"
        ends = [str(hello["lastWrite"]["opTime"]) for hello in hellos]
        return "" if len(set(ends)) == 1 else f"last entries {ends}"

    await eventually(f"{group[0].name} and others settle", wrong, 90)


async def documents(address: str, database: str, collection: str) -> list[dict[str, Any]]:
    """All of a collection as a majority has it. NotSent, Lost, Refused."""
    link = Link(address)
    try:
        command = {"find": collection, "readConcern": {"level": "majority"}, "batchSize": 5000, "$db": database}
        cursor = await _cursor(link, command)
        found: list[dict[str, Any]] = cursor["firstBatch"]
        while cursor["id"]:
            cursor = await _cursor(link, {"getMore": cursor["id"], "collection": collection, "$db": database})
            found += cursor["nextBatch"]
        return found
    finally:
        link.close()


async def _cursor(link: Link, command: dict[str, Any]) -> dict[str, Any]:
    reply = await link.command(command, timeout=60)
    if not reply.get("ok"):
        raise Refused(reply)
    return dict(reply["cursor"])


async def hashes(server: Server, database: str) -> dict[str, str]:
    return dict((await server.ask({"dbHash": 1, "$db": database}, timeout=60))["collections"])


def rolled_back(directory: Path) -> list[dict[str, Any]]:
    """Every document in the rollback files below a data directory."""
    return [
        document
        for path in sorted((directory / "rollback").rglob("*.bson"))
        for document in bson.decode_all(path.read_bytes())
    ]


async def catalog(server: Server, database: str) -> dict[str, Description]:
    """The collections of a database as one member has them, by namespace."""
    nearest = {"$readPreference": {"mode": "secondaryPreferred"}, "$db": database}
    link = Link(server.address)
    try:
        rows = (await _cursor(link, {"listCollections": 1, "cursor": {"batchSize": 1000}, **nearest}))["firstBatch"]
        found = {}
        for row in rows:
            listed = await _cursor(link, {"listIndexes": row["name"], **nearest})
            indexes = {index["name"]: index for index in listed["firstBatch"]}
            found[f"{database}.{row['name']}"] = Description((row["options"], row["info"].get("uuid")), indexes)
        return found
    finally:
        link.close()
