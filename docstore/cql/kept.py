"""Prepared statements, kept for the next time the text comes while the tables that they name stay as they are."""

from __future__ import annotations

from collections import OrderedDict

from docstore.cql.preparing import Prepared, prepare
from docstore.wide.execution import Executor

MAX_KEPT = 10_000
MAX_LENGTH = 4096
"""Of a statement's text: longer ones are seldom seen twice."""


class Statements:
    """The prepared statements of one process, those longest unused given up first."""

    def __init__(self, limit: int = MAX_KEPT) -> None:
        self._limit = limit
        self._kept: OrderedDict[tuple[str | None, str], Prepared] = OrderedDict()

    async def prepare(self, executor: Executor, text: str, keyspace: str | None) -> Prepared:
        """The statement, prepared against the schema as it is now. CqlError."""
        place = keyspace, text
        known = self._kept.get(place)
        if known is not None and await _stands(executor, known):
            self._kept.move_to_end(place)
            return known
        made = await prepare(executor, text, keyspace)
        if made.families and len(text) <= MAX_LENGTH:
            self._kept[place] = made
            if len(self._kept) > self._limit:
                self._kept.popitem(last=False)
        return made


async def _stands(executor: Executor, prepared: Prepared) -> bool:
    """Whether all tables are still the ones it was prepared against."""
    for family in prepared.families:
        if await executor.family(family.keyspace.name, family.definition.name) != family:
            return False
    return True
