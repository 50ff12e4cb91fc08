"""Which keys and collections open transactions hold, so that nobody else writes there before they end.

A transaction claims what it writes when it writes it: the key of a record that it changes or removes, the key in the
`_id` index of a document that comes or goes, and a key under a unique index without the record id behind it. Idents are
never shared by trees, so the three kinds do not collide.

Always true: a key is claimed by one transaction; a transaction that meets another's claim, or a key that was written
since its snapshot, fails at once (WriteConflict), so transactions never wait for each other; whoever writes outside of
transactions waits until the claim is released. A collection that an open transaction uses keeps its name, options and
indexes; who wants to change them waits, and meanwhile transactions that have not used it yet are refused (LockTimeout).
Nothing is committed or prepared in a collection that is `closed`, whatever its statements were let in by: its documents
are changing hands.
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
    """An open transaction."""

    def over(self) -> Awaitable[Any]:
        """To await until it has ended."""


class WriteConflict(CommandError):
    """A write that meets an open transaction's. `over`: what to await before it is tried again; None for a transaction,
    which is not tried again here.
    """

    def __init__(self, over: Callable[[], Awaitable[Any]] | None = None) -> None:
        super().__init__(Code.WriteConflict, CONFLICT_TEXT)
        self.over = over


class Claims:
    """Of one store. `keys` is open to those who look before every write whether there are any. `closed`: whether nobody
    may commit in the collection of that name; set by whoever hands collections over.
    """

    def __init__(self) -> None:
        self.keys: dict[bytes, Claimant] = {}
        self.closed: Callable[[str], bool] = lambda _ns: False
        self._names: dict[str, Claimant] = {}
        self._users: dict[str, set[Claimant]] = {}
        self._waiting: dict[str, int] = {}

    def refuse(self, key: bytes) -> None:
        """Errors: WriteConflict for a key that a transaction has claimed."""
        owner = self.keys.get(key)
        if owner is not None:
            raise WriteConflict(owner.over)

    def refuse_entries(self, keys: Iterable[bytes]) -> None:
        """The same of entries of indexes, of which each may be one of the `_id` index or of another."""
        claimed = self.keys
        for key in keys:
            owner = claimed.get(key) or claimed.get(key[:-_RID_BYTES])
            if owner is not None:
                raise WriteConflict(owner.over)

    # Collections

    def use(self, ns: str, owner: Claimant, *, prepared: bool = False) -> None:
        """The transaction uses the collection until `release`. Errors: LockTimeout while one waits to change it, unless
        the transaction is `prepared`.
        """
        users = self._users.get(ns)
        if users is not None and owner in users:
            return
        if ns in self._waiting and not prepared:
            raise CommandError(
                Code.LockTimeout,
                f"Unable to acquire IX lock on '{ns}' within 5ms.",
            )
        self._users.setdefault(ns, set()).add(owner)

    def name(self, ns: str, owner: Claimant) -> None:
        """The transaction makes a collection of that name. Errors: WriteConflict where another is making it too."""
        if self._names.setdefault(ns, owner) is not owner:
            raise WriteConflict

    def holder(self, ns: str) -> Claimant | None:
        """A transaction that uses a collection of that name, or is making one."""
        users = self._users.get(ns)
        return next(iter(users)) if users else self._names.get(ns)

    def holder_of_any(self, concerns: Callable[[str], bool]) -> Claimant | None:
        """A transaction that uses, or is making, a collection of a name that `concerns` is true of."""
        for ns, users in self._users.items():
            if concerns(ns):
                return next(iter(users))
        return next((owner for ns, owner in self._names.items() if concerns(ns)), None)

    def holder_in(self, database: str) -> Claimant | None:
        """The same of any collection of that database."""
        within = f"{database}."
        return self.holder_of_any(lambda ns: ns.startswith(within))

    def check_open(self, namespaces: Iterable[str]) -> None:
        """Errors: LockTimeout where one of the collections is closed."""
        for ns in namespaces:
            if self.closed(ns):
                raise CommandError(Code.LockTimeout, f"{ns} is being handed over to another shard")

    def refuse_change(self, ns: str) -> None:
        """Before the catalog changes a collection. Errors: WriteConflict where a transaction uses it."""
        owner = self.holder(ns)
        if owner is not None:
            raise WriteConflict(owner.over)

    def is_awaited(self, ns: str) -> bool:
        """Whether somebody waits to change the collection."""
        return ns in self._waiting

    def begin_waiting(self, ns: str) -> None:
        self._waiting[ns] = self._waiting.get(ns, 0) + 1

    def end_waiting(self, ns: str) -> None:
        left = self._waiting[ns] - 1
        if left:
            self._waiting[ns] = left
        else:
            del self._waiting[ns]

    def release(self, owner: Claimant, keys: Iterable[bytes], namespaces: Iterable[str]) -> None:
        """The transaction has ended, which had claimed these."""
        for key in keys:
            del self.keys[key]
        for ns in namespaces:
            users = self._users.get(ns)
            if users is not None:
                users.discard(owner)
                if not users:
                    del self._users[ns]
            if self._names.get(ns) is owner:
                del self._names[ns]
