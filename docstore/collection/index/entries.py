"""Index entries of documents, and uniqueness checks.

Entries of secondary indexes are key + record id. A unique key is free if no other record id has it, counting the unit's
own additions and removals. An index under construction refuses nothing: a collision is noted, and decided when the
build ends, because the other document may be gone by then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, islice
from operator import lt
from typing import TYPE_CHECKING, NamedTuple

from docstore.collection.collection import AFTER_RECORD_ID, Collection, Index
from docstore.collection.index.duplicates import duplicate_key
from docstore.errors import CommandError
from docstore.key_layout import RECORD_ID_BYTES
from docstore.storage import Family
from docstore.storage.engine import keys_of_ranges

if TYPE_CHECKING:
    from docstore.collection.index.ahead import KeysAhead
    from docstore.storage import Engine

Marked = dict[bytes, bytes]
"""Index entries, with the marks that each stores as its value."""

Grown = list[tuple[Index, int]]
"""Indexes, with the multikey positions (see `Index.array_bits`) that a document's arrays add to each."""

_INDEXES = Family.INDEXES


class NewEntries(NamedTuple):
    """The index entries of new documents.

    `id_keys`: the keys in the `_id` index. `entry_keys`: the entries per document. `entries`: all with their marks.
    `grown`: the multikey positions added. `claims`: the unique keys taken, each with the record id that takes it.
    """

    id_keys: list[bytes]
    entry_keys: list[list[bytes]]
    entries: Marked
    grown: Grown
    claims: dict[bytes, bytes]


class Entries:
    """The index entries of one write unit, whose own changes are `pending`. Without `enforce`, unique keys may collide.

    `look` is called with a taken key before the write is refused, and may raise another error instead.
    """

    __slots__ = ("_claims", "_enforce", "_engine", "_look", "_pending")

    def __init__(
        self,
        engine: Engine,
        pending: dict[bytes, bytes | None],
        enforce: bool,
        look: Callable[[bytes], None] | None = None,
    ) -> None:
        self._engine = engine
        self._look = look
        self._pending = pending
        self._enforce = enforce
        # Unique keys taken by the unit itself, with the record ids that took them.
        self._claims: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the value at a key of an `_id` index, as the unit sees it."""
        pending = self._pending
        if key in pending:
            return pending[key]
        return self._engine.get(_INDEXES, key)

    def new_keys(
        self, coll: Collection, raw: bytes, rid: bytes, index_keys: KeysAhead | None = None
    ) -> tuple[Marked, Grown]:
        """Return (secondary entries of a new document, multikey positions that it adds). Errors: DuplicateKey."""
        added: Marked = {}
        grown: Grown = []
        for index in coll.secondary:
            tolerant = not self._enforce
            keys, positions, marks = (
                index.marked_keys(raw, tolerant=tolerant)
                if index_keys is None
                else index_keys.of(index, raw, tolerant=tolerant)
            )
            if positions & ~index.array_bits:
                grown.append((index, positions))
            for key in keys:
                entry = index.prefix + key
                if index.unique:
                    self._check(coll, index, raw, entry, rid)
                added[entry + rid] = marks
        return added, grown

    def add_all(self, coll: Collection, documents: Sequence[bytes], rids: Sequence[bytes]) -> tuple[list[bytes], Grown]:
        """Add the secondary entries of new documents; return (the entries, the multikey positions added). Errors:
        DuplicateKey.
        """
        entries: list[bytes] = []
        grown: Grown = []
        pending, claims, tolerant = self._pending, self._claims, not self._enforce
        for index in coll.secondary:
            prefix, unique, marked_keys, all_positions = index.prefix, index.unique, index.marked_keys, 0
            for raw, rid in zip(documents, rids, strict=True):
                keys, positions, marks = marked_keys(raw, tolerant=tolerant)
                all_positions |= positions
                for key in keys:
                    entry = prefix + key
                    if unique:
                        self._check(coll, index, raw, entry, rid)
                        claims[entry] = rid
                    entry += rid
                    pending[entry] = marks
                    entries.append(entry)
            if all_positions & ~index.array_bits:
                grown.append((index, all_positions))
        return entries, grown

    def of_each(self, coll: Collection, documents: list[bytes], rids: list[bytes]) -> NewEntries | None:
        """Return the entries of new documents; None if one is refused, or if they cannot be checked together."""
        id_keys, values = coll.id_entries(documents, rids)
        newest = coll.newest_id or coll.find_newest_id(self._engine)
        identities = dict(zip(id_keys, values, strict=True))
        if len(identities) < len(id_keys) or self._any_taken(id_keys, newest):
            return None
        document_entries = [[key] for key in id_keys]
        marked: Marked = {}
        grown: Grown = []
        claims: dict[bytes, bytes] = {}
        try:
            for index in coll.secondary:
                index_entries: list[list[bytes]] = [[] for _ in rids] if index.unique else document_entries
                positions = _add_each(index, documents, rids, index_entries, marked, tolerant=not self._enforce)
                if positions & ~index.array_bits:
                    grown.append((index, positions))
                if index.unique:
                    if not self._claim_each(index, index_entries, rids, claims):
                        return None
                    for entries_of, added in zip(document_entries, index_entries, strict=True):
                        entries_of += added
        except CommandError:
            return None
        entries = dict.fromkeys(chain.from_iterable(document_entries), b"") if coll.secondary else {}
        entries.update(marked)
        entries.update(identities)
        return NewEntries(id_keys, document_entries, entries, grown, claims)

    def add_each(self, new: NewEntries) -> None:
        """Add the entries to the batch."""
        self._pending.update(new.entries)
        self._claims.update(new.claims)

    def _claim_each(
        self, index: Index, entries: list[list[bytes]], rids: list[bytes], claims: dict[bytes, bytes]
    ) -> bool:
        """Claim the keys of new documents in a unique index, adding them to `claims`; True on success.

        False also if they cannot be checked together: the unit itself has changed one of the keys.
        """
        if not (index.ready and self._enforce):
            return False
        new_claims = {
            entry[:-RECORD_ID_BYTES]: rid for of_one, rid in zip(entries, rids, strict=True) for entry in of_one
        }
        if len(new_claims) < sum(map(len, entries)) or not self._claims.keys().isdisjoint(new_claims):
            return False
        ranges = [(key, key + AFTER_RECORD_ID) for key in sorted(new_claims)]
        if next(keys_of_ranges(self._engine, _INDEXES, ranges), None) is not None:
            return False
        claims.update(new_claims)
        return True

    def _any_taken(self, id_keys: list[bytes], newest: bytes) -> bool:
        """True if one of these distinct keys exists in an `_id` index whose highest key is `newest`."""
        lowest, highest = min(id_keys), max(id_keys)
        if lowest > newest:
            return False
        pending = self._pending
        if pending.keys().isdisjoint(id_keys) and not self._any_stored(lowest, highest, newest):
            return False
        return any(key <= newest and self.get(key) is not None for key in id_keys)

    def add_identities(self, coll: Collection, documents: Sequence[bytes], rids: Sequence[bytes]) -> list[bytes]:
        """Add the `_id` entries of new documents; return their keys. Errors: DuplicateKey."""
        id_keys = [coll.id_key(raw) for raw in documents]
        newest = coll.newest_id or coll.find_newest_id(self._engine)
        pending = self._pending
        look_up: Callable[[bytes], bytes | None] = self.get
        if all(map(lt, id_keys, islice(id_keys, 1, None))) and not self._any_stored(id_keys[0], id_keys[-1], newest):
            look_up = pending.get
        for raw, id_key, rid in zip(documents, id_keys, rids, strict=True):
            if id_key > newest:
                newest = coll.newest_id = id_key
            elif look_up(id_key) is not None:
                raise self.duplicate(coll, coll.id_index, raw, id_key)
            pending[id_key] = coll.id_entry(raw, rid)
        return id_keys

    def _any_stored(self, lowest: bytes, highest: bytes, newest: bytes) -> bool:
        """True if the `_id` index has entries from `lowest` to `highest`.

        Ascending ids usually fall between two neighbours, so that one range lookup serves all of them.
        """
        if lowest > newest:
            return False
        return next(keys_of_ranges(self._engine, _INDEXES, [(lowest, highest + b"\0")]), None) is not None

    def old_keys(self, coll: Collection, raw: bytes, rid: bytes, index_keys: KeysAhead | None = None) -> Marked:
        """Return the secondary entries of a stored document."""
        entries: Marked = {}
        for index in coll.secondary:
            marked = index.marked_keys if index_keys is None else partial(index_keys.of, index)
            keys, _, marks = marked(raw, tolerant=not self._enforce)
            for key in keys:
                entries[index.prefix + key + rid] = marks
        return entries

    def changed_keys(
        self,
        coll: Collection,
        before: bytes,
        after: bytes,
        rid: bytes,
        changed: frozenset[bytes] | None = None,
        index_keys: KeysAhead | None = None,
    ) -> tuple[Marked, Marked, Grown]:
        """Return (entries to remove, entries to add, multikey positions added) for a changed document. Errors:
        DuplicateKey.

        An entry whose marks change is both removed and added. `changed`: the only fields that differ.
        """
        removed: Marked = {}
        added: Marked = {}
        grown: Grown = []
        for index in coll.indexes_of(changed):
            marked = index.marked_keys if index_keys is None else partial(index_keys.of, index)
            old, _, old_marks = marked(before, tolerant=not self._enforce)
            new, positions, marks = marked(after, tolerant=not self._enforce)
            if positions & ~index.array_bits:
                grown.append((index, positions))
            if old == new and old_marks == marks:
                continue
            obsolete = set(old)
            for key in new:
                if key in obsolete and old_marks == marks:
                    obsolete.discard(key)
                    continue
                entry = index.prefix + key
                if index.unique and key not in obsolete:
                    self._check(coll, index, after, entry, rid)
                added[entry + rid] = marks
            for key in old if obsolete else ():
                if key in obsolete:
                    removed[index.prefix + key + rid] = old_marks
        return removed, added, grown

    def change_each(
        self,
        indexes: Sequence[Index],
        rids: list[bytes],
        before: list[bytes],
        after: list[bytes],
        grow: Callable[[Grown], None] | None,
    ) -> tuple[list[list[bytes]], list[Marked]] | tuple[None, None]:
        """Move the entries of changed documents in these indexes, none of which is unique; return, per document, the
        entries added and removed.

        Return (None, None), without effect, if a document is refused. `grow` receives the multikey positions added;
        without it, such an addition is refused too.
        """
        moved: dict[bytes, bytes | None] = {}
        all_added: list[list[bytes]] = [[] for _ in rids]
        all_removed: list[Marked] = [{} for _ in rids]
        grown: Grown = []
        try:
            for index in indexes:
                prefix, add, positions = index.prefix, index.adder(tolerant=not self._enforce), 0
                for rid, old_raw, new_raw, added, removed in zip(
                    rids, before, after, all_added, all_removed, strict=True
                ):
                    old: list[bytes] = []
                    new: list[bytes] = []
                    old_marks: Marked = {}
                    marks: Marked = {}
                    add(prefix, old_raw, rid, old, old_marks)
                    positions |= add(prefix, new_raw, rid, new, marks)
                    if old == new and old_marks == marks:
                        continue
                    obsolete = set(old)
                    for key in new:
                        mark = marks.get(key, b"")
                        if key not in obsolete:
                            added.append(key)
                        elif mark == old_marks.get(key, b""):
                            continue
                        else:
                            removed[key] = old_marks.get(key, b"")
                        moved[key] = mark
                    obsolete.difference_update(new)
                    for key in old if obsolete else ():
                        if key in obsolete:
                            removed[key] = old_marks.get(key, b"")
                            moved[key] = None
                if positions & ~index.array_bits:
                    grown.append((index, positions))
        except CommandError:
            return None, None
        if grown:
            if grow is None:
                return None, None
            grow(grown)
        self._pending.update(moved)
        return all_added, all_removed

    def remove_each(self, coll: Collection, documents: list[bytes], rids: list[bytes]) -> list[Marked]:
        """Remove the entries of stored documents from the batch; return those of each, from all indexes."""
        removed = [self.old_keys(coll, raw, rid) for raw, rid in zip(documents, rids, strict=True)]
        for of_document, id_key, value in zip(removed, *coll.id_entries(documents, rids), strict=True):
            self.move(coll, of_document, {})
            self._pending[id_key] = None
            of_document[id_key] = value
        return removed

    def move(self, coll: Collection, removed: Marked, added: Marked) -> None:
        """Remove and add entries in the batch."""
        pending = self._pending
        for key in removed:
            pending[key] = None
        pending.update(added)
        if coll.has_unique:
            claims = self._claims
            for key in removed:
                if claims.get(key[:-RECORD_ID_BYTES]) == key[-RECORD_ID_BYTES:]:
                    del claims[key[:-RECORD_ID_BYTES]]
            for key in added:
                claims[key[:-RECORD_ID_BYTES]] = key[-RECORD_ID_BYTES:]

    def _check(self, coll: Collection, index: Index, raw: bytes, entry: bytes, rid: bytes) -> None:
        if not self._is_taken(entry, rid):
            return
        if not index.ready:
            index.collisions.add(entry)
        elif self._enforce:
            raise self.duplicate(coll, index, raw, entry)

    def duplicate(self, coll: Collection, index: Index, raw: bytes, entry: bytes) -> CommandError:
        """Return the error for a document whose key, `entry` with the index's prefix, is taken.

        It is WriteConflict if the outcome depends on an open transaction.
        """
        if self._look is not None:
            self._look(entry)
        return duplicate_key(coll, index, raw, entry[len(index.prefix) :])

    def _is_taken(self, entry: bytes, rid: bytes) -> bool:
        claim = self._claims.get(entry)
        if claim is not None and claim != rid:
            return True
        pending = self._pending
        for key in keys_of_ranges(self._engine, _INDEXES, [(entry, entry + AFTER_RECORD_ID)]):
            if key[-RECORD_ID_BYTES:] != rid and pending.get(key, b"") is not None:
                return True
        return False


def _add_each(
    index: Index,
    documents: list[bytes],
    rids: list[bytes],
    document_entries: list[list[bytes]],
    marked: dict[bytes, bytes],
    *,
    tolerant: bool,
) -> int:
    """Append the entries of many documents, each to its own list, as `Index.adder`."""
    if not tolerant and index.is_of_values:
        return index.key_pattern.add_each(index.prefix, documents, rids, document_entries, marked)
    add, positions = index.adder(tolerant=tolerant), 0
    for raw, rid, entries in zip(documents, rids, document_entries, strict=True):
        positions |= add(index.prefix, raw, rid, entries, marked)
    return positions
