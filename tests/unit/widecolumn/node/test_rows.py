"""Rows of column families in units, in the oplog, in rollbacks and on members that apply what others have written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import bson
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.collection.catalog.ddl import truncate_family
from docstore.collection.catalog.options import options_of
from docstore.collection.collection import Collection
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.store import Store
from docstore.optime import OpTime
from docstore.storage import Family, open_engine
from docstore.widecolumn.model.cells import Deletion, tombstone, value_cell
from docstore.widecolumn.model.column_families import DEFAULT_PARTITIONER, ColumnFamily
from docstore.widecolumn.model.comparators import LONG
from docstore.widecolumn.model.keys import encode_row_key
from docstore.widecolumn.model.mutations import Entry, column_entry, folded, row_deletion_entry
from docstore.widecolumn.node.rows import EMPTY, apply_document, merge_row, remove_cells, row_size, stored_cells
from docstore.widecolumn.node.storage_mode import WideColumnMode
from tests.harness.undoing import roll_back

FAMILY = ColumnFamily(name="f", comparator=LONG)
KEYS = (b"a", b"b", b"c")


def new_store() -> Store:
    store = Store(open_engine("inMemory", ""), clock=lambda: 1_000.0, mode=WideColumnMode())
    oplog = store.attach_oplog(1 << 30)
    oplog.term = 1
    return store


def new_family(store: Store) -> Collection:
    with store.unit() as unit:
        made = store.create_collection(unit, "ks.f", options_of({"columnFamily": FAMILY.to_options()}))
        unit.commit()
    return made


def entries_of(store: Store) -> list[bytes]:
    assert store.oplog is not None
    return list(reversed(list(store.oplog.scan_back(store.engine))))


def long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def state(store: Store, family: Collection) -> list[tuple[bytes, bytes]]:
    return list(stored_cells(store.engine, family))


values = st.builds(
    lambda name, stamp, ttl: column_entry(FAMILY, long(name), None, value_cell(b"%d" % stamp, stamp, ttl=ttl, now=9)),
    st.integers(0, 4), st.integers(1, 3), st.sampled_from((0, 5)),
)  # fmt: skip
tombstones = st.builds(
    lambda name, stamp: column_entry(FAMILY, long(name), None, tombstone(stamp, 9)),
    st.integers(0, 4),
    st.integers(1, 3),
)
deletions = st.builds(lambda stamp: row_deletion_entry(Deletion(stamp, 9)), st.integers(1, 3))
mutations = st.lists(
    st.tuples(st.sampled_from(KEYS), st.lists(st.one_of(values, tombstones, deletions), min_size=1, max_size=4)),
    max_size=12,
)


def write(store: Store, family: Collection, key: bytes, entries: list[Entry]) -> None:
    with store.unit() as unit:
        merge_row(unit, family, encode_row_key(DEFAULT_PARTITIONER, key), folded(entries))
        unit.commit()


@settings(deadline=None)
@given(mutations, st.randoms())
def test_members_end_alike_whatever_the_order(history: list[tuple[bytes, list[Entry]]], rng: random.Random) -> None:
    first = new_store()
    family = new_family(first)
    for key, entries in history:
        write(first, family, key, entries)
    shuffled = [*history, *history[:3]]
    rng.shuffle(shuffled)
    second = new_store()
    other = new_family(second)
    for key, entries in shuffled:
        write(second, other, key, entries)
    assert state(first, family) == state(second, other)
    follower = new_store()
    for entry in entries_of(first):
        apply_entry(follower, entry)
    copy = follower.catalog.by_uuid(family.uuid)
    assert copy is not None
    assert state(follower, copy) == state(first, family)
    assert (copy.count, copy.size) == (family.count, family.size)
    for store, made in ((first, family), (follower, copy)):
        assert store.validate(made).errors == []


@settings(deadline=None)
@given(mutations, mutations)
def test_a_rollback_restores_every_row(
    kept: list[tuple[bytes, list[Entry]]], undone: list[tuple[bytes, list[Entry]]]
) -> None:
    store = new_store()
    family = new_family(store)
    for key, entries in kept:
        write(store, family, key, entries)
    at = store.last_optime
    before = list(store.engine.items(Family.WIDE, b"", b"\xff" * 8))
    for key, entries in undone:
        write(store, family, key, entries)
    for key in KEYS:
        with store.unit() as unit:
            remove_cells(unit, family, encode_row_key(DEFAULT_PARTITIONER, key), _records(store, family, key), rows=0)
            unit.commit()
    with store.unit() as unit:
        truncate_family(store.catalog, unit, family)
        unit.commit()
    roll_back(store, OpTime(at.term, at.timestamp))
    again = store.collection("ks.f")
    assert again is not None
    assert list(store.engine.items(Family.WIDE, b"", b"\xff" * 8)) == before
    assert store.validate(again).errors == []


def _records(store: Store, family: Collection, key: bytes) -> list[tuple[bytes, bytes]]:
    return list(_records_of(store, family, encode_row_key(DEFAULT_PARTITIONER, key)))


def _records_of(store: Store, family: Collection, row: bytes) -> Iterator[tuple[bytes, bytes]]:
    for key, record in stored_cells(store.engine, family):
        if key.startswith(row):
            yield key[len(row) :], record


def test_a_row_knows_how_large_it_is() -> None:
    store = new_store()
    family = new_family(store)
    row = encode_row_key(DEFAULT_PARTITIONER, b"a")
    for number in range(5):
        write(store, family, b"a", [column_entry(FAMILY, long(number % 3), None, value_cell(b"v", number))])
    assert row_size(store.engine, family, row).rows == 3
    write(store, family, b"a", [column_entry(FAMILY, long(0), None, tombstone(9, 9))])
    assert row_size(store.engine, family, row).rows == 2
    with store.unit() as unit:
        remove_cells(unit, family, row, _records(store, family, b"a"))
        unit.commit()
    assert row_size(store.engine, family, row) == EMPTY
    assert (family.count, family.size) == (0, 0)
    assert list(store.engine.items(Family.WIDE, b"", b"\xff" * 8)) == []


def test_a_removal_takes_only_what_it_expects() -> None:
    store = new_store()
    family = new_family(store)
    row = encode_row_key(DEFAULT_PARTITIONER, b"a")
    write(store, family, b"a", [column_entry(FAMILY, long(1), None, tombstone(1, 1))])
    doomed = _records(store, family, b"a")
    write(store, family, b"a", [column_entry(FAMILY, long(1), None, value_cell(b"newer", 2))])
    with store.unit() as unit:
        remove_cells(unit, family, row, doomed)
        unit.commit()
    assert family.count == 1


def test_what_is_dropped_or_truncated_leaves_nothing_on_disk() -> None:
    store = new_store()
    family = new_family(store)
    write(store, family, b"a", [column_entry(FAMILY, long(1), None, value_cell(b"v", 1))])
    with store.unit() as unit:
        truncate_family(store.catalog, unit, family)
        unit.commit()
    write(store, family, b"b", [column_entry(FAMILY, long(1), None, value_cell(b"v", 1))])
    assert family.count == 1
    store.discard_undo(store.last_optime)
    assert store.reclaim(float("inf"))
    assert len(list(store.engine.items(Family.WIDE, b"", b"\xff" * 8))) == 2
    with store.unit() as unit:
        store.drop_database(unit, "ks")
        unit.commit()
    store.discard_undo(store.last_optime)
    assert store.reclaim(float("inf"))
    assert list(store.engine.items(Family.WIDE, b"", b"\xff" * 8)) == []


def test_cells_that_are_rolled_back_are_told_of_and_can_be_merged_again() -> None:
    store = new_store()
    family = new_family(store)
    write(store, family, b"a", [column_entry(FAMILY, long(1), None, value_cell(b"old", 1))])
    common = store.last_optime
    write(store, family, b"a", [column_entry(FAMILY, long(1), None, value_cell(b"new", 2))])
    write(store, family, b"b", [column_entry(FAMILY, long(2), None, value_cell(b"x", 3, ttl=50, now=9))])
    write(
        store, family, b"b", [row_deletion_entry(Deletion(4, 9)), column_entry(FAMILY, long(3), None, tombstone(5, 9))]
    )
    lost = state(store, family)
    told: list[tuple[str, dict[str, Any]]] = []
    documents: list[bytes] = []

    def keep(namespace: str, document: bytes) -> None:
        told.append((namespace, bson.decode(document)))
        documents.append(document)

    roll_back(store, common, keep)
    assert {namespace for namespace, _ in told} == {"ks.f"}
    shown = sorted((kept["timestamp"], kept.get("value"), kept.get("expires"), kept.get("deleted")) for _, kept in told)
    assert shown == [(2, b"new", None, None), (3, b"x", 59, None), (4, None, None, True), (5, None, None, True)]
    family = store.catalog.collections["ks.f"]
    assert state(store, family) != lost
    with store.unit() as unit:
        for document in documents:
            apply_document(unit, family, document)
        unit.commit()
    assert state(store, family) == lost
