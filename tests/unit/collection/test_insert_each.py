"""Documents inserted at once under unique keys: they end where single ones do, or nothing is done."""

from __future__ import annotations

from contextlib import closing
from random import Random
from typing import Any

import pytest

from docstore.bson import from_python
from docstore.collection.store import Store
from docstore.errors import CommandError
from docstore.storage import Engine, Family, open_engine
from tests.unit.collection.building import check, doc, make, read, spec, store_on
from tests.unit.collection.following import rows

_INDEXES = (spec(("u", 1), unique=True), spec(("s", 1), ("t", -1), unique=True, sparse=True), spec(("x", 1)))


def _store(engine: Engine | None = None) -> Store:
    store = store_on(engine)
    make(store, "db.c", *(doc(number, u=number, s=-number) for number in range(0, 100, 10)), indexes=_INDEXES)
    return store


def _random(rng: Random, first: int) -> list[bytes]:
    made = []
    for identity in range(first, first + rng.randrange(1, 6)):
        content: dict[str, Any] = {"u": rng.randrange(300), "x": identity % 3}
        if rng.random() < 0.5:
            content.update(s=rng.choice([rng.randrange(-100, 300), "text"]), t=rng.randrange(3))
        made.append(doc(identity, **content))
    return made


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("engine", ["inMemory", "rocksdb"])
def test_random_documents_end_where_single_ones_do(seed: int, engine: str, tmp_path: Any) -> None:
    rng = Random(seed)
    one, other = (closing(open_engine(engine, str(tmp_path / name))) for name in ("one", "other"))
    with one as below, other as below_other:
        _compare(rng, _store(below), _store(below_other))


def _compare(rng: Random, together: Store, single: Store) -> None:
    at_once = 0
    for first in range(1000, 3000, 10):
        documents = _random(rng, first)
        coll, own = together.collection("db.c"), single.collection("db.c")
        assert coll is not None
        assert own is not None
        removed = rng.choice([None, rng.choice(read(coll, together.engine))["_id"]])
        with together.unit() as unit, single.unit() as by_one:
            if removed is not None:
                for each, of in ((unit, coll), (by_one, own)):
                    found = of.by_id(each, from_python(removed))
                    assert found is not None
                    each.remove(of, *found)
            done = unit.insert_each(coll, documents, None)
            try:
                for raw in documents:
                    by_one.insert(own, raw)
            except CommandError:
                assert not done
            if not done:
                # Record ids that were given out are not given out again.
                own.next_record_id = coll.next_record_id
                continue
            at_once += 1
            unit.commit()
            by_one.commit()
        for family in (Family.RECORDS, Family.INDEXES):
            assert rows(together)[family] == rows(single)[family]
    check(together)
    assert at_once > 30


@pytest.mark.parametrize(
    ("documents", "done"),
    [
        ([doc(1, u=1), doc(2, u=2)], True),
        ([doc(1, u=1), doc(2, u=1)], False),
        ([doc(1, u=1), doc(2, u=10)], False),
        ([doc(1, u=1), doc(2, u=30)], False),
        ([doc(1, u=1), doc(2, u=500)], False),
        ([doc(1, u=[1, 2]), doc(2, u=[3, 3])], False),
        ([doc(1, u=None), doc(2)], False),
        ([doc(1, u=1, s=1), doc(2, u=2), doc(3, u=3)], True),
        ([doc(1, u=1, s=1, t=1), doc(2, u=2, s=1, t=2)], True),
        ([doc(1, u=1, s=1, t=1), doc(2, u=2, s=1, t=1)], False),
    ],
)
def test_what_is_taken_or_was_moved_by_the_unit_is_not_said_of_all_at_once(documents: list[bytes], done: bool) -> None:
    """30 is given up by the unit before, 500 taken by it; what is met for the first time in arrays goes one by one."""
    store = _store()
    coll = store.collection("db.c")
    assert coll is not None
    with store.unit() as unit:
        found = coll.by_id(unit, from_python(30))
        assert found is not None
        unit.remove(coll, *found)
        unit.insert(coll, doc(500, u=500))
        assert unit.insert_each(coll, documents, None) is done
        if done:
            with pytest.raises(CommandError):
                unit.insert(coll, doc(7, u=1))
        unit.commit()
    check(store)
