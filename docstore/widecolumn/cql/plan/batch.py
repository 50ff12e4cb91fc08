"""BATCH: several modifications as one request.

All have one timestamp unless they give their own, so the larger value wins for a cell that several write, not the
later statement. The rows of one partition are written atomically; a batch over several partitions is not isolated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docstore.widecolumn.cql.errors import invalid, unsupported
from docstore.widecolumn.cql.plan.bindings import UNSET, Variable
from docstore.widecolumn.cql.plan.column_changes import WriteContext
from docstore.widecolumn.cql.plan.terms import TIMESTAMP_CLAUSE, Evaluate, Preparation
from docstore.widecolumn.cql.plan.write import WritePlan
from docstore.widecolumn.cql.statements import Batch, BatchKind
from docstore.widecolumn.model.executor import RowWrite
from docstore.widecolumn.model.mutations import Entry, folded

WARN_BYTES = 5 * 1024
FAIL_BYTES = 50 * 1024


@dataclass(frozen=True, slots=True)
class BatchPlan:
    kind: BatchKind
    members: tuple[WritePlan, ...]
    timestamp: Evaluate | None
    variables: tuple[Variable, ...]

    def writes(self, writing: WriteContext) -> list[RowWrite]:
        """The merges of all members. CqlError."""
        at = writing.timestamp
        if self.timestamp is not None:
            value = self.timestamp(writing.bindings)
            if value is not UNSET:
                if not isinstance(value, bytes) or not value:
                    raise invalid("Invalid null value of timestamp")
                at = int.from_bytes(value, "big", signed=True)
        common = WriteContext(writing.bindings, at, writing.max_value)
        return joined_writes(write for member in self.members for write in member.writes(common))


def batch_plan(batch: Batch, members: Sequence[WritePlan]) -> BatchPlan:
    """The plan of a batch. CqlError."""
    if batch.kind is BatchKind.COUNTER:
        if members:
            raise invalid("Cannot include non-counter statement in a counter batch")
        raise unsupported("Counter batches are")
    if batch.using.ttl is not None:
        raise invalid("Global TTL on the BATCH statement is not supported.")
    if batch.using.timestamp is not None and any(member.has_timestamp for member in members):
        raise invalid("Timestamp must be set either on BATCH or individual statements")
    for member in members:
        check_member(member)
    preparation = Preparation()
    timestamp = None
    if batch.using.timestamp is not None:
        timestamp = preparation.term(batch.using.timestamp, TIMESTAMP_CLAUSE)
    variables = [*preparation.variables, *(variable for member in members for variable in member.variables)]
    return BatchPlan(
        batch.kind, tuple(members), timestamp, tuple(sorted(variables, key=lambda variable: variable.position))
    )


def check_member(plan: WritePlan) -> None:
    """CqlError for a modification that a batch does not serve."""
    if plan.reads_row:
        raise unsupported("Setting and removing elements of lists in a batch is")


def joined_writes(writes: Iterable[RowWrite]) -> list[RowWrite]:
    """Merge the writes into one for each partition."""
    entries_by_partition: dict[tuple[str, str, bytes], list[Entry]] = {}
    for write in writes:
        entries_by_partition.setdefault((write.keyspace, write.family, write.key), []).extend(write.entries)
    return [RowWrite(*where, folded(entries)) for where, entries in entries_by_partition.items()]


def check_size(writes: Sequence[RowWrite]) -> tuple[str, ...]:
    """Warnings about a batch over several partitions that is large; CqlError for one that is too large."""
    if len(writes) < 2:
        return ()
    size = sum(len(entry.path) + len(entry.record) for write in writes for entry in write.entries)
    if size > FAIL_BYTES:
        raise invalid("Batch too large")
    if size > WARN_BYTES:
        tables = ", ".join(sorted({f"{write.keyspace}.{write.family}" for write in writes}))
        return (f"Batch for [{tables}] is of size {size}, exceeding specified threshold of {WARN_BYTES}",)
    return ()
