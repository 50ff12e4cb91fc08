"""Runs the statements of a write command in slices, checks each slice again, and acknowledges once at the end.

Invariants:

* There is no await between entering (primary state, ownership) and the commit of that step's writes.
* Nothing is written while the write lock is held (fsyncLock).
* A slice holds the loop for about 8 ms; after each pause the node must still be primary and own the data.
* An upsert reads and inserts in one step, so two upserts never insert the same document.
* A request with a stale shard version fails before any write (StaleConfig as the command's error).
* If ownership changes between two slices, pending statements fail with StaleConfig write errors; completed ones stay. A
  multi-document statement in progress continues while its documents still belong to the node.
* If the node stops being primary between two slices, the command fails with InterruptedDueToReplStateChange; a retry
  with the same statement ids repeats nothing.

Default write concern: `w: "majority"` on a member of a set (`w: 1` if arbiters leave no majority after a failure), `w:
1` on a standalone and in `local`.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from docstore.bson import Value, array_from, document_from, enclosed, from_python
from docstore.bson.walk import INT32, OBJECT, STRING
from docstore.collection.oplog.sessions import SessionWrite
from docstore.commands.concerns import DEFAULT_WRITE_CONCERN, WriteConcern
from docstore.commands.context import Context
from docstore.commands.limits import MAX_WRITE_BATCH, batch_refused
from docstore.errors import Code, CommandError
from docstore.js.scripts import RUNNING
from docstore.namespace import OWN_NOTES, replicates
from docstore.node.entry import SlicedWrite, write_in_slices
from docstore.node.node import DataNode, node_of
from docstore.node.slices import PAUSE, Steps, finish_apart, run_steps
from docstore.optime import OpTime
from docstore.timeseries.definition import BUCKETS_PREFIX

_INT = struct.Struct("<i")
_NOTHING_SAID = enclosed(b"\x10n\0\0\0\0\0")
"""The reply to a write with `w: 0`."""
_OPTIME = struct.Struct("<i4sQ3sqx")
_WRITABLE_SYSTEM = frozenset(("users", "roles", "version", "js", "profile", "keys", "sessions", "indexBuilds"))
_OWN_DATABASES = ("config.", "local.")


Mark = tuple[int, int | None, int, int, int, int | None]


@dataclass(slots=True)
class Outcome:
    """Running totals of a command's statements.

    `modified` is None for commands that do not report it. `upserted` holds (statement index, `_id`). `last` is the
    optime of the last write, None before the first.
    """

    n: int = 0
    modified: int | None = None
    upserted: list[tuple[int, Value]] = field(default_factory=list)
    errors: list[tuple[int, CommandError]] = field(default_factory=list)
    retried: list[int] = field(default_factory=list)
    last: OpTime | None = None
    apart: bool = False
    """True if the remaining work must be offloaded, so that other tasks may run meanwhile."""
    counts: list[int] | None = None
    """Matched documents per statement, if requested."""
    modified_counts: list[int] | None = None
    """Modified documents per statement, if requested."""

    def fail(self, index: int, error: CommandError) -> None:
        """Record the error of the statement at `index`.

        The traceback is dropped: its frames refer to this outcome and the documents, a cycle that only garbage
        collection would free.
        """
        self.errors.append((index, error.with_traceback(None)))

    def logged(self) -> dict[str, int]:
        """Return the counts of an update or delete under their names in the slow query log."""
        if self.modified is None:
            return {"ndeleted": self.n}
        upserted = len(self.upserted)
        return {"nMatched": self.n - upserted, "nModified": self.modified, "nUpserted": upserted}

    def mark(self) -> Mark:
        """Return a savepoint of the totals for `return_to`."""
        counts = None if self.counts is None else len(self.counts)
        return self.n, self.modified, len(self.upserted), len(self.errors), len(self.retried), counts

    def return_to(self, mark: Mark) -> None:
        """Reset the totals to a savepoint."""
        self.n, self.modified, upserted, errors, retried, counts = mark
        del self.upserted[upserted:], self.errors[errors:], self.retried[retried:]
        for statement_counts in (self.counts, self.modified_counts):
            if statement_counts is not None:
                del statement_counts[counts:]


class Statements(SlicedWrite, Protocol):
    """The statements of one command in progress; failures are recorded as the command's ordering requires."""

    outcome: Outcome


def run_statements(context: Context, statements: Statements) -> bytes | Awaitable[bytes]:
    """Run all statements, wait for the write concern, and return the reply."""
    return run_steps(context, _written(context, statements, effective_concern(context, node_of(context))))


def _written(context: Context, statements: Statements, concern: WriteConcern) -> Steps[bytes]:
    yield from drive(context, statements)
    execution = None if context.begun_progress is None else context.begun_progress.execution
    if execution is not None:
        execution.counts |= statements.outcome.logged()
    reply = acknowledge(context, statements.outcome, concern)
    return reply if isinstance(reply, bytes) else (yield reply)


def drive(context: Context, statements: Statements) -> Steps[None]:
    """Run all statements. Errors: those of `write_in_slices`."""
    steps = write_in_slices(node_of(context), context.namespace, statements, context.shard_version)
    try:
        step = next(steps)
        while step is not PAUSE or not statements.outcome.apart:
            try:
                result = yield step
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration:
        return
    yield finish_apart(context, steps)


def effective_concern(context: Context, node: DataNode) -> WriteConcern:
    """Return the request's effective write concern. Errors: BadValue if a standalone can never satisfy it."""
    concern = context.write_concern
    if node.replication.set_name is None:
        if isinstance(concern.w, int) and concern.w > 1:
            raise CommandError(Code.BadValue, "cannot use 'w' > 1 when a host is not replicated")
        if not isinstance(concern.w, int) and concern.w != "majority":
            raise CommandError(
                Code.BadValue, f"cannot use non-majority 'w' mode \"{concern.w}\" when a host is not replicated"
            )
        return concern
    if context.explicit_write_concern or not replicates(context.namespace):
        return concern
    return node.replication.default_write_concern if concern == DEFAULT_WRITE_CONCERN else concern


def session_write(context: Context, node: DataNode) -> SessionWrite | None:
    """Return the session record of a retryable write, or None.

    Errors: IllegalOperation outside a set, TransactionTooOld.
    """
    session = context.session
    if session is None or session.txn_number is None:
        return None
    if node.replication.set_name is None:
        raise CommandError(
            Code.IllegalOperation, "Transaction numbers are only allowed on a replica set member or mongos"
        )
    node.check_retryable(session.lsid, session.txn_number)
    return SessionWrite(session.lsid, session.txn_number)


_WHERE = b"$where\0"
_FUNCTION = b"$function\0"


def enter_scripts(statements: Iterable[bytes]) -> None:
    """Offload the command if a statement contains scripts; call before the first one runs, as the command restarts.

    Errors: ScriptsWanted.
    """
    for statement in statements:
        # Avoid `in`: on bytes it first tries a number, which raises and catches an error.
        if statement.find(_WHERE) >= 0 or statement.find(_FUNCTION) >= 0:
            RUNNING.enter()
            return


def check_batch_size(count: int) -> None:
    """Require 1 to 100,000 statements. Errors: InvalidLength."""
    if not 1 <= count <= MAX_WRITE_BATCH:
        raise batch_refused(count)


@lru_cache(maxsize=1024)
def check_writable(namespace: str) -> None:
    """Reject collections that only the server writes. Errors: InvalidNamespace."""
    if ".system." not in namespace and not namespace.startswith(_OWN_DATABASES):
        return
    if (
        namespace in OWN_NOTES
        or namespace.startswith(("local.oplog.", "local.replset."))
        or namespace.endswith((".system.views", ".system.profile"))
    ):
        raise CommandError(Code.InvalidNamespace, f"cannot write to {namespace}")
    collection = namespace.partition(".")[2]
    if collection.startswith("system.") and collection[7:].partition(".")[0] not in _WRITABLE_SYSTEM:
        raise CommandError(Code.InvalidNamespace, f"Invalid system namespace: {namespace}")


def check_writable_documents(context: Context) -> None:
    """Apply `check_writable`, but allow direct writes to the buckets of a time-series collection.

    Errors: InvalidNamespace.
    """
    namespace = context.namespace
    if BUCKETS_PREFIX in namespace:
        collection = node_of(context).store.collection(namespace)
        if collection is not None and collection.options.timeseries is not None:
            return
    check_writable(namespace)


def acknowledge(context: Context, outcome: Outcome, concern: WriteConcern) -> bytes | Awaitable[bytes]:
    """Return the reply, after the write concern is satisfied or has failed."""
    if concern.w == 0:
        return _NOTHING_SAID
    if not concern.j and concern.w == 1:
        return _reply(context, outcome, None)
    return _acknowledged(context, outcome, concern)


def acknowledge_counts(
    context: Context, concern: WriteConcern, n: int, modified: int | None, last: OpTime | None
) -> bytes | Awaitable[bytes]:
    """Return the reply of `acknowledge` for an outcome that has only these counts."""
    if concern.j or concern.w != 1:
        return acknowledge(context, Outcome(n, modified, last=last), concern)
    optime = optime_fields(node_of(context), last)
    return _counts(n, modified, optime) if optime else _plain_counts(n, modified)


async def _acknowledged(context: Context, outcome: Outcome, concern: WriteConcern) -> bytes:
    return _reply(context, outcome, await wait_for_write(context, outcome.last, concern))


async def acknowledged_fields(
    context: Context, fields: list[tuple[str, int, bytes]], last: OpTime | None, concern: WriteConcern
) -> bytes:
    """Return a reply of these fields, after the write concern is satisfied or has failed."""
    failed = await wait_for_write(context, last, concern)
    if failed is not None:
        fields = [*fields, ("writeConcernError", OBJECT, from_python(failed)[1])]
    return document_from(fields)


async def wait_for_write(context: Context, last: OpTime | None, concern: WriteConcern) -> dict[str, Any] | None:
    """Wait for the write concern; return the writeConcernError document if it fails.

    A command without writes waits for the newest oplog entry: the data it read must be as safe.
    """
    node = node_of(context)
    optime = last if last is not None or node.store.oplog is None else node.store.last_optime
    return await node.replication.wait_write(optime, concern, context.deadline)


def optime_fields(node: DataNode, last: OpTime | None) -> bytes:
    """Return `electionId` and `opTime` of the last write, or of the newest entry; empty outside a set."""
    if node.replication.set_name is None:
        return b""
    term, timestamp = last or node.store.last_optime
    return _election(term) + _OPTIME.pack(28, b"\x11ts\0", timestamp, b"\x12t\0", term)


@lru_cache(maxsize=4)
def _election(term: int) -> bytes:
    """Return the reply's bytes in front of the optime of a write in that term."""
    return b"\x07electionId\0\x7f\xff\xff\xff" + max(term, 0).to_bytes(8, "big") + b"\x03opTime\0"


def _reply(context: Context, outcome: Outcome, concern_error: dict[str, Any] | None) -> bytes:
    optime = optime_fields(node_of(context), outcome.last)
    if not (outcome.counts or outcome.errors or outcome.retried or outcome.upserted or concern_error):
        return _counts(outcome.n, outcome.modified, optime) if optime else _plain_counts(outcome.n, outcome.modified)
    parts = [b"\x10n\0" + _INT.pack(outcome.n), optime]
    if outcome.errors:
        errors = [(OBJECT, _write_error(index, error)) for index, error in sorted(outcome.errors, key=lambda e: e[0])]
        parts += (b"\x04writeErrors\0", array_from(errors))
    if outcome.retried:
        parts += (b"\x04retriedStmtIds\0", array_from((INT32, _INT.pack(stmt_id)) for stmt_id in outcome.retried))
    if outcome.upserted:
        upserted = [
            (OBJECT, document_from((("index", INT32, _INT.pack(index)), ("_id", *identity))))
            for index, identity in outcome.upserted
        ]
        parts += (b"\x04upserted\0", array_from(upserted))
    if outcome.modified is not None:
        parts.append(b"\x10nModified\0" + _INT.pack(outcome.modified))
    if outcome.counts:
        parts += (b"\x04counts\0", array_from((INT32, _INT.pack(count)) for count in outcome.counts))
    if outcome.modified is not None and outcome.modified_counts:
        modified = ((INT32, _INT.pack(count)) for count in outcome.modified_counts)
        parts += (b"\x04modifiedCounts\0", array_from(modified))
    if concern_error is not None:
        parts += (b"\x03writeConcernError\0", from_python(concern_error)[1])
    return enclosed(b"".join(parts))


@lru_cache(maxsize=64)
def _plain_counts(n: int, modified: int | None) -> bytes:
    return _counts(n, modified, b"")


def _counts(n: int, modified: int | None, optime: bytes) -> bytes:
    """Return the common reply: counts and optime only."""
    changed = b"" if modified is None else b"\x10nModified\0" + _INT.pack(modified)
    return enclosed(b"".join((b"\x10n\0", _INT.pack(n), optime, changed)))


def _write_error(index: int, error: CommandError) -> bytes:
    fields: list[tuple[str, int, bytes]] = [
        ("index", INT32, _INT.pack(index)),
        ("code", INT32, _INT.pack(error.code)),
        ("errmsg", STRING, _text(error.message)),
    ]
    fields += [(name, *from_python(value)) for name, value in error.extra.items()]
    return document_from(fields)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded) + 1) + encoded + b"\0"
