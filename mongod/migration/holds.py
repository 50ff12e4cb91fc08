"""The holds of DDL operations on this shard, and the operations and migrations that they block.

Invariants on every member:

- the blocked operations are exactly those that the documents in `HOLDS` name, however these got there;
- a hold stands from the step that writes its document there to the step that moves it to `RELEASED_HOLDS`.

On the primary no chunk in a held namespace migrates, except by migrations that are decided already. The cost of a
hold does not depend on the number of earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from bson.binary import Binary

from docstore.bson import from_python
from docstore.collection.changes import Commit
from docstore.errors import Code, CommandError
from docstore.node.node import DataNode
from docstore.sharding.ddl.operation import (
    HOLDS,
    RELEASED_HOLDS,
    REMEMBERED_SECONDS,
    Blocks,
    Hold,
    conflict,
    hold_to_take,
    let_go,
)
from mongod.migration.critical_section import CriticalSections

if TYPE_CHECKING:
    from mongod.migration.records import MigrationRecords

MAX_FORGOTTEN_AT_ONCE = 100


class Holds:
    """`sections`: critical sections of operations, by collection or database; `changes`: those of changes of
    definitions. `on_end` gets the name of a released hold, on any member.
    """

    def __init__(self, node: DataNode) -> None:
        self.sections = CriticalSections()
        self.changes = CriticalSections()
        self.on_end: Callable[[str], None] = lambda _held: None
        self._node = node
        self._standing: dict[bytes, Hold] = {}
        self._unsubscribe = node.store.subscribe(self._committed)
        self.load()

    def stop(self) -> None:
        self._unsubscribe()

    def load(self) -> None:
        """Make exactly the holds of the documents stand."""
        stored = {bytes(hold.operation): hold for hold in self._stored() if not hold.released}
        for identity in self._standing.keys() - stored.keys():
            self._end(self._standing[identity])
        for hold in stored.values():
            self._begin(hold)

    @property
    def any(self) -> bool:
        """True if any hold stands."""
        return bool(self._standing)

    def conflicting(self, namespace: str) -> Hold | None:
        """The hold on the namespace or on its database, or, for a database, on anything in it."""
        for hold in self._standing.values():
            if conflict(hold.namespace, namespace):
                return hold
        return None

    def conflict(self, namespace: str, operation: Binary | None = None) -> CommandError | None:
        """Return the error for a migration of the collection or database, unless it is part of that operation; None
        if none.
        """
        hold = self.conflicting(namespace)
        if hold is None or hold.operation == operation:
            return None
        return CommandError(Code.ConflictingOperationInProgress, f"{namespace} is held for a change of its definition")

    def all_standing(self) -> list[Hold]:
        """Return the standing holds of all operations."""
        return list(self._standing.values())

    def stands(self, operation: Binary) -> bool:
        """True if the operation's hold stands."""
        return bytes(operation) in self._standing

    def standing(self, operation: Binary) -> Hold:
        """Return the operation's hold. Errors: OperationFailed with `notHeld` if it does not stand."""
        hold = self._standing.get(bytes(operation))
        if hold is None:
            text = "the operation does not hold the namespace here"
            raise CommandError(Code.OperationFailed, text, extra={"notHeld": True})
        return hold

    def take(self, records: MigrationRecords, requested: Hold) -> None:
        """Make the hold stand. Errors: those of `taken`, NotWritablePrimary."""
        hold = hold_to_take(self._remembered(requested.operation), self.conflicting(requested.namespace), requested)
        records.write((HOLDS, hold.document()))

    def release(self, records: MigrationRecords, requested: Hold) -> None:
        """Release the hold for good. Also forgets some of those released long ago."""
        hold = let_go(self._remembered(requested.operation), requested)
        outdated = islice(self._released_before(requested.seconds - REMEMBERED_SECONDS), MAX_FORGOTTEN_AT_ONCE)
        records.write((RELEASED_HOLDS, hold.document()), (HOLDS, hold.operation), *outdated)

    def _remembered(self, operation: Binary) -> Hold | None:
        """The operation's hold, standing or released."""
        for namespace in (RELEASED_HOLDS, HOLDS):
            collection = self._node.store.collection(namespace)
            record = None if collection is None else collection.by_id(self._node.engine, from_python(operation))
            if record is not None:
                return Hold.from_raw(record[1])
        return None

    def _released_before(self, seconds: int) -> Iterator[tuple[str, Binary]]:
        """Return the records of holds released before that time, oldest first. Includes those of earlier versions in
        `HOLDS`.
        """
        yield from ((HOLDS, hold.operation) for hold in self._stored() if hold.released and hold.seconds < seconds)
        released = self._node.store.collection(RELEASED_HOLDS)
        for raw in () if released is None else released.documents(self._node.engine):
            hold = Hold.from_raw(raw)
            if hold.seconds >= seconds:
                return
            yield RELEASED_HOLDS, hold.operation

    def _stored(self) -> list[Hold]:
        collection = self._node.store.collection(HOLDS)
        return [] if collection is None else [Hold.from_raw(raw) for raw in collection.documents(self._node.engine)]

    def _committed(self, commit: Commit) -> None:
        for change in commit.changes:
            if change.ns == HOLDS and change.after is not None:
                hold = Hold.from_raw(change.after)
                if hold.released:  # by a primary of an earlier version
                    self._end(hold)
                else:
                    self._begin(hold)
            elif change.ns == HOLDS and change.before is not None:
                self._end(Hold.from_raw(change.before))

    def _begin(self, hold: Hold) -> None:
        self._standing[bytes(hold.operation)] = hold
        if hold.blocks is Blocks.NOTHING:
            return
        waiting = self.changes if hold.blocks is Blocks.CHANGES else self.sections
        waiting.begin(hold.namespace, reads=True)

    def _end(self, hold: Hold) -> None:
        if self._standing.pop(bytes(hold.operation), None) is None:
            return
        self.on_end(hold.namespace)
        self.sections.end(hold.namespace)
        self.changes.end(hold.namespace)


def stored_document(node: DataNode, namespace: str, identity: str) -> bytes | None:
    """The raw document of a shard's own catalog."""
    collection = node.store.collection(namespace)
    record = None if collection is None else collection.by_id(node.engine, from_python(identity))
    return None if record is None else record[1]
