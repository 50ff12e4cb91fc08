"""Identities above the newest are not looked up; a duplicate is found all the same, whatever came before."""

from __future__ import annotations

from random import Random

import pytest

from docstore.bson import from_python
from docstore.collection.collection import Collection
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.storage import Family
from tests.harness.undoing import roll_back
from tests.unit.collection.building import check, doc, insert, make, plain, store_on


def stored(store: Store, coll: Collection) -> set[int]:
    return {plain(raw)["_id"] for raw in coll.documents(store.engine)}


def one_unit(store: Store, coll: Collection, rng: Random) -> None:
    """Some inserts and removals in one unit, which may be dropped in the end; duplicates must be refused."""
    there = stored(store, coll)
    with store.unit() as unit:
        for _ in range(rng.randint(1, 4)):
            if rng.random() < 0.3:
                wanted = [rng.randrange(12) for _ in range(rng.randint(1, 3))]
                free = there.isdisjoint(wanted) and len(set(wanted)) == len(wanted)
                assert unit.insert_each(coll, [doc(identity) for identity in wanted], None) is free
                there.update(wanted if free else ())
                continue
            identity = rng.randrange(12)
            if rng.random() < 0.5 and identity in there:
                found = coll.by_id(unit, from_python(identity))
                assert found is not None
                unit.remove(coll, *found)
                there.discard(identity)
            elif identity in there:
                with pytest.raises(CommandError) as refused:
                    unit.insert(coll, doc(identity))
                assert refused.value.code == Code.DuplicateKey
            else:
                unit.insert(coll, doc(identity))
                there.add(identity)
        if rng.random() < 0.7:
            unit.commit()


@pytest.mark.parametrize("seed", range(40))
def test_a_duplicate_is_found_after_any_mixture_of_units_restarts_and_rollbacks(seed: int) -> None:
    rng = Random(seed)
    store = store_on()
    coll = make(store, "db.c", doc(5))
    for _ in range(30):
        chance = rng.random()
        if chance < 0.1:
            store = store_on(store.engine)
        elif chance < 0.2:
            before = store.last_optime
            one_unit(store, coll, rng)
            one_unit(store, coll, rng)
            roll_back(store, before)
        found = store.collection("db.c")
        assert found is not None
        coll = found
        one_unit(store, coll, rng)
    check(store)


def all_at_once(store: Store, coll: Collection, rng: Random) -> None:
    """Some inserts with one entry for all, refused where an identity is taken or comes twice."""
    there = stored(store, coll)
    with store.unit() as unit:
        for identity in sorted(there):
            if rng.random() < 0.3:
                found = coll.by_id(unit, from_python(identity))
                assert found is not None
                unit.remove(coll, *found)
                there.discard(identity)
        chosen = [rng.randrange(16) for _ in range(rng.randint(1, 4))]
        if rng.random() < 0.5:
            chosen.sort()
        documents = [doc(identity) for identity in chosen]
        if len({*chosen}) < len(chosen) or there & {*chosen}:
            with pytest.raises(CommandError) as refused:
                unit.insert_all(coll, documents)
            assert refused.value.code == Code.DuplicateKey
            return
        unit.insert_all(coll, documents)
        unit.commit()
    assert stored(store, coll) == there | {*chosen}


@pytest.mark.parametrize("seed", range(20))
def test_a_duplicate_among_many_is_found_in_whatever_order_they_come(seed: int) -> None:
    rng = Random(seed)
    store = store_on()
    coll = make(store, "db.c", doc(5))
    for _ in range(60):
        all_at_once(store, coll, rng)
    check(store)


def test_identities_in_order_between_two_neighbours_are_not_looked_up_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1), doc(9))
    looked_up: list[bytes] = []
    get = store.engine.get

    def noted(family: Family, key: bytes) -> bytes | None:
        if family is Family.INDEXES:
            looked_up.append(key)
        return get(family, key)

    monkeypatch.setattr(store.engine, "get", noted)
    with store.unit() as unit:
        unit.insert_all(coll, [doc(identity) for identity in range(2, 9)])
        unit.commit()
    assert looked_up == []
    assert stored(store, coll) == {*range(1, 10)}
    check(store)


def test_a_document_put_back_by_a_rollback_is_found() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1), doc(9))
    before = store.last_optime
    coll.newest_id = None
    with store.unit() as unit:
        found = coll.by_id(unit, from_python(9))
        assert found is not None
        unit.remove(coll, *found)
        unit.commit()
    insert(store, coll, doc(5))
    roll_back(store, before)
    with pytest.raises(CommandError):
        insert(store, coll, doc(9))
    check(store)
