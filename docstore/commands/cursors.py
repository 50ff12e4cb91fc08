"""Client cursors: ids, ownership, and expiry.

A cursor's `source` is any object with `close()`; the registry does not inspect it.

- A registered cursor's source is closed exactly once, when it leaves the registry.
- Only one command uses a checked-out cursor. A kill meanwhile takes effect at checkin.
- As in MongoDB 6.0, a cursor expires after ten idle minutes, unless opened with no timeout. It ends with its session.
  The end of a connection ends only the cursors of its exhaust streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from docstore.commands.access.need import Need
from docstore.errors import Code, CommandError
from docstore.security.names import UserName

IDLE_SECONDS = 600.0
MONITOR_SECONDS = 4


class Source(Protocol):
    """The data source of a cursor."""

    def close(self) -> None:
        """Release its resources; called once."""


class OpeningRequest(NamedTuple):
    """The request that opened a cursor. `lsid`: its session, or None. `transaction`: its number in the session.

    `origin`: the command, for currentOp. `owner`: the user, with access control. `needs`: the privileges for opening
    the cursor and for each batch.
    """

    lsid: bytes | None
    transaction: int | None
    origin: bytes
    owner: UserName | None
    needs: tuple[Need, ...]


class ClientCursor:
    """One open cursor. `source`: an object of the command layer. `lsid`, `transaction`, `owner`, `needs`, `origin`: as
    in `OpeningRequest`.

    `returned`, `batches`: documents and batches returned so far. `apart`: its batches run scripts or stages on a thread
    that can block. `created`, `last_used`: seconds of the registry's clock. `at_cluster_time`: the packed timestamp of
    a snapshot read. `time_left`: the remaining seconds for all its batches; None: no limit. `execution`: its plans, if
    known.
    """

    __slots__ = (
        "apart", "at_cluster_time", "batches", "created", "execution", "id", "killed", "last_used", "lsid", "namespace",
        "needs", "no_timeout", "origin", "owner", "pinned", "returned", "source", "time_left", "transaction",
    )  # fmt: skip

    def __init__(
        self,
        cursor_id: int,
        namespace: str,
        source: Any,
        request: OpeningRequest,
        no_timeout: bool,
        now: float,
    ) -> None:
        self.lsid, self.transaction, self.origin, self.owner, self.needs = request
        self.id = cursor_id
        self.namespace = namespace
        self.source = source
        self.no_timeout = no_timeout
        self.last_used = self.created = now
        self.pinned = False
        self.killed = False
        self.apart = False
        self.returned = 0
        self.at_cluster_time: int | None = None
        self.time_left: float | None = None
        self.batches = 0
        self.execution: Any = None


class CursorRegistry:
    """All open cursors of a process. `random64()` returns 64 random bits; ids are positive, never 0."""

    def __init__(
        self, clock: Callable[[], float], random64: Callable[[], int], *, idle_seconds: float = IDLE_SECONDS
    ) -> None:
        self._clock = clock
        self.random64 = random64
        self.idle_seconds = idle_seconds
        self.monitor_seconds = MONITOR_SECONDS
        """The interval at which to call `expire`."""
        self._cursors: dict[int, ClientCursor] = {}
        self.timed_out = 0
        self.opened = 0

    def register(
        self,
        source: Source,
        namespace: str,
        *,
        lsid: bytes | None = None,
        transaction: int | None = None,
        no_timeout: bool = False,
        origin: bytes = b"",
        owner: UserName | None = None,
        needs: tuple[Need, ...] = (),
    ) -> ClientCursor:
        """Add a new cursor, not checked out, of an `OpeningRequest` with these fields."""
        request = OpeningRequest(lsid, transaction, origin, owner, needs)
        cursor_id = 0
        while cursor_id == 0 or cursor_id in self._cursors:
            cursor_id = self.random64() & 0x7FFFFFFFFFFFFFFF
        cursor = ClientCursor(cursor_id, namespace, source, request, no_timeout, self._clock())
        self._cursors[cursor_id] = cursor
        self.opened += 1
        return cursor

    def checkout(
        self,
        cursor_id: int,
        namespace: str,
        lsid: bytes | None = None,
        transaction: int | None = None,
        owner: UserName | None = None,
    ) -> ClientCursor:
        """Check a cursor out for one getMore; return it with `checkin` or end it with `close`.

        Errors: CursorNotFound (43); Unauthorized (13) for another collection or another user's cursor; Location50736 to
        50738 for another session, and 50739 to 50741 for another transaction; Location12051 if a command is using it.
        """
        cursor = self._cursors.get(cursor_id)
        if cursor is None or cursor.killed:
            raise CommandError(Code.CursorNotFound, f"cursor id {cursor_id} not found")
        if cursor.owner != owner:
            raise CommandError(Code.Unauthorized, f"cursor id {cursor_id} was not created by the authenticated user")
        if cursor.namespace != namespace:
            raise CommandError(
                Code.Unauthorized,
                f"Requested getMore on namespace '{namespace}', but cursor belongs to a different namespace "
                f"{cursor.namespace}",
            )
        if cursor.lsid != lsid:
            raise _session_mismatch(cursor, lsid)
        if cursor.transaction != transaction:
            raise _transaction_mismatch(cursor, transaction)
        if cursor.pinned:
            raise CommandError(12051, f"cursor id {cursor_id} is already in use")
        cursor.pinned = True
        return cursor

    def get(self, cursor_id: int) -> ClientCursor | None:
        """Return a cursor without checks or checkout; None if there is none."""
        return self._cursors.get(cursor_id)

    def needs_of(self, cursor_id: int, owner: UserName | None) -> tuple[Need, ...]:
        """Return the privileges for the owner's next batch; empty if the owner has no such cursor."""
        cursor = self._cursors.get(cursor_id)
        return () if cursor is None or cursor.owner != owner else cursor.needs

    def owner_of(self, cursor_id: int) -> UserName | None:
        """Return the owner of a cursor; None without access control, or if there is no such cursor."""
        cursor = self._cursors.get(cursor_id)
        return None if cursor is None else cursor.owner

    def refuse_await_limit(self, cursor: ClientCursor) -> CommandError:
        """Check the cursor in and return the error of a getMore with maxTimeMS, even 0, if it awaits no data."""
        self.checkin(cursor)
        return CommandError(Code.BadValue, "cannot set maxTimeMS on getMore command for a non-awaitData cursor")

    def checkin(self, cursor: ClientCursor) -> bool:
        """Return a cursor, restarting its idle time. False if it was killed meanwhile and is gone."""
        cursor.pinned = False
        cursor.last_used = self._clock()
        if cursor.killed:
            self.close(cursor)
            return False
        return True

    def close(self, cursor: ClientCursor) -> None:
        """End a cursor that the caller has checked out, or that is idle."""
        if self._cursors.pop(cursor.id, None) is not None:
            cursor.killed = True
            cursor.source.close()

    def kill(self, cursor_id: int) -> bool:
        """End a cursor by id, at once or at its checkin. False if there is none."""
        cursor = self._cursors.get(cursor_id)
        if cursor is None or cursor.killed:
            return False
        self._end(cursor)
        return True

    def kill_where(self, chosen: Callable[[ClientCursor], bool]) -> int:
        """End all cursors that satisfy `chosen`, e.g. those of a dropped collection; return their number."""
        victims = [cursor for cursor in self._cursors.values() if not cursor.killed and chosen(cursor)]
        for cursor in victims:
            self._end(cursor)
        return len(victims)

    def kill_sessions(self, lsids: set[bytes]) -> int:
        """End the cursors of those sessions."""
        return self.kill_where(lambda cursor: cursor.lsid in lsids)

    def expire(self) -> int:
        """End the expired cursors; return their number."""
        before = self._clock() - self.idle_seconds
        count = self.kill_where(lambda cursor: not (cursor.pinned or cursor.no_timeout) and cursor.last_used < before)
        self.timed_out += count
        return count

    def close_all(self) -> None:
        """End every cursor, checked out or not, when the process stops."""
        for cursor in list(self._cursors.values()):
            self.close(cursor)

    def _end(self, cursor: ClientCursor) -> None:
        if cursor.pinned:
            cursor.killed = True
        else:
            self.close(cursor)

    def __iter__(self) -> Iterator[ClientCursor]:
        return iter(list(self._cursors.values()))

    def __len__(self) -> int:
        return len(self._cursors)


def _session_mismatch(cursor: ClientCursor, lsid: bytes | None) -> CommandError:
    if cursor.lsid is None:
        code, how = 50736, "was not created in a session, in a session"
    elif lsid is None:
        code, how = 50737, "was created in a session, without an lsid"
    else:
        code, how = 50738, "was created in one session, in another"
    return CommandError(code, f"Cannot run getMore on cursor {cursor.id}, which {how}")


def _transaction_mismatch(cursor: ClientCursor, transaction: int | None) -> CommandError:
    if cursor.transaction is None:
        code, how = 50739, "was not created in a transaction, in a transaction"
    elif transaction is None:
        code, how = 50740, "was created in a transaction, without a transaction"
    else:
        code, how = 50741, "was created in one transaction, in another"
    return CommandError(code, f"Cannot run getMore on cursor {cursor.id}, which {how}")
