"""Transactions of a store, begun and committed."""

from __future__ import annotations

from docstore.collection.collection import Collection
from docstore.collection.oplog.apply import apply_entry
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.collection.transaction.store import TransactionStore
from docstore.optime import OpTime
from tests.unit.collection.building import (
    entries,
    spec,
    store_on,
)

LSID = bytes(range(16)) + b"u" * 32
INDEXES = (spec(("a", 1)), spec(("u", 1), unique=True, sparse=True), spec(("b.x", 1), ("a", -1)))


def begin(store: Store) -> TransactionStore:
    return TransactionStore(store, store.engine.snapshot(), newest=True)


def commit(transaction: TransactionStore, number: int = 1, lsid: bytes = LSID) -> OpTime | None:
    return transaction.commit(SessionWrite(lsid, number))


def coll_of(store: Store, ns: str = "db.c") -> Collection:
    found = store.collection(ns)
    assert found is not None
    return found


def follower_of(store: Store) -> Store:
    """A member that has applied all entries."""
    follower = store_on()
    for entry in entries(store):
        apply_entry(follower, entry)
    return follower
