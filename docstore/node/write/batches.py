"""The statements of one insert, update or delete command, prepared for execution on a node.

On a time-series collection they are translated to its bucket collection, and so is the request.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.timeseries.insert import SeriesInserts
from docstore.node.timeseries.metadata_writes import bucket_delete, bucket_update, measured_weight
from docstore.node.timeseries.series import Series, series_of
from docstore.node.upkeep.execution import execution_of
from docstore.node.write.delete import DeleteWork, delete_statement
from docstore.node.write.driver import Outcome, Statements, session_write
from docstore.node.write.groups.deletions import DeleteGroup
from docstore.node.write.groups.group import GroupedWorks
from docstore.node.write.groups.updates import KeyUpdateGroup, UpdateGroup
from docstore.node.write.insert import Inserts
from docstore.node.write.joint_unit import JointUnit
from docstore.node.write.statement_loop import StatementLoop, Work, WriteTarget
from docstore.node.write.update import UpdateWork
from docstore.node.write.update_statements import check_sorts, update_statements_of
from docstore.sharding.targeting import KeyRanges


def insert_batch(context: Context, documents: list[bytes], *, ordered: bool, bypass: bool) -> Statements:
    """Return the documents of an insert. Errors: OperationNotSupportedInTransaction, those of the session."""
    node = node_of(context)
    if series_of(node.store, context.namespace) is not None:
        return _measurements(context, documents, ordered)
    target = WriteTarget(
        node,
        context.namespace,
        Outcome(),
        context.session,
        session_write(context, node),
        bypass_validation=bypass,
        shard_version=context.shard_version,
    )
    return Inserts(target, documents, ordered=ordered or node.transaction is not None)


def _measurements(context: Context, documents: list[bytes], ordered: bool) -> SeriesInserts:
    node = node_of(context)
    if node.transaction is not None:
        raise CommandError(
            Code.OperationNotSupportedInTransaction,
            f"Cannot insert into a time-series collection in a multi-document transaction: {context.namespace}",
        )
    return SeriesInserts(
        node,
        context.namespace,
        documents,
        ordered=ordered,
        session=context.session,
        session_write=session_write(context, node),
    )


def update_batch(
    context: Context, raws: list[bytes], *, ordered: bool, bypass: bool, let: bytes | None,
    within: KeyRanges | None = None, counted: bool = False, sent_time: bytes | None = None,
) -> tuple[Context, Statements]:  # fmt: skip
    """Return the statements of an update, and the request for them. Errors: those of `update_statements_of`."""
    statements = update_statements_of(raws)
    check_sorts(context, statements)
    series = series_of(node_of(context).store, context.namespace)
    bypass = bypass or series is not None
    context, target = _target(
        context, series, Outcome(modified=0), len(statements), let, within, sent_time, bypass=bypass
    )
    return context, _loop(
        target,
        GroupedWorks(target, statements, UpdateWork, UpdateGroup, KeyUpdateGroup)
        if series is None
        else lambda index: UpdateWork(target, index, bucket_update(series, statements[index])),
        len(statements),
        ordered=ordered,
        counted=counted,
    )


def delete_batch(
    context: Context, raws: list[bytes], *, ordered: bool, let: bytes | None, within: KeyRanges | None = None,
    counted: bool = False, sent_time: bytes | None = None,
) -> tuple[Context, Statements]:  # fmt: skip
    """Return the statements of a delete, and the request for them. Errors: those of `delete_statement`."""
    statements = [delete_statement(raw) for raw in raws]
    series = series_of(node_of(context).store, context.namespace)
    context, target = _target(context, series, Outcome(), len(statements), let, within, sent_time)
    return context, _loop(
        target,
        GroupedWorks(target, statements, DeleteWork, DeleteGroup)
        if series is None
        else lambda index: DeleteWork(target, index, bucket_delete(series, statements[index])),
        len(statements),
        ordered=ordered,
        counted=counted,
    )


def _target(
    context: Context, series: Series | None, outcome: Outcome, count: int, let: bytes | None,
    within: KeyRanges | None, sent_time: bytes | None, *, bypass: bool = False,
) -> tuple[Context, WriteTarget]:  # fmt: skip
    if series is not None:
        context = context.about(series.buckets.ns)
    node = node_of(context)
    row = session_write(context, node)
    execution = execution_of(context)
    return context, WriteTarget(
        node,
        context.namespace,
        outcome,
        context.session,
        row,
        let,
        sent_time,
        bypass_validation=bypass,
        shard_version=context.shard_version,
        can_pause=context.services.carry_out is not None,
        within=within,
        weight=None if series is None else measured_weight(series),
        # Statements that are abandoned and rerun would be counted twice.
        joint=None if execution.exact else JointUnit(node.store, row, count),
        execution=execution,
    )


def _loop(
    target: WriteTarget, make: Callable[[int], Work], count: int, *, ordered: bool, counted: bool
) -> StatementLoop:
    node = target.node
    return StatementLoop(
        target.outcome,
        make,
        count,
        ordered=ordered or node.transaction is not None,
        clock=node.clock,
        counted=counted,
        joint=target.joint,
    )
