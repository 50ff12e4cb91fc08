"""A batch whose members come as statements of their own, each with its values.

Its timestamp is that of all members without one. The rows of one partition are written atomically.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docstore.widecolumn.cql.errors import invalid, unsupported
from docstore.widecolumn.cql.plan.batch import check_member, check_size, joined_writes
from docstore.widecolumn.cql.plan.bindings import Bound
from docstore.widecolumn.cql.plan.conditions import ConditionalPlan
from docstore.widecolumn.cql.plan.write import WritePlan
from docstore.widecolumn.cql.run.execution import (
    Environment,
    Request,
    apply_writes,
    bindings_of,
    check_write_level,
    execution_time,
    write_context,
)
from docstore.widecolumn.cql.run.prepare import Prepared
from docstore.widecolumn.cql.run.results import Done
from docstore.widecolumn.cql.statements import BatchKind
from docstore.widecolumn.model.executor import Executor, RowWrite

_MEMBERS_AT_ONCE = 100
"""Members that are evaluated before other tasks run."""


@dataclass(frozen=True, slots=True)
class BatchMember:
    """A prepared statement and the values of its markers."""

    prepared: Prepared
    values: Sequence[Bound]


async def execute_batch(
    executor: Executor, environment: Environment, kind: BatchKind, members: Sequence[BatchMember], request: Request
) -> Done:
    """Execute a batch. CqlError, and the errors of the executor."""
    plans = [_plan(kind, member.prepared) for member in members]
    check_write_level(request.level)
    time = execution_time(executor, environment, request)
    writes: list[RowWrite] = []
    for position, (plan, member) in enumerate(zip(plans, members, strict=True), 1):
        bindings = bindings_of(member.prepared, member.values, time)
        writes += plan.writes(write_context(bindings, environment, request))
        if not position % _MEMBERS_AT_ONCE:
            await environment.pause()
    writes = joined_writes(writes)
    return await apply_writes(executor, writes, request.level, check_size(writes))


def _plan(kind: BatchKind, prepared: Prepared) -> WritePlan:
    plan = prepared.plan
    if isinstance(plan, ConditionalPlan):
        raise unsupported("Conditional updates in a batch are")
    if not isinstance(plan, WritePlan):
        raise invalid("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.")
    if kind is BatchKind.COUNTER:
        raise invalid("Cannot include non-counter statement in a counter batch")
    check_member(plan)
    return plan
