"""The logging half of a transaction's write units: it buffers operations and undo records until the commit, and claims
keys as a unit changes them.

- Every key that another writer could change is claimed before the unit ends, so its value in the store below stays as
  it was read until the transaction ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from docstore.bson.build import enclosed
from docstore.collection.oplog.document_key import DocumentKey
from docstore.collection.oplog.entry import StatementIds
from docstore.collection.oplog.inserts import inserts
from docstore.collection.oplog.journal import Image, Journal
from docstore.key_layout import UNLOGGED
from docstore.storage import Family


class JournaledTransaction(Protocol):
    """The transaction that a journal adds to. `operations`, `before`, `previous`: as in `TransactionStore`."""

    operations: list[bytes]
    before: dict[int, bytes]
    previous: dict[Family, dict[bytes, bytes | None]]

    def check_free(self, key: bytes) -> None:
        """Errors: WriteConflict if another transaction has claimed the key."""

    def claim(self, family: Family, key: bytes) -> None:
        """Claim a key that a unit changes or removes. Errors: WriteConflict."""

    def claim_entries(self, keys: Iterable[bytes]) -> None:
        """Claim index entries that other writers could change too. Errors: WriteConflict."""

    def note_created(self, keys: Iterable[bytes]) -> None:
        """Note records that the transaction created."""


class TransactionJournal(Journal):
    """The journal of one unit."""

    def __init__(self, transaction: JournaledTransaction) -> None:
        self.replaying = self.logs_each = False
        self.last = None
        self._transaction = transaction
        self.check_free = transaction.check_free
        self._previous: dict[Family, dict[bytes, bytes | None]] = {}
        self._operations: list[bytes] = []
        self._images: dict[int, bytes] = {}

    def next_timestamp(self) -> int:
        """Return UNLOGGED: a transaction drops nothing, so its garbage needs no timestamp."""
        return UNLOGGED

    def keep_before(self, document: bytes) -> None:
        """Keep the pre-image of the next operation for change streams."""
        self._images[len(self._operations)] = document

    def note(self, family: Family, key: bytes, previous: bytes | None) -> None:
        """Note that the next operation changed `key`, and claim it. Errors: WriteConflict."""
        self._of(family).setdefault(key, previous)
        if family is not Family.META:
            self._transaction.claim(family, key)

    def note_absent(self, family: Family, keys: Collection[bytes]) -> None:
        """Note that the next operation created these keys. Errors: WriteConflict."""
        stood = self._of(family)
        if family is Family.RECORDS:
            # Record ids are not reused, so they need no claim.
            stood.update(dict.fromkeys(keys))
            self._transaction.note_created(keys)
            return
        for key in keys:
            stood.setdefault(key, None)
        self._transaction.claim_entries(keys)

    def note_document(
        self,
        record_key: bytes,
        before: bytes | None,
        after: bytes | None,
        removed: dict[bytes, bytes],
        new_keys: Collection[bytes],
    ) -> None:
        """Note that the next operation changed a record and index entries. Errors: WriteConflict."""
        stood = self._of(Family.RECORDS)
        if before is None:
            # Record ids are not reused, so they need no claim.
            stood[record_key] = None
            self._transaction.note_created((record_key,))
        else:
            stood.setdefault(record_key, before)
            self._transaction.claim(Family.RECORDS, record_key)
        stood = self._of(Family.INDEXES)
        for key, value in removed.items():
            stood.setdefault(key, value)
        for key in new_keys:
            stood.setdefault(key, None)
        if removed:
            self._transaction.claim_entries(removed)
        if new_keys:
            self._transaction.claim_entries(new_keys)

    def _of(self, family: Family) -> dict[bytes, bytes | None]:
        """Return the values before the unit, by key, of a family."""
        stood = self._previous.get(family)
        if stood is None:
            stood = self._previous[family] = {}
        return stood

    def log(
        self,
        head: bytes,
        o: bytes,
        middle: bytes = b"",
        *,
        counted: tuple[int, int, int] = (0, 0, 0),
        stmt_id: StatementIds | None = None,
        image: Image | None = None,
    ) -> None:
        """Buffer an operation in the form of the transaction's entry."""
        self._operations.append(enclosed(b"".join((head, b"\x03o\0", o, middle))))

    def log_inserts(
        self, head: bytes, documents: Sequence[bytes], counted: tuple[int, int, int], key: DocumentKey | None
    ) -> None:
        """Buffer an insert operation per document."""
        self._operations += inserts(head, documents, key)

    def finish(self) -> None:
        """Do nothing: a unit writes no counters."""

    def written(self) -> None:
        """Add the unit's operations and undo values to the transaction."""
        done = len(self._transaction.operations)
        self._transaction.before |= {done + index: document for index, document in self._images.items()}
        self._transaction.operations += self._operations
        for family, stood in self._previous.items():
            first_values = self._transaction.previous.setdefault(family, stood)
            if first_values is not stood:
                # Keep the value before the first change.
                self._transaction.previous[family] = (
                    stood | first_values if len(stood) > len(first_values) else _first(first_values, stood)
                )


def _first(
    first_values: dict[bytes, bytes | None], later_values: dict[bytes, bytes | None]
) -> dict[bytes, bytes | None]:
    for key, value in later_values.items():
        first_values.setdefault(key, value)
    return first_values
