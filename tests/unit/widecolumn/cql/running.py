"""Statements on an executor in memory, with results as plain Python values."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.run.execution import Environment, Request, execute
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache
from docstore.widecolumn.cql.run.results import Result, Rows
from docstore.widecolumn.cql.types.native import CqlType
from tests.unit.widecolumn.cql.memory_executor import MemoryExecutor

GYMS = """CREATE TABLE crossfit_gyms_by_location (country_code text, state_province text, city text, {},
    PRIMARY KEY ((country_code, state_province, city), opening_date, gym_name))"""


class Cql:
    """A keyspace `k` in use."""

    def __init__(self, largest: int = 1 << 30) -> None:
        self.executor = MemoryExecutor(largest)
        self.keyspace: str | None = "k"
        self._statements = PreparedCache()
        self._surroundings = Environment(rng=random.Random(1).randbytes)
        self.run("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")

    def run(self, text: str, *values: bytes | None, **request: Any) -> Result:
        wanted = Request(values=request.pop("values", values), **request)
        return asyncio.run(self._run(text, wanted))

    async def run_inside(self, text: str) -> Result:
        """Run a statement while another one runs."""
        return await self._run(text, Request())

    async def _run(self, text: str, wanted: Request) -> Result:
        prepared = await self._statements.prepare(self.executor, text, self.keyspace)
        return await execute(self.executor, self._surroundings, prepared, wanted)

    def rows(self, text: str, *values: bytes | None, **request: Any) -> list[tuple[Any, ...]]:
        """The rows of a SELECT as Python values."""
        return shown(self.found(text, *values, **request))

    def found(self, text: str, *values: bytes | None, **request: Any) -> Rows:
        result = self.run(text, *values, **request)
        assert isinstance(result, Rows)
        return result

    def paged(self, text: str, size: int) -> list[list[tuple[Any, ...]]]:
        """All pages."""
        pages: list[list[tuple[Any, ...]]] = []
        state: bytes | None = None
        while True:
            page = self.found(text, page_size=size, paging_state=state)
            pages.append(shown(page))
            state = page.paging_state
            if state is None:
                return pages

    def refusal(self, text: str, *values: bytes | None, **request: Any) -> CqlError:
        try:
            self.run(text, *values, **request)
        except CqlError as error:
            return error
        raise AssertionError(f"not refused: {text}")


def shown(found: Rows) -> list[tuple[Any, ...]]:
    kinds: list[CqlType] = [column.type for column in found.columns]
    return [
        tuple(None if value is None else kind.parse(value) for kind, value in zip(kinds, row, strict=True))
        for row in found.rows
    ]
