"""How work enters the data of a node: let in by the ownership, and for a write as primary while writes are not locked.

What is answered holds until the work next yields: a read takes its snapshot before that, a write commits before that,
and after every pause it enters anew.

Always true: "not primary" (10107) means that nothing was done, and whoever hears it may send the command to another
member. What stops being primary when it has begun to write says InterruptedDueToReplStateChange (11602).
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
    """Something that is written slice by slice."""

    def advance(self, owned: Predicate | None, until: float) -> bool:
        """Do at least one step and whatever else fits before `until`, and commit it; True when all is done.

        Errors: MustWait before a step that cannot begin yet.
        """

    def outlives(self, error: CommandError) -> bool:
        """Whether what has begun goes on although its routing is stale now; `advance` is then told nothing of what is
        owned, and does that alone. Errors: MustWait while that is not known.
        """

    def fail_rest(self, error: CommandError) -> None:
        """What is left may not be written here any more (StaleConfig): note that, or raise the error."""

    def close(self) -> None:
        """The writing has ended, however it did: release what is held."""

    @property
    def can_wait(self) -> bool:
        """Whether `advance` may be called again after a WriteConflict, once the transaction that was met has ended."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A write that is one function, and ends with the error that refuses the rest."""

    advance: Callable[[Predicate | None, float], bool]
    can_wait: bool = False

    def outlives(self, _error: CommandError) -> bool:
        return False

    def fail_rest(self, error: CommandError) -> None:
        raise error

    def close(self) -> None:
        """Nothing is held between slices."""


def each_committed(node: DataNode, units: Iterator[None]) -> Repeated:
    """A write that is an iterator, which has committed what it did whenever it yields."""
    return Repeated(lambda _owned, until: all(node.clock() < until for _ in units))


def write_in_slices(
    node: DataNode, namespace: str, writing: SlicedWrite, shard_version: bytes | None = None
) -> Steps[None]:
    """Write everything: each slice is entered anew. Errors: those of `enter_write` before anything is written; later
    InterruptedDueToReplStateChange, and StaleConfig only where `fail_rest` raises it.
    """
    has_begun = False
    try:
        while True:
            try:
                try:
                    owned = _may_write(node, namespace, shard_version)
                except MustWait as section:
                    yield section.over()
                    continue
            except CommandError as error:
                # Also what the waiting ended with: what is done must not be done again by whoever hears of it.
                if not has_begun:
                    raise
                if error.code not in STALE_CODES:
                    raise interrupted(error) from None
                if not (yield from begun(_goes_on(node, namespace, writing, error))):
                    writing.fail_rest(error)
                    return
                owned = None
            has_begun = True
            try:
                if writing.advance(owned, step_end(node)):
                    return
            except MustWait as others:
                yield others.over()
            except WriteConflict as conflict:
                if conflict.over is None or not writing.can_wait:
                    raise
                yield conflict.over()
            else:
                yield PAUSE
    finally:
        writing.close()


def _goes_on(node: DataNode, namespace: str, writing: SlicedWrite, error: CommandError) -> Steps[bool]:
    """Whether what has begun goes on although its routing is stale, in the step in which that is known and nobody has
    the collection to himself. Errors: those of `enter_write`.
    """
    while True:
        try:
            if not writing.outlives(error):
                return False
            _may_write(node, namespace, None)
        except MustWait as others:
            yield others.over()
        else:
            return True


def begun(work: Steps[T]) -> Steps[T]:
    """One more part of what has written already: its errors are `interrupted`."""
    try:
        return (yield from work)
    except CommandError as error:
        raise interrupted(error) from error.__cause__


def enter_write(node: DataNode, namespace: str, shard_version: bytes | None = None) -> Steps[Predicate | None]:
    """The filter of what a write may touch. Errors: StaleConfig; NotWritablePrimary where the database takes writes on
    a primary only and this is none (any more).
    """
    while True:
        try:
            return _may_write(node, namespace, shard_version)
        except MustWait as section:
            yield section.over()


def enter_change(node: DataNode, namespace: str, shard_version: bytes | None = None) -> Steps[Predicate | None]:
    """As `enter_write`, for a change of the catalog: while an open transaction uses the collection it waits, and no
    further one begins to.
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
    """As `enter_write`, where the collection need not stay as it is."""
    while True:
        owned = yield from enter_write(node, namespace, shard_version)
        try:
            if node.shard_filter is not None:
                node.shard_filter.check_change(namespace)
        except MustWait as others:
            yield others.over()
        else:
            return owned


def _may_write(node: DataNode, namespace: str, shard_version: bytes | None) -> Predicate | None:
    """The same at once. Errors: MustWait too."""
    if node.store.write_lock.count:
        raise MustWait(node.store.write_lock.wait)
    owned = None
    if node.shard_filter is not None:
        owned = node.shard_filter.check_version(namespace, shard_version, write=True)
    if replicates(namespace):
        node.replication.check_write()
    return owned


def enter_read(context: Context, namespace: str = "") -> Steps[Predicate | None]:
    """The filter of what a read may see. `namespace`: where it is not the request's. Errors: StaleConfig."""
    shard_filter = node_of(context).shard_filter
    while shard_filter is not None:
        try:
            return shard_filter.check_version(namespace or context.namespace, context.shard_version, write=False)
        except MustWait as section:
            yield section.over()
    return None
