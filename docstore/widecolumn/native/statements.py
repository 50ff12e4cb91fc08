"""Statements of the native protocol, from a request to the body of its response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from docstore.commands.access.need import Need
from docstore.commands.context import Context
from docstore.commands.limits import LONG_REQUEST_BYTES
from docstore.errors import Code, CommandError
from docstore.widecolumn.commands.permissions import Permissions, visible_schema
from docstore.widecolumn.commands.roles import is_about_roles, run_role_statement
from docstore.widecolumn.cql.errors import UNAUTHORIZED, CqlError, invalid, unsupported
from docstore.widecolumn.cql.parser import parse
from docstore.widecolumn.cql.plan.bindings import Bound
from docstore.widecolumn.cql.plan.conditions import ConditionalPlan
from docstore.widecolumn.cql.plan.select import SelectPlan
from docstore.widecolumn.cql.plan.selection import ResultColumn
from docstore.widecolumn.cql.roles.permissions import display_resource, permission_with
from docstore.widecolumn.cql.run.batches import BatchMember, execute_batch
from docstore.widecolumn.cql.run.execution import Environment, Request, execute
from docstore.widecolumn.cql.run.prepare import Prepared, waits_for_others
from docstore.widecolumn.cql.run.prepared_cache import PreparedCache, parse_long
from docstore.widecolumn.cql.run.results import Done, KeyspaceSet, Result, Rows, SchemaChanged
from docstore.widecolumn.cql.run.shapes import statement_of
from docstore.widecolumn.cql.schema.describe import SchemaReader
from docstore.widecolumn.cql.statements import BatchKind, Describe, SchemaChange, Select, Statement, Use
from docstore.widecolumn.cql.system.executor import SystemExecutor, SystemSchema, is_system
from docstore.widecolumn.cql.system.topology import Topology
from docstore.widecolumn.cql.types.native import NATIVE_TYPES
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, Level
from docstore.widecolumn.model.executor import Executor
from docstore.widecolumn.native.client import NativeCall
from docstore.widecolumn.protocol.failures import failure_of
from docstore.widecolumn.protocol.opcodes import V5
from docstore.widecolumn.protocol.prepared import IdentifiedStatement, StatementIds, bind_metadata
from docstore.widecolumn.protocol.requests import (
    BatchRequest,
    ExecuteRequest,
    PrepareRequest,
    QueryParameters,
    QueryRequest,
)
from docstore.widecolumn.protocol.responses import (
    VOID,
    Failure,
    RowsMetadata,
    encode_rows,
    keyspace_body,
    prepared_body,
    rows_body,
    schema_change_body,
)

T = TypeVar("T")
_ROWS_AT_ONCE = 500
_ONE_MEMBER = (Level.ONE, Level.LOCAL_ONE)
_BATCH_WRITES = {BatchKind.LOGGED: "BATCH", BatchKind.UNLOGGED: "UNLOGGED_BATCH", BatchKind.COUNTER: "COUNTER"}


@dataclass(frozen=True, slots=True)
class StatementNeeds:
    """`serial`: reads only what the primary has; `fresh`: needs the newest definitions."""

    serial: bool
    fresh: bool


class StatementRunner(Protocol):
    """Runs work over an executor of the process; on a router again where definitions have changed meanwhile."""

    def __call__(
        self,
        context: Context,
        needs: StatementNeeds,
        work: Callable[[Executor, PreparedCache, Environment], Awaitable[T]],
    ) -> Awaitable[T]: ...


class StatementService:
    """The statements of one process. `schema`: what system tables show, where a request has an executor. `topology`
    reads the nodes for a client. `is_eager`: statements on rows at level ONE wait only by a pause or a lock there, so
    they may begin outside of a task.
    """

    def __init__(
        self,
        runner: StatementRunner,
        schema: Callable[[Executor], SchemaReader],
        topology: Callable[[Context], Awaitable[Topology]],
        *,
        is_eager: bool = False,
    ) -> None:
        self.ids = StatementIds()
        self.schema_changed: Callable[[], None] = lambda: None
        """Called after a change of the schema."""
        self._is_eager = is_eager
        self._runner = runner
        self._schema = schema
        self._topology = topology

    def may_begin(self, call: NativeCall) -> bool:
        """True if a call may begin outside of a task."""
        if not self._is_eager or call.level not in _ONE_MEMBER or _is_long(call.request):
            return False
        text = _text_of(call.request)
        return text is None or not is_about_roles(text)

    async def carry_out(self, context: Context, call: NativeCall) -> None:
        """Set the response of a call; the loop is free while a long text is read. Errors: CommandError."""
        run_on_thread = context.services.run_on_thread
        if run_on_thread is None or not _is_long(call.request):
            await self._carry_out(context, call)
            return
        context.progress.apart = True
        await run_on_thread(lambda: self._carry_out(context, call))

    async def _carry_out(self, context: Context, call: NativeCall) -> None:
        request = call.request
        text = _text_of(request)
        if text is not None and is_about_roles(text):
            await self._run_about_roles(context, call, text)
            return
        parsed = None if text is None else parse_long(text)
        needs = self._needs(call, parsed)

        async def work(executor: Executor, statements: PreparedCache, environment: Environment) -> None:
            visible = visible_schema(context, executor)
            schema = self._schema(executor)
            visible_definitions = visible_schema(context, schema)
            system = SystemExecutor(executor, schema, visible_definitions, lambda: self._topology(context))
            run = _Run(self.ids, context, call, system, SystemSchema(visible), statements, environment, parsed)
            if await run.carry_out():
                self.schema_changed()

        await self._runner(context, needs, work)

    async def _run_about_roles(self, context: Context, call: NativeCall, text: str) -> None:
        if not isinstance(call.request, QueryRequest):
            raise unsupported("Preparing statements about roles is")
        call.write_type = "SIMPLE"
        reply = await run_role_statement(context, text, call.request.parameters.keyspace or call.keyspace)
        call.body = VOID if "columns" not in reply else _role_rows(reply)

    def _needs(self, call: NativeCall, parsed: Statement | None) -> StatementNeeds:
        request = call.request
        if isinstance(request, BatchRequest):
            return StatementNeeds(serial=True, fresh=False)
        if isinstance(request, ExecuteRequest):
            identified = self.ids.get(request.statement_id)
            if identified is None:
                return StatementNeeds(serial=False, fresh=False)
            statement, keyspace = identified.statement, identified.keyspace
        else:
            statement = parsed or statement_of(request.text)
            keyspace = _keyspace_of(request) or call.keyspace
        serial = not isinstance(statement, Select) or call.level in SERIAL_LEVELS
        return StatementNeeds(serial, _is_about_schema(statement, keyspace))


def _is_long(request: QueryRequest | PrepareRequest | ExecuteRequest | BatchRequest) -> bool:
    if isinstance(request, BatchRequest):
        return sum(len(member.statement) for member in request.members) > LONG_REQUEST_BYTES
    text = _text_of(request)
    return text is not None and len(text) > LONG_REQUEST_BYTES


def _text_of(request: QueryRequest | PrepareRequest | ExecuteRequest | BatchRequest) -> str | None:
    return request.text if isinstance(request, QueryRequest | PrepareRequest) else None


def _keyspace_of(request: QueryRequest | PrepareRequest) -> str | None:
    """The keyspace that a request names for itself."""
    return request.keyspace if isinstance(request, PrepareRequest) else request.parameters.keyspace


def _is_about_schema(statement: Statement, keyspace: str | None) -> bool:
    if isinstance(statement, Select):
        return is_system(statement.table.keyspace or keyspace or "")
    return isinstance(statement, SchemaChange | Use | Describe)


@dataclass(slots=True)
class _Run:
    """One attempt to carry out a call. `parsed`: the statement of its text, if that is long."""

    ids: StatementIds
    context: Context
    call: NativeCall
    executor: SystemExecutor
    schema: SystemSchema
    statements: PreparedCache
    environment: Environment
    parsed: Statement | None
    changed_schema: bool = False

    async def carry_out(self) -> bool:
        """Set the response of the call; return whether the schema has been changed."""
        request = self.call.request
        if isinstance(request, QueryRequest):
            await self._query(request)
        elif isinstance(request, PrepareRequest):
            await self._prepare(request)
        elif isinstance(request, ExecuteRequest):
            await self._execute(request)
        else:
            await self._batch(request)
        return self.changed_schema

    async def _prepared(
        self, text: str, keyspace: str | None, *, lasting: bool = False, parsed: Statement | None = None
    ) -> Prepared:
        refusal = partial(_unauthorized, self.context)
        permissions = Permissions(self.context, refusal, open_keyspaces=is_system)
        prepared = await self.statements.prepare(
            self.executor, text, keyspace, permissions, lasting=lasting, parsed=parsed
        )
        permissions.check_prepared(prepared)
        return prepared

    def _identified(self, statement_id: bytes) -> IdentifiedStatement:
        statement = self.ids.get(statement_id)
        if statement is None:
            raise UnknownStatement(statement_id)
        return statement

    async def _identified_prepared(self, statement_id: bytes, identified: IdentifiedStatement) -> Prepared:
        """Prepare a statement that a client names by its id. Errors: UnknownStatement if its user may not execute what
        only others have prepared.
        """
        try:
            return await self._prepared(identified.text, identified.keyspace, lasting=True, parsed=identified.statement)
        except CommandError as error:
            if error.code == Code.Unauthorized and self.context.owner not in identified.users:
                raise UnknownStatement(statement_id) from None
            raise

    async def _query(self, request: QueryRequest) -> None:
        keyspace = _keyspace_of(request) or self.call.keyspace
        prepared = await self._prepared(request.text, keyspace, parsed=self.parsed)
        result = await self._result(prepared, request.parameters)
        await self._respond(result, RowsMetadata((), with_columns=not request.parameters.skip_metadata))

    async def _prepare(self, request: PrepareRequest) -> None:
        keyspace, parsed = _keyspace_of(request) or self.call.keyspace, self.parsed or parse(request.text)
        prepared = await self._prepared(request.text, keyspace, lasting=True, parsed=parsed)
        self.ids.add(prepared, parsed, self.context.owner)
        columns = prepared.columns if isinstance(prepared.plan, SelectPlan) else None
        self.call.body = prepared_body(prepared.id, bind_metadata(prepared), columns, self.call.version)

    async def _execute(self, request: ExecuteRequest) -> None:
        identified = self._identified(request.statement_id)
        known_id = identified.metadata_id if request.metadata_id is None else request.metadata_id
        prepared = await self._identified_prepared(request.statement_id, identified)
        result = await self._result(prepared, request.parameters)
        metadata = RowsMetadata(())
        if isinstance(prepared.plan, SelectPlan):
            current_id = identified.current_metadata_id(prepared.columns)
            if known_id == current_id:
                metadata = RowsMetadata((), with_columns=not request.parameters.skip_metadata)
            elif self.call.version >= V5:
                metadata = RowsMetadata((), changed_id=current_id)
        await self._respond(result, metadata)

    async def _batch(self, request: BatchRequest) -> None:
        self.call.write_type = _BATCH_WRITES[request.kind]
        keyspace = request.parameters.keyspace or self.call.keyspace
        members: list[BatchMember] = []
        for member in request.members:
            if isinstance(member.statement, bytes):
                prepared = await self._identified_prepared(member.statement, self._identified(member.statement))
            else:
                prepared = await self._prepared(member.statement, keyspace)
            members.append(BatchMember(prepared, member.values))
        result = await execute_batch(
            self.executor, self.environment, request.kind, members, _request(request.parameters, ())
        )
        await self._respond(result, RowsMetadata(()))

    async def _result(self, prepared: Prepared, parameters: QueryParameters) -> Result:
        call = self.call
        if isinstance(prepared.plan, SelectPlan | Describe | Use):
            call.write_type = None
        else:
            call.write_type = "CAS" if isinstance(prepared.plan, ConditionalPlan) else "SIMPLE"
        values: Sequence[Bound] | Mapping[str, Bound] = parameters.values
        if parameters.names is not None:
            values = dict(zip(parameters.names, parameters.values, strict=True))
        elif len(values) != len(prepared.variables):
            raise invalid("Invalid amount of bind variables")
        if waits_for_others(prepared.plan):
            # Work that may wait for others continues as a task.
            await self.environment.pause()
        return await execute(self.executor, self.environment, prepared, _request(parameters, values), self.schema)

    async def _respond(self, result: Result, metadata: RowsMetadata) -> None:
        call = self.call
        if isinstance(result, Rows):
            call.body = await self._rows(result, metadata)
        elif isinstance(result, KeyspaceSet):
            call.used_keyspace = result.keyspace
            call.body = keyspace_body(result.keyspace)
        elif isinstance(result, SchemaChanged):
            self.changed_schema = True
            call.body = schema_change_body(result)
        else:
            call.body = VOID
        if isinstance(result, Done | Rows):
            call.warnings = tuple(result.warnings)

    async def _rows(self, rows: Rows, metadata: RowsMetadata) -> bytes:
        pieces: list[bytes] = []
        for at in range(0, len(rows.rows), _ROWS_AT_ONCE):
            if at:
                await self.environment.pause()
            pieces.append(encode_rows(rows.rows[at : at + _ROWS_AT_ONCE]))
        reply_metadata = RowsMetadata(rows.columns, rows.paging_state, metadata.with_columns, metadata.changed_id)
        return rows_body(reply_metadata, len(rows.rows), pieces)


def _unauthorized(context: Context, need: Need) -> CqlError:
    user = "anonymous" if context.owner is None else context.owner.user
    permission, resource = permission_with(need.action), display_resource(need.resource.document())
    return CqlError(
        UNAUTHORIZED,
        f"User {user} has no {permission} permission on {resource} or any of its parents",
        Code.Unauthorized,
        "UnauthorizedException",
    )


class UnknownStatement(Exception):
    """No statement of that id has been prepared here."""

    def __init__(self, statement_id: bytes) -> None:
        super().__init__(statement_id.hex())
        self.statement_id = statement_id


def _request(parameters: QueryParameters, values: Sequence[Bound] | Mapping[str, Bound]) -> Request:
    return Request(
        values=values,
        level=parameters.level,
        page_size=parameters.page_size,
        paging_state=parameters.paging_state,
        timestamp=parameters.timestamp,
        now=parameters.now_in_seconds,
    )


def _role_rows(reply: Mapping[str, Any]) -> bytes:
    """The rows that a statement about roles has as a document."""
    columns = [
        ResultColumn("system_auth", "roles", column["name"], NATIVE_TYPES[column["type"]])
        for column in reply["columns"]
    ]
    rows = [[column.type.serialise(value) for column, value in zip(columns, row, strict=True)] for row in reply["rows"]]
    return rows_body(RowsMetadata(columns), len(rows), [encode_rows(rows)])


def failure_in(call: NativeCall, error: CommandError) -> Failure:
    """The contents of the ERROR for a call that has failed."""
    return failure_of(error, level=call.level, write_type=call.write_type)
