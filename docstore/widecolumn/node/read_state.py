"""The state that a read of one member sees, and the one way in which such reads run.

A read begins in the newest state, without a snapshot. If it does not finish in its first step, it takes the snapshot
then, before anything else can be written, and continues where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from docstore.commands.concerns import ReadLevel
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.snapshot import View, newest, view_of
from docstore.node.slices import Steps
from docstore.replicaset.replicaset import ReplicaSet
from docstore.sharding.token_ring import place_document, place_of_row_key
from docstore.storage import Family
from docstore.widecolumn.model.consistency import SERIAL_LEVELS, Level
from docstore.widecolumn.model.errors import family_absent, read_timed_out, stale_schema
from docstore.widecolumn.model.keys import decode_row_key
from docstore.widecolumn.node.keyspaces import FamilyStore, wide_of

if TYPE_CHECKING:
    from docstore.collection.collection import Collection
    from docstore.commands.context import Context
    from docstore.kernel.match.predicate import Predicate
    from docstore.storage.engine import Engine, Reader

T = TypeVar("T")
_WIDE = Family.WIDE


class WideCells:
    """The `wide` family of a reader."""

    __slots__ = ("reader",)

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def get(self, key: bytes) -> bytes | None:
        return self.reader.get(_WIDE, key)

    def items(self, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.reader.items(_WIDE, start, end, reverse)

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return self.reader.keys(_WIDE, start, end)


class ReadState(WideCells):
    """The `wide` family in the newest state until `hold`, then in a snapshot of it. `owned`: the filter of the rows
    that this node owns; None if it owns all.
    """

    __slots__ = ("_release", "owned")

    def __init__(self, reader: Reader, owned: Predicate | None, release: Callable[[], None] | None = None) -> None:
        """`release`: that of a reader that is a snapshot already."""
        self.reader = reader
        self.owned = owned
        self._release = release

    def hold(self) -> None:
        """Keep the state over pauses. Call it in the step that made it; iterators that were opened before go on."""
        if self._release is None:
            snapshot = cast("Engine", self.reader).snapshot()
            self.reader, self._release = snapshot, snapshot.close

    def release(self) -> None:
        """Release the snapshot, if there is one."""
        if self._release is not None:
            self._release()


def read_own(
    context: Context, family: FamilyStore, level: Level, read: Callable[[ReadState], Steps[T]], row_key: bytes = b""
) -> Steps[T]:
    """Run `read` on the state of a column family that this member shows; return its result. `row_key`: the one row
    that it reads.

    Errors: those of `view_of` and `check_current`; StaleConfig for a row that this shard does not own; TimedOut.
    """
    may_read, owned = (False, None) if level in SERIAL_LEVELS else newest(context)
    if may_read:
        state = ReadState(node_of(context).engine, owned)
    else:
        view = yield from _view(context, level)
        state = ReadState(view.reader, view.owned, view.release)
    try:
        check_current(context, family.collection)
        if row_key and not is_owned(family, row_key, state.owned):
            raise not_here(family, row_key)
        steps = read(state)
        try:
            pause = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        state.hold()
        yield pause
        return (yield from steps)
    finally:
        state.release()


def is_owned(found: FamilyStore, row_key: bytes, owned: Predicate | None) -> bool:
    """True if the row is in the owned ranges."""
    return owned is None or owned.matches(place_document(place_of_row_key(found.keyspace.partitioner, row_key)))


def not_here(found: FamilyStore, row_key: bytes) -> CommandError:
    """Return StaleConfig for a row of a range that this shard does not own."""
    key = decode_row_key(found.keyspace.partitioner, row_key)
    return CommandError(Code.StaleConfig, f"row {shown_key(key)} of {found.collection.ns} is not here")


def shown_key(key: bytes) -> str:
    """A partition key in a message: as text where it is text, else in hexadecimal."""
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return f"0x{key.hex()}"


def owned_rows(state: ReadState) -> Steps[Predicate | None]:
    """Return the filter of the rows that this node owns, for `read_own`."""
    return state.owned
    yield


def check_current(context: Context, collection: Collection) -> None:
    """Check that a column family is still the one of its name: call it in the step that takes the state to be read.

    It may have been dropped, and another made, while the request waited; records of a dropped one stay for a while.
    Errors: StaleConfig, so that a router asks again; NamespaceNotFound if no router asks.
    """
    if node_of(context).store.catalog.collections.get(collection.ns) is not collection:
        raise family_absent(collection.name) if context.shard_version is None else stale_schema(collection.ns)


def _view(context: Context, level: Level) -> Steps[View]:
    node = node_of(context)
    if level not in SERIAL_LEVELS or not isinstance(node.replication, ReplicaSet):
        return (yield from view_of(context))
    limit = node.clock() + wide_of(node).settings.read_timeout / 1000
    concern = replace(context.read_concern, level=ReadLevel.LINEARIZABLE)
    deadline = limit if context.deadline is None else min(limit, context.deadline)
    try:
        return (yield from view_of(context.derived(read_concern=concern, deadline=deadline)))
    except CommandError as error:
        if error.code not in (Code.MaxTimeMSExpired, Code.InterruptedDueToReplStateChange):
            raise
        raise read_timed_out(level.value, 1, 0) from error
