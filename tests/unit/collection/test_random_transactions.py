"""Random transactions of several clients at once, against a model of isolation."""

from __future__ import annotations

import random
from typing import Any

import pytest

from docstore.bson import from_python
from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.collection.transaction.store import TransactionStore
from docstore.errors import Code, CommandError
from docstore.storage import Engine, Family, open_engine
from tests.harness.undoing import roll_back
from tests.unit.collection.building import (
    check,
    doc,
    insert,
    make,
    plain,
    read,
    remove,
    spec,
    store_on,
    update,
)
from tests.unit.collection.transacting import begin, coll_of, commit, follower_of


def _refusal(
    store: Store, coll: Collection, identity: int, after: dict[str, Any] | None, *, exists: bool
) -> CommandError | None:
    """What a write is refused with; None for one that is done."""
    try:
        if after is None:
            remove(store, coll, identity)
        elif exists:
            update(store, coll, doc(**after))
        else:
            insert(store, coll, doc(**after))
    except CommandError as error:
        return error
    return None


class _Model:
    """What snapshot isolation allows: documents by `_id`, and for each open transaction its snapshot and its writes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.committed: dict[int, dict[str, Any]] = {}
        self.open: dict[TransactionStore, tuple[dict[int, Any], dict[int, Any]]] = {}

    def begin(self) -> None:
        self.open[begin(self.store)] = (dict(self.committed), {})

    def view(self, transaction: TransactionStore | None) -> dict[int, dict[str, Any]]:
        if transaction is None:
            return self.committed
        snapshot, own = self.open[transaction]
        return {key: value for key, value in (snapshot | own).items() if value is not None}

    def write(self, transaction: TransactionStore | None, identity: int, after: dict[str, Any] | None) -> None:
        store: Store = transaction or self.store
        coll, view = coll_of(store), self.view(transaction)
        error = _refusal(store, coll, identity, after, exists=identity in view)
        if error is not None:
            taken = after is not None and any(view[key]["u"] == after["u"] for key in view if key != identity)
            assert error.code == Code.WriteConflict or (error.code == Code.DuplicateKey and taken), error
            assert error.code != Code.WriteConflict or self.open, "nobody is in the way"
            if transaction is not None:
                transaction.abort()
                del self.open[transaction]
            return
        if transaction is None:
            assert not any(identity in own for _, own in self.open.values()), "the document is claimed"
            self._set(self.committed, identity, after)
        else:
            others = [own for other, (_, own) in self.open.items() if other is not transaction]
            assert not any(identity in own for own in others), "the document is another's"
            snapshot, own = self.open[transaction]
            assert snapshot.get(identity) == self.committed.get(identity), "it has changed since the snapshot"
            own[identity] = after

    @staticmethod
    def _set(documents: dict[int, dict[str, Any]], identity: int, after: dict[str, Any] | None) -> None:
        if after is None:
            documents.pop(identity, None)
        else:
            documents[identity] = after

    def end(self, transaction: TransactionStore, rng: random.Random) -> None:
        snapshot, own = self.open.pop(transaction)
        if rng.random() < 0.3:
            transaction.abort()
            return
        commit(transaction, lsid=rng.randbytes(16) + bytes(32))
        for identity, after in own.items():
            assert snapshot.get(identity) == self.committed.get(identity), "an update would be lost"
            self._set(self.committed, identity, after)

    def check(self, transaction: TransactionStore | None, rng: random.Random) -> None:
        store: Store = transaction or self.store
        coll, view = coll_of(store), self.view(transaction)
        assert {each["_id"]: each for each in read(coll, store.engine)} == view
        for name in ("_id_", "a_1", "u_1", "b.x_1"):
            index = coll.indexes[name]
            found = {index.record_id(*item) for item in store.engine.items(Family.INDEXES, index.prefix, index.end)}
            assert len(found) == len(view)
        identity = rng.randrange(12)
        one = coll.by_id(store.engine, from_python(identity))
        assert (None if one is None else plain(one[1])) == view.get(identity)


@pytest.mark.parametrize("kind", ["inMemory", "rocksdb"])
@pytest.mark.parametrize("seed", range(25))
def test_many_at_once_are_isolated(seed: int, kind: str, tmp_path: Any) -> None:
    rng = random.Random(seed)
    engine: Engine = open_engine(kind, str(tmp_path))
    store = store_on(engine)
    make(store, "db.c", indexes=(spec(("a", 1)), spec(("u", 1), unique=True), spec(("b.x", 1))))
    model = _Model(store)
    marks = [store.last_optime]
    for _ in range(250):
        choice = rng.random()
        transaction = rng.choice([None, *model.open])
        identity = rng.randrange(12)
        if choice < 0.08 and len(model.open) < 4:
            model.begin()
        elif choice < 0.7:
            after = {
                "_id": identity, "a": rng.choice([1, [1, 2], "x"]), "u": rng.randrange(16),
                "b": rng.choice([{"x": 1}, [{"x": 1}, {"x": 2}]]),
            }  # fmt: skip
            if identity in model.view(transaction) and rng.random() < 0.3:
                model.write(transaction, identity, None)
            else:
                model.write(transaction, identity, after)
        elif choice < 0.85 and transaction is not None:
            model.end(transaction, rng)
            marks.append(store.last_optime)
        else:
            model.check(transaction, rng)
    for transaction in list(model.open):
        model.end(transaction, rng)
    model.check(None, rng)
    assert store.claims.keys == {}
    check(store)
    follower = follower_of(store)
    assert sorted(coll_of(follower).documents(follower.engine)) == sorted(coll_of(store).documents(store.engine))
    check(follower)
    common = rng.choice(marks)
    roll_back(store, common)
    roll_back(follower, common)
    assert sorted(coll_of(follower).documents(follower.engine)) == sorted(coll_of(store).documents(store.engine))
    check(store)
    check(follower)
    engine.close()
