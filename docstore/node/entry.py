"""Entry checks before reads and writes: ownership, and for writes primary state and write lock.

* A check holds until the work next yields: a read takes its snapshot and a write commits before that. After every pause
  the work enters again.
* NotWritablePrimary (10107) means that nothing was done, so the client may retry on another member. A write that began
  before the node stopped being primary fails with InterruptedDueToReplStateChange (11602).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from docstore.collection.transaction.claims import WriteConflict
from docstore.commands.context import Context
from docstore.errors import CommandError, interrupted
from docstore.kernel.match.predicate import Predicate
from docstore.namespace import replicates
from docstore.node.node import DataNode, node_of
from docstore.node.shard_filter import MustWait
from docstore.node.slices import PAUSE, Steps, step_end
from docstore.sharding.version import STALE_CODES

T = TypeVar("T")


class SlicedWrite(Protocol):
    """A write that is executed in slices."""

    def advance(self, owned: Predicate | None, until: float) -> bool:
        """Do at least one step and more until `until`, and commit; return True when all is done.

        Errors: MustWait before a step that cannot begin yet.
        """

    def outlives(self, error: CommandError) -> bool:
        """Return True if the running statement may continue although its shard version is stale.

        `advance` then gets no filter of owned documents, and does only that statement. Errors: MustWait while
        undecided.
        """

    def fail_rest(self, error: CommandError) -> None:
        """Fail the remaining statements with `error` (StaleConfig), or raise it."""

    def close(self) -> None:
        """Release all resources, after success or failure."""

    @property
    def can_wait(self) -> bool:
        """True if `advance` may be called again after a WriteConflict, once the conflicting transaction has ended."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A sliced write that is one function; an error ends it."""

    advance: Callable[[Predicate | None, float], bool]
    can_wait: bool = False

    def outlives(self, _error: CommandError) -> bool:
        return False

    def fail_rest(self, error: CommandError) -> None:
        raise error

    def close(self) -> None:
        """Do nothing: no resource is held between slices."""


def each_committed(node: DataNode, units: Iterator[None]) -> Repeated:
    """Return a sliced write from an iterator that has committed its work whenever it yields."""
    return Repeated(lambda _owned, until: all(node.clock() < until for _ in units))


def write_in_slices(
    node: DataNode, namespace: str, writing: SlicedWrite, shard_version: bytes | None = None
) -> Steps[None]:
    """Execute a sliced write; each slice enters again.

    Errors: those of `enter_write` before the first write; later InterruptedDueToReplStateChange, and StaleConfig only
    if `fail_rest` raises it.
    """
    has_begun = False
    try:
        while True:
            try:
                try:
                    owned = _may_write(node, namespace, shard_version)
                except MustWait as section:
                    yield section.wait()
                    continue
            except CommandError as error:
                # This includes errors of the wait: the client must not retry work that is done.
                if not has_begun:
                    raise
                if error.code not in STALE_CODES:
                    raise interrupted(error) from None
                if not (yield from run_continuation(_goes_on(node, namespace, writing, error))):
                    writing.fail_rest(error)
                    return
                owned = None
            has_begun = True
            try:
                if writing.advance(owned, step_end(node)):
                    return
            except MustWait as others:
                yield others.wait()
            except WriteConflict as conflict:
                if conflict.over is None or not writing.can_wait:
                    raise
                yield conflict.over()
            else:
                yield PAUSE
    finally:
        writing.close()


def _goes_on(node: DataNode, namespace: str, writing: SlicedWrite, error: CommandError) -> Steps[bool]:
    """Return True if the write may continue although its version is stale, after waiting for exclusive users.

    Errors: those of `enter_write`.
    """
    while True:
        try:
            if not writing.outlives(error):
                return False
            _may_write(node, namespace, None)
        except MustWait as others:
            yield others.wait()
        else:
            return True


def run_continuation(work: Steps[T]) -> Steps[T]:
    """Run a further part of an operation that has written; its errors become those of `interrupted`."""
    try:
        return (yield from work)
    except CommandError as error:
        raise interrupted(error) from error.__cause__


def enter_write(node: DataNode, namespace: str, shard_version: bytes | None = None) -> Steps[Predicate | None]:
    """Wait until a write may begin; return the filter of owned documents.

    Errors: StaleConfig; NotWritablePrimary if the database is replicated and this node is not (or no longer) primary.
    """
    while True:
        try:
            return _may_write(node, namespace, shard_version)
        except MustWait as section:
            yield section.wait()


def enter_change(node: DataNode, namespace: str, shard_version: bytes | None = None) -> Steps[Predicate | None]:
    """Wait until a change of the catalog may begin.

    It waits like `enter_write`, and until no transaction uses the collection. Meanwhile no further transaction begins
    to use it.
    """
    claims = node.store.claims
    if node.transaction is not None:
        return (yield from enter_write(node, namespace, shard_version))
    owned = yield from _enter_change(node, namespace, shard_version)
    if claims.holder(namespace) is None:
        return owned
    claims.begin_waiting(namespace)
    try:
        while (holder := claims.holder(namespace)) is not None:
            yield holder.over()
            owned = yield from _enter_change(node, namespace, shard_version)
        return owned
    finally:
        claims.end_waiting(namespace)


def _enter_change(node: DataNode, namespace: str, shard_version: bytes | None) -> Steps[Predicate | None]:
    """Wait as `enter_write` does, and until the collection's definition may change."""
    while True:
        owned = yield from enter_write(node, namespace, shard_version)
        try:
            if node.shard_filter is not None:
                node.shard_filter.check_change(namespace)
        except MustWait as others:
            yield others.wait()
        else:
            return owned


def _may_write(node: DataNode, namespace: str, shard_version: bytes | None) -> Predicate | None:
    """Return what `enter_write` does, without waiting. Errors: MustWait too."""
    if node.store.write_lock.count:
        raise MustWait(node.store.write_lock.wait)
    owned = None
    if node.shard_filter is not None:
        owned = node.shard_filter.check_version(namespace, shard_version, write=True)
    if replicates(namespace):
        node.replication.check_write()
    return owned


def enter_read(context: Context, namespace: str = "") -> Steps[Predicate | None]:
    """Wait until a read may begin; return the filter of owned documents. `namespace`: if not the request's.

    Errors: StaleConfig.
    """
    shard_filter = node_of(context).shard_filter
    while shard_filter is not None:
        try:
            return shard_filter.check_version(namespace or context.namespace, context.shard_version, write=False)
        except MustWait as section:
            yield section.wait()
    return None
