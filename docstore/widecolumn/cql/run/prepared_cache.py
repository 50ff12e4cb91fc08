"""A cache of prepared statements by their text, valid while the tables that they name are unchanged.

Texts that differ only in their literals share one entry, by their shape (`docstore.widecolumn.cql.run.shapes`).
"""

from __future__ import annotations

from collections import OrderedDict

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.run.prepare import Prepared, TableAccess, prepare
from docstore.widecolumn.cql.run.shapes import literal_values, shape_of
from docstore.widecolumn.cql.statements import Statement
from docstore.widecolumn.model.executor import Executor

MAX_KEPT = 10_000
MAX_LENGTH = 4096
"""The maximal length of a cached text: longer ones rarely repeat."""


MAX_LONG_LENGTH = 64 * 1024
MAX_LONG_TEXTS = 1000
"""Of statements that clients prepare by themselves."""


class PreparedCache:
    """The prepared statements of one process. Evicts the least recently used."""

    def __init__(self, limit: int = MAX_KEPT) -> None:
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
        if len(text) > MAX_LENGTH:
            if not lasting or len(text) > MAX_LONG_LENGTH:
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
            self._long_texts += len(place[1]) > MAX_LENGTH
        self._kept[place] = prepared
        while len(self._kept) > self._limit or self._long_texts > MAX_LONG_TEXTS:
            (_, text), _ = self._kept.popitem(last=False)
            self._long_texts -= len(text) > MAX_LENGTH
