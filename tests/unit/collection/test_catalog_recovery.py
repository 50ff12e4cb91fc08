"""Catalogs of damaged stores: what no row names comes back, and nothing new mixes with it."""

from __future__ import annotations

from docstore.collection.catalog.recovery import idents_in, recover_catalog
from docstore.collection.repair import repair_collection
from docstore.collection.store import Store
from docstore.key_layout import NEXT_IDENT_KEY, family_prefix, ident_bytes
from docstore.storage import Batch, Engine, Family, open_engine
from tests.unit.collection.building import check, doc, make, plain, read, spec, store_on, ticking


def damaged(*, names: tuple[str, ...], lost: tuple[str, ...]) -> tuple[Engine, dict[str, int]]:
    """A store whose catalog has lost some collections, and the counter of idents with them."""
    store = store_on(oplog=False)
    idents = {ns: make(store, ns, *(doc(n, ns=ns) for n in range(9)), indexes=(spec(("ns", 1)),)).ident for ns in names}
    batch = Batch()
    for ns in lost:
        key, _ = store.catalog.row(store.catalog.collections[ns])
        batch.delete(Family.META, key)
    batch.delete(Family.META, NEXT_IDENT_KEY)
    store.engine.write(batch)
    return store.engine, idents


def recovered(engine: Engine) -> tuple[list[str], Store]:
    losses: list[str] = []
    recover_catalog(engine, losses.extend)
    store = Store(engine, clock=ticking())
    for ns in store.namespaces():
        repair_collection(store, store.catalog.collections[ns])
    check(store)
    return losses, store


def test_records_that_no_row_names_come_back_as_lost_collections() -> None:
    engine, idents = damaged(names=("a.a", "a.b", "b.c"), lost=("a.b", "b.c"))
    losses, store = recovered(engine)
    assert sorted(store.namespaces()) == ["a.a", *sorted(f"lost.{idents[ns]}" for ns in ("a.b", "b.c"))]
    assert len(losses) == 2
    for ns in ("a.b", "b.c"):
        coll = store.catalog.collections[f"lost.{idents[ns]}"]
        assert coll.count == 9
        assert {document["ns"] for document in read(coll, engine)} == {ns}
    assert recovered(engine)[0] == []


def test_a_new_collection_holds_nothing_of_a_lost_one() -> None:
    """Also where no repair was run: idents are above all that are on disk."""
    engine, _ = damaged(names=("a.a", "a.b"), lost=("a.a", "a.b"))
    store = Store(engine, clock=ticking())
    for n in range(6):
        coll = make(store, f"new.c{n}")
        assert read(coll, engine) == []
        for index in coll.indexes.values():
            assert list(engine.keys(Family.INDEXES, index.prefix, index.end)) == []


def test_entries_of_an_index_alone_keep_their_ident() -> None:
    """As an index build leaves them whose row the power has taken."""
    engine = open_engine("inMemory", "")
    batch = Batch()
    batch.put(Family.INDEXES, ident_bytes(7) + b"key", b"")
    engine.write(batch)
    assert make(Store(engine, clock=ticking()), "a.a").ident == 8


def test_rows_of_a_lost_column_family_come_back_as_documents() -> None:
    engine = open_engine("inMemory", "")
    batch = Batch()
    for n in range(3):
        batch.put(Family.WIDE, family_prefix(5) + b"row%d" % n, b"record%d" % n)
    engine.write(batch)
    losses, store = recovered(engine)
    assert len(losses) == 1
    documents = read(store.catalog.collections["lost.5"], engine)
    assert [(d["_id"], d["key"], d["record"]) for d in documents] == [
        (n + 1, b"row%d" % n, b"record%d" % n) for n in range(3)
    ]
    assert len(list(engine.keys(Family.WIDE, b"", b"\xff"))) == 3


def test_a_row_that_cannot_be_read_is_named_and_its_records_come_back() -> None:
    engine, idents = damaged(names=("a.a",), lost=())
    batch = Batch()
    batch.put(Family.META, b"c" + ident_bytes(idents["a.a"]), b"\x05\0\0\0\xff")
    engine.write(batch)
    losses, store = recovered(engine)
    assert "cannot be read" in losses[0]
    assert store.namespaces() == [f"lost.{idents['a.a']}"]


def test_of_two_collections_of_one_name_both_are_kept() -> None:
    engine, idents = damaged(names=("a.a", "a.b"), lost=())
    row = engine.get(Family.META, b"c" + ident_bytes(idents["a.b"]))
    assert row is not None
    batch = Batch()
    batch.put(Family.META, b"c" + ident_bytes(idents["a.b"]), row.replace(b"a.b\0", b"a.a\0", 1))
    engine.write(batch)
    losses, store = recovered(engine)
    assert "two collections a.a" in losses[0]
    kept = {
        ns: {plain(raw)["ns"] for raw in store.catalog.collections[ns].documents(engine)} for ns in store.namespaces()
    }
    assert kept == {"a.a": {"a.b"}, f"lost.{idents['a.a']}": {"a.a"}}


def test_the_idents_of_a_family_are_found_without_reading_its_records() -> None:
    engine = open_engine("inMemory", "")
    batch = Batch()
    for ident in (1, 5, 0xFFFFFFFF):
        for n in range(3):
            batch.put(Family.RECORDS, ident_bytes(ident) + b"%d" % n, b"")
    engine.write(batch)
    assert list(idents_in(engine, Family.RECORDS)) == [1, 5, 0xFFFFFFFF]
