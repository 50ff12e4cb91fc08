"""A cache of prepared statements by their text, valid while the tables that they name are unchanged.

Texts that differ only in their literals share one entry, by their shape (`docstore.widecolumn.cql.run.shapes`).
"""

from __future__ import annotations

from collections import OrderedDict

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.parser import parse
from docstore.widecolumn.cql.run.prepare import Prepared, TableAccess, prepare
from docstore.widecolumn.cql.run.shapes import literal_values, shape_of
from docstore.widecolumn.cql.statements import Statement
from docstore.widecolumn.limits import (
    MAX_KEPT_CHARACTERS,
    MAX_KEPT_STATEMENTS,
    MAX_LASTING_CHARACTERS,
    MAX_LASTING_TEXTS,
)
from docstore.widecolumn.model.executor import Executor


def parse_long(text: str) -> Statement | None:
    """Parse a text that is too long to share a statement with others of its shape; None for a shorter one. CqlError."""
    return parse(text) if len(text) > MAX_KEPT_CHARACTERS else None


class PreparedCache:
    """The prepared statements of one process. Evicts the least recently used."""

    def __init__(self, limit: int = MAX_KEPT_STATEMENTS) -> None:
        self._limit = limit
        # None for a shape that cannot be prepared, though a statement of that shape could.
        self._kept: OrderedDict[tuple[str | None, str], Prepared | None] = OrderedDict()
        self._long_texts = 0

    async def prepare(
        self,
        executor: Executor,
        text: str,
        keyspace: str | None,
        access: TableAccess | None = None,
        *,
        lasting: bool = False,
        parsed: Statement | None = None,
    ) -> Prepared:
        """Return the statement, prepared against the current schema. `access` is asked as in `prepare`, but not for a
        cached statement. `lasting`: the client will execute it again, so a long one is kept too, while there is room.
        `parsed`: as in `prepare`. CqlError.
        """
        if len(text) > MAX_KEPT_CHARACTERS:
            if not lasting or len(text) > MAX_LASTING_CHARACTERS:
                return await prepare(executor, text, keyspace, access, parsed=parsed)
            known = await self._known(executor, (keyspace, text))
            return known or await self._prepared(executor, text, keyspace, access, parsed)
        cached_statement = await self._known(executor, (keyspace, text))
        if cached_statement is not None:
            return cached_statement
        shaped = shape_of(text)
        if shaped is None:
            return await self._prepared(executor, text, keyspace, access, parsed)
        shape, literals = shaped
        cache_key = keyspace, shape
        if cache_key in self._kept and self._kept[cache_key] is None:
            return await self._prepared(executor, text, keyspace, access)
        try:
            prepared = await self._known(executor, cache_key) or await self._prepared(executor, shape, keyspace, access)
            values = literal_values(prepared.variables, literals)
            return Prepared(text, keyspace, prepared.plan, prepared.families, (), prepared.columns, values)
        except CqlError:
            statement = await self._prepared(executor, text, keyspace, access)
            self._keep(cache_key, None)
            return statement

    async def _known(self, executor: Executor, place: tuple[str | None, str]) -> Prepared | None:
        """Return the cached statement if all its tables are still those it was prepared against."""
        statement = self._kept.get(place)
        if statement is None:
            return None
        for family in statement.families:
            if await executor.family(family.keyspace.name, family.definition.name) != family:
                return None
        self._kept.move_to_end(place)
        return statement

    async def _prepared(
        self,
        executor: Executor,
        text: str,
        keyspace: str | None,
        access: TableAccess | None,
        parsed: Statement | None = None,
    ) -> Prepared:
        statement = await prepare(executor, text, keyspace, access, parsed=parsed)
        if statement.families:
            self._keep((keyspace, text), statement)
        return statement

    def _keep(self, place: tuple[str | None, str], prepared: Prepared | None) -> None:
        if place not in self._kept:
            self._long_texts += len(place[1]) > MAX_KEPT_CHARACTERS
        self._kept[place] = prepared
        while len(self._kept) > self._limit or self._long_texts > MAX_LASTING_TEXTS:
            (_, text), _ = self._kept.popitem(last=False)
            self._long_texts -= len(text) > MAX_KEPT_CHARACTERS
