"""Execution of statements over an `Executor`. One request, one result; no state is kept between requests.

The timestamp of a write is, in this order: USING TIMESTAMP, the one the client sent, the executor's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from docstore.widecolumn.cql.errors import invalid, no_keyspace
from docstore.widecolumn.cql.plan.batch import BatchPlan, check_size
from docstore.widecolumn.cql.plan.bindings import Bindings, Bound, ExecutionTime, bind
from docstore.widecolumn.cql.plan.column_changes import WriteContext
from docstore.widecolumn.cql.plan.conditions import ConditionalPlan, carry_out, write_with_row
from docstore.widecolumn.cql.plan.select import SelectPlan
from docstore.widecolumn.cql.plan.write import WritePlan
from docstore.widecolumn.cql.run.paging import decode, digest_of, encode
from docstore.widecolumn.cql.run.prepare import Prepared
from docstore.widecolumn.cql.run.results import Done, KeyspaceSet, Result, Rows
from docstore.widecolumn.cql.run.select import ReadOptions, read_page
from docstore.widecolumn.cql.schema.changes import change_schema
from docstore.widecolumn.cql.schema.describe import SchemaReader, describe
from docstore.widecolumn.cql.statements import Describe, Use
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, Level
from docstore.widecolumn.model.executor import Executor, RowWrite
from docstore.widecolumn.model.slices import ReadCounts

DEFAULT_MAX_VALUE = 16 * 1024 * 1024
DEFAULT_MAX_PAGE = 2 * 1024 * 1024
DEFAULT_TOMBSTONE_LIMIT = 100_000
DEFAULT_TOMBSTONE_WARNING = 1000


async def _no_pause() -> None:
    """Return at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The services of a process for statements. `rng`: random bytes; `pause`: yields to other tasks; sizes in bytes;
    `nonce`: four random bytes of a request, if it may run more than once and its repetition must change nothing.
    """

    rng: Callable[[int], bytes]
    pause: Callable[[], Awaitable[None]] = _no_pause
    max_value: int = DEFAULT_MAX_VALUE
    max_page: int = DEFAULT_MAX_PAGE
    tombstone_limit: int = DEFAULT_TOMBSTONE_LIMIT
    tombstone_warning: int = DEFAULT_TOMBSTONE_WARNING
    nonce: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The client's parameters of a statement.

    `values`: for its markers, in order or by name; `page_size`: 0 for all rows at once; `timestamp`: microseconds, and
    `now`: seconds for times to live, if the client sends them.
    """

    values: Sequence[Bound] | Mapping[str, Bound] = ()
    level: Level = Level.ONE
    page_size: int = 0
    paging_state: bytes | None = None
    timestamp: int | None = None
    now: int | None = None


async def execute(
    executor: Executor,
    environment: Environment,
    prepared: Prepared,
    request: Request,
    schema: SchemaReader | None = None,
) -> Result:
    """Execute a prepared statement with values. `schema`: the part visible to the client; None for all. CqlError, and
    the errors of the executor.
    """
    plan = prepared.plan
    bindings = bindings_of(prepared, request.values, execution_time(executor, environment, request))
    if isinstance(plan, SelectPlan):
        return await _select(executor, environment, prepared, plan, bindings, request)
    if isinstance(plan, ConditionalPlan):
        return await carry_out(
            executor, plan, bindings, level=request.level, max_value=environment.max_value, pause=environment.pause
        )
    if isinstance(plan, WritePlan | BatchPlan):
        check_write_level(request.level)
        if isinstance(plan, WritePlan) and plan.reads_row:
            context = write_context(bindings, environment, request)
            return Done(tuple(await write_with_row(executor, plan, context, request.level, environment.pause)))
        writes = plan.writes(write_context(bindings, environment, request))
        warnings = check_size(writes) if isinstance(plan, BatchPlan) else ()
        return await apply_writes(executor, writes, request.level, warnings)
    if isinstance(plan, Use):
        if await (schema or executor).keyspace(plan.keyspace) is None:
            raise no_keyspace(plan.keyspace)
        return KeyspaceSet(plan.keyspace)
    if isinstance(plan, Describe):
        return await describe(schema or executor, plan, prepared.keyspace)
    return await change_schema(executor, plan, prepared.keyspace)


def execution_time(executor: Executor, environment: Environment, request: Request) -> ExecutionTime:
    """Return when a statement runs: `request.now` if the client sent it, otherwise the time of this process."""
    timestamp = executor.timestamp()
    seconds = executor.now() if request.now is None else request.now
    return ExecutionTime(timestamp, seconds, environment.rng, environment.nonce or environment.rng(4))


def bindings_of(prepared: Prepared, values: Sequence[Bound] | Mapping[str, Bound], time: ExecutionTime) -> Bindings:
    """Return the values to run a statement with: its own literals if it has any, else `values`. Errors: CqlError."""
    bindings = bind(prepared.variables, values, time)
    return Bindings(prepared.literals, time) if prepared.literals else bindings


def check_write_level(level: Level) -> None:
    """CqlError for a serial level, which only conditional statements take."""
    if level in SERIAL_LEVELS:
        raise invalid("You must use conditional updates for serializable writes")


def write_context(bindings: Bindings, environment: Environment, request: Request) -> WriteContext:
    """Return the context of a statement's writes, at the client's timestamp if it sends one."""
    at = bindings.time.micros if request.timestamp is None else request.timestamp
    return WriteContext(bindings, at, environment.max_value)


async def apply_writes(executor: Executor, writes: Sequence[RowWrite], level: Level, warnings: tuple[str, ...]) -> Done:
    """Apply the writes of a statement, which may be none. Errors: those of the executor."""
    return Done((*warnings, *await executor.apply(writes, level))) if writes else Done(warnings)


async def _select(
    executor: Executor,
    environment: Environment,
    prepared: Prepared,
    plan: SelectPlan,
    bindings: Bindings,
    request: Request,
) -> Rows:
    if request.level is Level.ANY:
        raise invalid("ANY ConsistencyLevel is only supported for writes")
    plan.check_paging(request.page_size)
    digest = partial(digest_of, prepared.keyspace, prepared.text, plan.table.id)
    after = None if request.paging_state is None else decode(request.paging_state, digest())
    counts = ReadCounts(environment.tombstone_limit)
    conditions = ReadOptions(request.level, counts, environment.pause)
    page = await read_page(
        executor,
        plan,
        bindings,
        conditions,
        size=max(request.page_size, 0),
        max_bytes=environment.max_page,
        after=after,
    )
    warnings = plan.warnings
    if counts.tombstones > environment.tombstone_warning:
        warnings = (
            *warnings,
            f"Read {len(page.rows)} live rows and {counts.tombstones} tombstone cells for query {prepared.text}",
        )
    state = None if page.position is None else encode(page.position, digest())
    return Rows(prepared.columns, page.rows, state, warnings)
