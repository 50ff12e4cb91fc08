"""Indexes built while their collection is written to."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docstore.bson import from_python
from docstore.collection.collection import Collection
from docstore.collection.index.build import IndexBuild
from docstore.collection.index.spec import parse_index_spec
from docstore.collection.store import Store
from docstore.errors import Code, CommandError
from docstore.storage import Family, open_engine, rocks_load
from tests.harness.undoing import roll_back
from tests.unit.collection.building import (
    check,
    doc,
    entries,
    insert,
    make,
    plain,
    remove,
    spec,
    store_on,
    ticking,
    update,
)

FOREVER = float("inf")


def finish(store: Store, build: IndexBuild) -> None:
    with store.unit() as unit:
        build.finish(unit)
        unit.commit()


def filled(store: Store, count: int) -> Collection:
    return make(store, "db.c", *(doc(n, x=n % 7, y=[n, -n]) for n in range(count)))


def test_the_built_index_holds_every_document() -> None:
    store = store_on()
    coll = filled(store, 300)
    build = store.build_index(coll, [spec(("x", 1)), spec(("y", -1), ("x", 1))])
    assert "x_1" not in coll.indexes
    assert build.step(FOREVER)
    finish(store, build)
    assert list(coll.indexes) == ["_id_", "x_1", "y_-1_x_1"]
    assert (coll.indexes["x_1"].multikey, coll.indexes["y_-1_x_1"].multikey) == (False, True)
    check(store)
    made = [plain(entry)["o"] for entry in entries(store)[-2:]]
    assert made[0] == {"createIndexes": "c", "v": 2, "key": {"x": 1}, "name": "x_1"}


def test_a_step_ends_with_its_time() -> None:
    store = store_on()
    coll = filled(store, 10)
    build = store.build_index(coll, [spec(("x", 1))])
    assert not build.step(0.0)
    assert build.progress == (0, 10)
    assert build.step(FOREVER)
    assert build.progress[0] == 10


EVERY_KIND = [
    spec(("x", 1)),
    spec(("x", -1), name="partial", partialFilterExpression={"y": {"$gt": 1}}),
    spec(("_id", 1), ("x", 1), name="unique", unique=True, partialFilterExpression={"y": 1}),
    parse_index_spec(bson.encode({"key": {"y": "hashed", "_id": 1}, "name": "hashed"})),
    spec(("$**", 1), name="wildcard"),
    spec(("z", 1), name="sparse", sparse=True),
]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 60), st.lists(st.integers(0, 9), max_size=3)),
            st.tuples(st.just("remove"), st.integers(0, 60), st.just([])),
            st.tuples(st.just("slice"), st.just(0), st.just([])),
        ),
        max_size=40,
    )
)
@settings(max_examples=60, deadline=None)
def test_writes_during_the_build_are_in_the_index(steps: list[tuple[str, int, list[int]]]) -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(n, x=[n], y=n % 3) for n in range(40)))
    build = store.build_index(coll, EVERY_KIND)
    for kind, identity, value in steps:
        found = coll.by_id(store.engine, from_python(identity))
        if kind == "slice":
            place = build._place
            build._last, last = min(place + 5, build._last), build._last
            build.step(FOREVER)
            build._last = last
        elif kind == "remove":
            if found is not None:
                remove(store, coll, identity)
        elif found is None:
            insert(store, coll, doc(identity, x=value, y=len(value)))
        else:
            update(store, coll, doc(identity, x=value, y=len(value)))
    assert build.step(FOREVER)
    finish(store, build)
    check(store)


def test_two_documents_under_one_unique_key_refuse_the_build() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, q=1), doc(2, q=1))
    build = store.build_index(coll, [spec(("q", 1), unique=True)])
    with pytest.raises(CommandError, match=r"index: q_1 dup key: \{ q: 1 \}"):
        build.step(FOREVER)
    build.abort()
    assert list(coll.indexes) == ["_id_"]
    assert not coll.building
    assert not store.catalog.garbage
    check(store)


def test_a_collision_made_during_the_build_refuses_its_end_and_not_the_write() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, q=1), doc(2, q=2))
    build = store.build_index(coll, [spec(("q", 1), unique=True)])
    assert build.step(FOREVER)
    insert(store, coll, doc(3, q=1))
    with pytest.raises(CommandError, match="dup key"):
        finish(store, build)
    remove(store, coll, 1)
    finish(store, build)
    with pytest.raises(CommandError, match="dup key"):
        insert(store, coll, doc(4, q=1))
    check(store)


def test_a_partial_unique_index_refuses_only_what_it_holds() -> None:
    store = store_on()
    coll = make(store, "db.c", doc(1, q=1, on=True), doc(2, q=1, on=False))
    build = store.build_index(coll, [spec(("q", 1), unique=True, partialFilterExpression={"on": True})])
    assert build.step(FOREVER)
    finish(store, build)
    insert(store, coll, doc(3, q=1))
    with pytest.raises(CommandError, match="dup key"):
        update(store, coll, doc(3, q=1, on=True))
    update(store, coll, doc(1, q=1, on=False))
    update(store, coll, doc(3, q=1, on=True))
    check(store)


def test_a_unit_that_aborts_leaves_the_build_open() -> None:
    store = store_on()
    coll = filled(store, 10)
    build = store.build_index(coll, [spec(("x", 1))])
    build.step(FOREVER)
    with store.unit() as unit:
        build.finish(unit)
    assert "x_1" not in coll.indexes
    insert(store, coll, doc(99, x=1))
    finish(store, build)
    check(store)


def test_a_dropped_collection_ends_the_build() -> None:
    store = store_on()
    coll = filled(store, 10)
    build = store.build_index(coll, [spec(("x", 1))])
    with store.unit() as unit:
        store.drop_collection(unit, "db.c")
        unit.commit()
    with pytest.raises(CommandError) as refused:
        build.step(FOREVER)
    assert refused.value.code == 276
    build.abort()
    build.abort()


def test_a_rollback_ends_the_build() -> None:
    store = store_on()
    coll = filled(store, 10)
    common = store.last_optime
    insert(store, coll, doc(11))
    build = store.build_index(coll, [spec(("x", 1))])
    roll_back(store, common)
    with pytest.raises(CommandError):
        build.step(FOREVER)
    build.abort()
    check(store)


def test_an_unfinished_build_is_gone_after_a_restart() -> None:
    engine = open_engine("inMemory", "")
    store = store_on(engine)
    coll = filled(store, 10)
    store.build_index(coll, [spec(("x", 1))]).step(FOREVER)
    insert(store, coll, doc(99, x=5))
    again = store_on(engine)
    assert list(again.catalog.collections["db.c"].indexes) == ["_id_"]
    assert not again.catalog.garbage
    assert len(list(engine.items(Family.INDEXES, b"", b"\xff"))) == 11
    check(again)


def test_a_collection_has_at_most_64_indexes() -> None:
    store = store_on()
    coll = make(store, "db.c", indexes=tuple(spec((f"f{n}", 1)) for n in range(63)))
    with pytest.raises(CommandError, match="too many indexes"), store.unit() as unit:
        store.create_index(unit, coll, spec(("g", 1)))
    with pytest.raises(CommandError, match="too many indexes"):
        store.build_index(coll, [spec(("g", 1))])


def test_a_name_that_another_index_has_taken_ends_the_build() -> None:
    store = store_on()
    coll = filled(store, 10)
    build = store.build_index(coll, [spec(("x", 1))])
    assert build.step(FOREVER)
    other = store.build_index(coll, [spec(("x", 1), sparse=True)])
    assert other.step(FOREVER)
    with pytest.raises(CommandError) as refused:
        finish(store, build)
    assert refused.value.code == 276
    check(store)


@pytest.mark.parametrize("happened", ["dropped", "made anew", "filled", "the name taken"])
def test_an_index_of_an_empty_collection_is_made_of_what_stands(happened: str) -> None:
    store = store_on()
    coll = filled(store, 0)
    if happened == "filled":
        insert(store, coll, doc(1, x=1))
    elif happened == "the name taken":
        with store.unit() as unit:
            store.create_index(unit, coll, spec(("x", 1), sparse=True))
            unit.commit()
    else:
        with store.unit() as unit:
            store.drop_collection(unit, "db.c")
            unit.commit()
        if happened == "made anew":
            make(store, "db.c")
    with store.unit() as unit, pytest.raises(CommandError) as refused:
        store.create_index(unit, coll, spec(("x", 1)))
    assert refused.value.code == (86 if happened == "the name taken" else 276)
    check(store)


@pytest.mark.parametrize("kind", ["inMemory", "rocksdb"])
def test_writes_stand_over_what_was_gathered_before_them(kind: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocks_load, "_FILE_BYTES", 30_000)
        store = Store(open_engine(kind, str(tmp_path)), clock=ticking())
        store.attach_oplog(1 << 20)
        coll = filled(store, 6_000)
        build = store.build_index(coll, [spec(("x", 1), ("y", 1))])
        number = 0
        while not build.step(monotonic() + 0.0002):
            remove(store, coll, number)
            update(store, coll, doc(number + 3_000, x=1.5, y=[number]))
            update(store, coll, doc(number + 1_000, x=0.0))
            number += 1
        finish(store, build)
        assert number > 10
        check(store)
        store.engine.close()


def test_a_document_that_comes_between_gathering_and_loading_collides() -> None:
    store = store_on()
    coll = make(store, "db.c", *(doc(n, q=n) for n in range(200)))
    build = store.build_index(coll, [spec(("q", 1), unique=True)])
    while build.progress[0] == 0:
        assert not build.step(monotonic() + 0.0001)
    insert(store, coll, doc(1_000, q=0))
    with pytest.raises(CommandError) as raised:
        build.step(FOREVER)
    assert raised.value.code == Code.DuplicateKey
    build.abort()
    check(store)
