"""Prepared statements by their ids, and what clients are told of their markers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from docstore.security.names import UserName
from docstore.widecolumn.cql.plan.batch import BatchPlan
from docstore.widecolumn.cql.plan.bindings import Variable
from docstore.widecolumn.cql.plan.conditions import ConditionalPlan
from docstore.widecolumn.cql.plan.select import SelectPlan
from docstore.widecolumn.cql.plan.selection import ResultColumn
from docstore.widecolumn.cql.plan.write import WritePlan
from docstore.widecolumn.cql.run.prepare import Prepared
from docstore.widecolumn.cql.schema.tables import Table
from docstore.widecolumn.cql.statements import Statement
from docstore.widecolumn.protocol.responses import BindMetadata, metadata_id_of

MAX_STATEMENTS = 20_000
MAX_TEXT_BYTES = 64 * 1024 * 1024
"""The maximal length of all texts together."""
MAX_USERS = 1000
"""The users remembered for one statement; then it is begun again with the next one's."""


@dataclass(slots=True)
class IdentifiedStatement:
    """A statement that a client has prepared. `columns`: of its result as last seen; `metadata_id`: of these.

    `users`: whose clients have prepared it. To others it is unknown while they may not execute it: ids can be computed
    from texts, and would tell which tables there are and what others ask.
    """

    text: str
    keyspace: str | None
    statement: Statement
    columns: Sequence[ResultColumn]
    metadata_id: bytes
    users: set[UserName | None] = field(default_factory=set)

    def current_metadata_id(self, columns: Sequence[ResultColumn]) -> bytes:
        """Return the id of these columns."""
        if columns is not self.columns:
            self.columns, self.metadata_id = columns, metadata_id_of(columns)
        return self.metadata_id


class StatementIds:
    """The statements of a process that clients execute by id. Evicts the least recently used."""

    def __init__(self, limit: int = MAX_STATEMENTS, max_text_bytes: int = MAX_TEXT_BYTES) -> None:
        self._limit = limit
        self._max_text_bytes = max_text_bytes
        self._text_bytes = 0
        self._statements: OrderedDict[bytes, IdentifiedStatement] = OrderedDict()

    def __len__(self) -> int:
        return len(self._statements)

    def get(self, statement_id: bytes) -> IdentifiedStatement | None:
        statement = self._statements.get(statement_id)
        if statement is not None:
            self._statements.move_to_end(statement_id)
        return statement

    def add(self, prepared: Prepared, parsed: Statement, user: UserName | None = None) -> IdentifiedStatement:
        """Keep a statement under `Prepared.id`. `parsed`: its text as `parse` returns it; `user`: the client's."""
        statement_id = prepared.id
        statement = IdentifiedStatement(
            prepared.text, prepared.keyspace, parsed, prepared.columns, metadata_id_of(prepared.columns)
        )
        known = self._statements.get(statement_id)
        if known is None:
            self._text_bytes += len(prepared.text)
        elif len(known.users) < MAX_USERS:
            statement.users = known.users
        statement.users.add(user)
        self._statements[statement_id] = statement
        self._statements.move_to_end(statement_id)
        while len(self._statements) > 1 and (
            len(self._statements) > self._limit or self._text_bytes > self._max_text_bytes
        ):
            _, evicted = self._statements.popitem(last=False)
            self._text_bytes -= len(evicted.text)
        return statement


def bind_metadata(prepared: Prepared) -> BindMetadata:
    """Describe the markers of a statement, each with the table and column that it stands for."""
    plan, variables = prepared.plan, prepared.variables
    if isinstance(plan, SelectPlan | WritePlan | ConditionalPlan):
        markers = [_marker(plan.table, variable) for variable in variables]
        keyed = not isinstance(plan, SelectPlan) or plan.keys is not None
        return BindMetadata(markers, _key_positions(plan.table, variables) if keyed else ())
    if isinstance(plan, BatchPlan) and plan.members:
        first = plan.members[0].table
        tables = {variable.position: member.table for member in plan.members for variable in member.variables}
        markers = [_marker(tables.get(variable.position, first), variable) for variable in variables]
        own = plan.members[0].variables
        positions = [variables.index(own[at]) for at in _key_positions(first, own)]
        return BindMetadata(markers, positions if all(member.table is first for member in plan.members) else ())
    return BindMetadata(())


def _marker(table: Table, variable: Variable) -> ResultColumn:
    return ResultColumn(table.keyspace.name, table.name, variable.marker or variable.name, variable.type)


def _key_positions(table: Table, variables: Sequence[Variable]) -> tuple[int, ...]:
    """The markers of the partition key in its order; empty unless each column has exactly one."""
    positions: list[int] = []
    for column in table.partition:
        bound = [at for at, variable in enumerate(variables) if variable.name == column.name]
        if len(bound) != 1:
            return ()
        positions += bound
    return tuple(positions)
