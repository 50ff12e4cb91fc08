"""Clients of a CQL table: rows are inserted and deleted at QUORUM, each once, and must be there, or gone, in the end.

Each statement has a timestamp of its client, which only rises, so that wrong clocks of servers decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.checkers.history import Kind, Operation, Outcome
from tests.torture.caller import Caller, World
from tests.torture.faults import FAILURES
from tests.torture.final_state import eventually
from tests.torture.processes import Server

KEYSPACE = "torture_columns"
PARTITIONS = 8
PAGE_ROWS = 1000
QUORUM = {"consistency": "QUORUM", "$db": KEYSPACE}
_TABLE = "CREATE TABLE IF NOT EXISTS rows (p int, c int, v text, PRIMARY KEY (p, c))"
_REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 1}"


async def make_table(servers: Sequence[Server]) -> None:
    """Make the keyspace and its table by whichever of the servers takes writes. Errors: NotReached."""

    async def wrong() -> str:
        refusals = []
        for server in servers:
            try:
                await server.ask({"cql": f"CREATE KEYSPACE IF NOT EXISTS {KEYSPACE} WITH replication = {_REPLICATION}"})
                await server.ask({"cql": _TABLE, "$db": KEYSPACE})
            except FAILURES as error:
                refusals.append(repr(error))
            else:
                return ""
        return "; ".join(refusals)

    await eventually("the table is made", wrong, 30)


class ColumnClient:
    """Inserts and deletes rows of the table; the history has them as inserts and deletes of `row-PARTITION-COLUMN`."""

    def __init__(self, number: int, world: World, pause: float) -> None:
        self._caller = Caller(number, world)
        self._random = self._caller.random
        self._world = world
        self._pause = pause
        self._timestamp = 0
        self._inserted: list[tuple[int, int]] = []

    async def run(self) -> None:
        try:
            while not self._world.stopped:
                if len(self._inserted) > 20 and self._random.random() < 0.3:
                    await self._delete()
                else:
                    await self._insert()
                await asyncio.sleep(self._random.expovariate(1 / self._pause))
        finally:
            self._caller.close()

    async def _insert(self) -> None:
        row = self._random.randrange(PARTITIONS), self._caller.value()
        operation = self._caller.invoke(Kind.INSERT, row_key(*row), w="majority")
        await self._write(operation, "INSERT INTO rows (p, c, v) VALUES (?, ?, 'x') USING TIMESTAMP ?", [*row])
        if operation.majority:
            self._inserted.append(row)

    async def _delete(self) -> None:
        row = self._inserted.pop(self._random.randrange(len(self._inserted)))
        operation = self._caller.invoke(Kind.DELETE, row_key(*row), w="majority")
        await self._write(operation, "DELETE FROM rows USING TIMESTAMP ? WHERE p = ? AND c = ?", [*row], first=True)

    async def _write(self, operation: Operation, text: str, row: list[int], *, first: bool = False) -> None:
        """Carry out a statement with a timestamp, which is its first parameter or its last."""
        self._timestamp += 1
        parameters = [self._timestamp, *row] if first else [*row, self._timestamp]
        outcome, _ = await self._caller.favourite({"cql": text, "params": parameters, **QUORUM})
        # A statement that was refused may have reached some of the replicas.
        self._caller.end(operation, outcome if outcome is Outcome.OK else Outcome.UNKNOWN)


def row_key(partition: int, column: int) -> str:
    return f"row-{partition}-{column}"


async def stored_rows(server: Server) -> set[str]:
    """Return the keys of all rows, read at ALL from a primary or a router. Errors: NotReached."""
    found: set[str] = set()

    async def wrong() -> str:
        found.clear()
        paging: dict[str, Any] = {}
        while True:
            select = {"cql": "SELECT p, c FROM rows", "pageSize": PAGE_ROWS, **QUORUM, "consistency": "ALL", **paging}
            page = await server.ask(select, timeout=30)
            found.update(row_key(*row) for row in page["rows"])
            if not page.get("pagingState"):
                return ""
            paging = {"pagingState": page["pagingState"]}

    await eventually("the table is read", wrong, 60)
    return found


def of_columns(operation: Operation) -> bool:
    """Whether the operation is one of a row of the table."""
    return str(operation.key).startswith("row-")
