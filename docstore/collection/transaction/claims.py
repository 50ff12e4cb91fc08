"""Write claims of open transactions on keys and collections.

A transaction claims a key when it writes it: the record key of a changed or removed document, the `_id` index key of an
inserted or removed one, and the key in a unique index, without record id. Trees never share idents, so the three kinds
do not collide.

- One transaction claims a key. A transaction that meets another's claim, or a key written since its snapshot, fails at
  once (WriteConflict): transactions never wait for each other.
- A write outside of transactions waits until the claim is released.
- A collection used by an open transaction keeps its name, options and indexes. A DDL operation waits; meanwhile,
  transactions that have not used the collection yet fail (LockTimeout).
- Nothing is committed or prepared in a collection that is `closed`, even if its statements were admitted before: a
  migration is handing its documents over.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from docstore.errors import Code, CommandError

CONFLICT_TEXT = (
    "WriteConflict error: this operation conflicted with another operation. "
    "Please retry your operation or multi-document transaction."
)
_RID_BYTES = 8


class Claimant(Protocol):
    """An open transaction that holds claims."""

    def over(self) -> Awaitable[Any]:
        """Return an awaitable that completes when the transaction ends."""


class WriteConflict(CommandError):
    """A write that meets the claim of an open transaction.

    `over`: what to await before a retry; None for a write in a transaction, which is not retried here.
    """

    def __init__(self, over: Callable[[], Awaitable[Any]] | None = None) -> None:
        super().__init__(Code.WriteConflict, CONFLICT_TEXT)
        self.over = over


class Claims:
    """The claims of one store. `keys` is public, so that writes can check cheaply if there are any.

    `closed`: returns True for a namespace in which nothing may commit; set by the owner of migrations.
    """

    def __init__(self) -> None:
        self.keys: dict[bytes, Claimant] = {}
        self.closed: Callable[[str], bool] = lambda _ns: False
        self._names: dict[str, Claimant] = {}
        self._users: dict[str, dict[Claimant, None]] = {}
        """Of each collection those that use it, in the order of their first use."""
        self._waiting: dict[str, int] = {}

    def refuse(self, key: bytes) -> None:
        """Errors: WriteConflict if a transaction has claimed the key."""
        owner = self.keys.get(key)
        if owner is not None:
            raise WriteConflict(owner.over)

    def refuse_entries(self, keys: Iterable[bytes]) -> None:
        """Check index entries, of the `_id` index or others. Errors: as `refuse`."""
        claimed = self.keys
        for key in keys:
            owner = claimed.get(key) or claimed.get(key[:-_RID_BYTES])
            if owner is not None:
                raise WriteConflict(owner.over)

    # Collections

    def use(self, ns: str, owner: Claimant, *, prepared: bool = False) -> None:
        """Register that the transaction uses the collection, until `release`.

        Errors: LockTimeout while a DDL operation waits, unless the transaction is `prepared`.
        """
        users = self._users.get(ns)
        if users is not None and owner in users:
            return
        if ns in self._waiting and not prepared:
            raise CommandError(
                Code.LockTimeout,
                f"Unable to acquire IX lock on '{ns}' within 5ms.",
            )
        self._users.setdefault(ns, {})[owner] = None

    def name(self, ns: str, owner: Claimant) -> None:
        """Claim the name of a collection that the transaction creates. Errors: WriteConflict if another creates it
        too.
        """
        if self._names.setdefault(ns, owner) is not owner:
            raise WriteConflict

    def holder(self, ns: str) -> Claimant | None:
        """Return a transaction that uses, or creates, a collection of that name."""
        users = self._users.get(ns)
        return next(iter(users)) if users else self._names.get(ns)

    def holder_of_any(self, concerns: Callable[[str], bool]) -> Claimant | None:
        """Return a transaction that uses, or creates, a collection whose name satisfies `concerns`."""
        for ns, users in self._users.items():
            if concerns(ns):
                return next(iter(users))
        return next((owner for ns, owner in self._names.items() if concerns(ns)), None)

    def holder_in(self, database: str) -> Claimant | None:
        """Return a transaction that uses, or creates, a collection in that database."""
        prefix = f"{database}."
        return self.holder_of_any(lambda ns: ns.startswith(prefix))

    def check_open(self, namespaces: Iterable[str]) -> None:
        """Errors: LockTimeout if one of the collections is closed."""
        for ns in namespaces:
            if self.closed(ns):
                raise CommandError(Code.LockTimeout, f"{ns} is being handed over to another shard")

    def refuse_change(self, ns: str) -> None:
        """Check before a DDL operation. Errors: WriteConflict if a transaction uses the collection."""
        owner = self.holder(ns)
        if owner is not None:
            raise WriteConflict(owner.over)

    def is_awaited(self, ns: str) -> bool:
        """True if a DDL operation waits for the collection."""
        return ns in self._waiting

    def begin_waiting(self, ns: str) -> None:
        self._waiting[ns] = self._waiting.get(ns, 0) + 1

    def end_waiting(self, ns: str) -> None:
        remaining = self._waiting[ns] - 1
        if remaining:
            self._waiting[ns] = remaining
        else:
            del self._waiting[ns]

    def release(self, owner: Claimant, keys: Iterable[bytes], namespaces: Iterable[str]) -> None:
        """Release the claims of a transaction that has ended."""
        for key in keys:
            del self.keys[key]
        for ns in namespaces:
            users = self._users.get(ns)
            if users is not None:
                users.pop(owner, None)
                if not users:
                    del self._users[ns]
            if self._names.get(ns) is owner:
                del self._names[ns]
