"""Entries in a row that are applied together: what comes of them is, byte for byte, what comes of one after the other,
but for the order of keys in what undoes an entry.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import bson
import pytest

from docstore.bson import from_python
from docstore.collection.changes import Commit
from docstore.collection.collection import Collection
from docstore.collection.oplog import apply
from docstore.collection.oplog.apply import ApplyError, EntryUnit, apply_entry
from docstore.collection.oplog.oplog import entry_optime
from docstore.collection.oplog.sessions import SessionWrite
from docstore.collection.store import Store
from docstore.errors import CommandError
from docstore.kernel.log.runs import changed_names, entry_run
from docstore.key_layout import PRE_IMAGE_PREFIX, after_prefix
from docstore.storage import Family
from tests.harness.undoing import roll_back
from tests.unit.collection.building import check, doc, entries, insert, make, remove, spec, store_on, update
from tests.unit.collection.following import follow, follow_in_units, rows, state_of

_SESSIONS = [bytes([number]) * 48 for number in range(3)]


class _Writer:
    """Random writes to a few collections, several at a time, by several sessions and by none."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.store = store_on()
        self.collections = [
            make(self.store, "db.plain"),
            make(self.store, "db.indexed", indexes=(spec(("x", 1)), spec(("y.z", -1), ("x", 1)))),
            make(self.store, "db.unique", indexes=(spec(("u", 1), unique=True, sparse=True),)),
        ]
        self.documents: dict[Collection, dict[object, dict[str, Any]]] = {coll: {} for coll in self.collections}
        self.numbers = dict.fromkeys(_SESSIONS, 0)

    def write(self) -> None:
        rng, session = self.rng, None
        if rng.random() < 0.6:
            lsid = rng.choice(_SESSIONS)
            self.numbers[lsid] += rng.random() < 0.8
            session = SessionWrite(lsid, self.numbers[lsid])
        coll = rng.choice(self.collections)
        kind = rng.choice("iiud")
        first = rng.choice([0, 0, rng.randrange(50)]) if session is None or self.numbers[session.lsid] else 0
        with self.store.unit(session=session) as unit:
            for step in range(rng.choice([1, 1, 2, 5, 20])):
                statement = None if session is None else first + step * rng.choice([1, 1, 1, 2])
                self._one(unit, coll, kind, statement)
            unit.commit()

    def _one(self, unit: Any, coll: Collection, kind: str, statement: int | None) -> None:
        rng, documents = self.rng, self.documents[coll]
        if kind == "i" or not documents:
            identity: object = rng.choice([len(documents) + 1000, rng.random(), f"text {rng.random()}"])
            if identity in documents:
                return
            documents[identity] = self._content(identity)
            unit.insert(coll, doc(identity, **documents[identity]), stmt_id=statement)
            return
        identity = rng.choice(list(documents))
        found = coll.by_id(unit, from_python(identity))
        assert found is not None
        if kind == "d":
            del documents[identity]
            unit.remove(coll, *found, stmt_id=statement)
            return
        documents[identity] = self._content(identity) if rng.random() < 0.3 else self._changed(documents[identity])
        unit.replace(coll, *found, doc(identity, **documents[identity]), stmt_id=statement)

    def _content(self, identity: object) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {"u": f"{identity}", "filling": "." * 60}
        if rng.random() < 0.8:
            made["x"] = rng.choice([rng.randrange(9), None, [1, rng.randrange(3)], "text"])
        if rng.random() < 0.5:
            made["y"] = rng.choice([{"z": rng.randrange(4)}, 7])
        return made

    def _changed(self, content: dict[str, Any]) -> dict[str, Any]:
        rng, changed = self.rng, dict(content)
        changed[rng.choice(["x", "w", "v"])] = rng.randrange(100)
        if isinstance(changed.get("y"), dict) and rng.random() < 0.5:
            changed["y"] = {"z": rng.randrange(4), "more": 1}
        return changed


@pytest.mark.parametrize("seed", range(12))
def test_random_writes_applied_together_leave_the_same_bytes_as_one_by_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    together: list[int] = []
    carry_out = apply.carry_out
    monkeypatch.setattr(
        apply, "carry_out", lambda unit, coll, run: carry_out(unit, coll, run) and (together.append(run.op) or True)
    )
    writer = _Writer(seed)
    for _ in range(60):
        writer.write()
    single, follower = store_on(), store_on()
    heard: list[Commit] = []
    follow(writer.store, single)
    follower.subscribe(heard.append)
    follow_in_units(writer.store, follower, 1000)
    assert set(together) == {*b"iud"}
    assert state_of(follower) == state_of(single)
    check(follower)
    for lsid in _SESSIONS:
        ours, theirs = follower.sessions.state(lsid), single.sessions.state(lsid)
        assert (ours.txn_number, ours.last, ours.row) == (theirs.txn_number, theirs.last, theirs.row)
        for statement in range(100):
            found = [store.sessions.statement(lsid, theirs.txn_number, statement) for store in (follower, single)]
            assert found[0] == found[1], (lsid, statement)
    log = entries(writer.store)
    changes = sum(len(each) for _, each in heard)
    assert changes >= sum(bson.decode(entry)["op"] in ("i", "u", "d") for entry in log)
    for place in range(len(log) - 2, 10, -37):
        for store in (single, follower):
            roll_back(store, entry_optime(log[place]))
        assert state_of(follower) == state_of(single)


def _runs(store: Store) -> list[tuple[str, int]]:
    """(letter, number of entries) of what is taken together of a store's log."""
    log, at, found = entries(store), 0, list[tuple[str, int]]()
    while at < len(log):
        run = entry_run(log, at, len(log), 128)
        if run is not None:
            found.append((chr(run.op), len(run.entries)))
        at += 1 if run is None else len(run.entries)
    return found


def test_what_goes_together_is_of_one_kind_one_collection_and_one_term() -> None:
    store = store_on()
    one, other = make(store, "db.one"), make(store, "db.other")
    insert(store, one, doc(1), doc(2))
    insert(store, other, doc(1), doc(2), doc(3))
    update(store, other, doc(1, a=1))
    remove(store, other, 2)
    remove(store, other, 3)
    assert store.oplog is not None
    store.oplog.term = 2
    remove(store, other, 1)
    with store.unit(from_migrate=True) as unit:
        unit.insert(one, doc(9))
        unit.commit()
    assert _runs(store) == [("i", 2), ("i", 3), ("u", 1), ("d", 2), ("d", 1)]


def test_no_more_go_together_than_are_asked_for() -> None:
    store = store_on()
    coll = make(store, "db.c")
    insert(store, coll, *map(doc, range(5)))
    log = entries(store)[1:]
    run, rest = entry_run(log, 0, 5, 3), entry_run(log, 3, 4, 3)
    assert run is not None
    assert rest is not None
    assert (len(run.entries), len(rest.entries)) == (3, 1)


@pytest.mark.parametrize("damage", [b"", b"\x05\0\0\0\0", bson.encode({"op": "i"}), bson.encode({"op": 1, "o": {}})])
def test_what_is_no_entry_of_a_document_goes_with_none(damage: bytes) -> None:
    if damage:
        assert entry_run([damage], 0, 1, 9) is None
    else:
        assert entry_run([], 0, 0, 9) is None


@pytest.mark.parametrize("kind", ["insert", "update", "remove"])
def test_entries_together_of_which_one_does_not_fit_have_no_effect(kind: str) -> None:
    leader, follower = store_on(), store_on()
    coll = make(leader, "db.c", *map(doc, range(6)))
    follow(leader, follower)
    own = follower.collection("db.c")
    assert own is not None
    for identity in range(3):
        if kind == "insert":
            insert(leader, coll, doc(10 + identity))
        elif kind == "update":
            update(leader, coll, doc(identity, a=1))
        else:
            remove(leader, coll, identity)
    with follower.unit() as unit:
        if kind == "insert":
            unit.insert(own, doc(12))
        else:
            found = own.by_id(unit, from_python(2))
            assert found is not None
            unit.remove(own, *found)
        unit.commit()
    before = rows(follower)
    log = entries(leader)[-3:]
    # They stand behind what the follower has written by itself.
    for place, entry in enumerate(log):
        decoded = bson.decode(entry)
        decoded["ts"] = bson.Timestamp((follower.last_optime.timestamp >> 32) + 10, place + 1)
        log[place] = bson.encode(decoded)
    with EntryUnit(follower) as unit, pytest.raises(CommandError if kind == "insert" else ApplyError):
        unit.apply_next(log, 0, 3)
    assert rows(follower) == before
    check(follower)


def test_documents_that_are_kept_as_they_were_go_one_by_one() -> None:
    leader, single, follower = store_on(), store_on(), store_on()
    coll = make(leader, "db.c", *map(doc, range(4)))
    follow(leader, single)
    follow(leader, follower)
    for store in (leader, single, follower):
        kept = store.collection("db.c")
        assert kept is not None
        kept.options = replace(kept.options, pre_images=True)
    update(leader, coll, doc(1, a=1))
    remove(leader, coll, 2)
    for entry in entries(leader, single.last_optime.timestamp):
        apply_entry(single, entry)
    follow_in_units(leader, follower, 10)
    assert state_of(follower) == state_of(single)
    kept_rows = follower.engine.keys(Family.META, PRE_IMAGE_PREFIX, after_prefix(PRE_IMAGE_PREFIX))
    assert len(list(kept_rows)) == 2


@pytest.mark.parametrize(
    ("o", "names"),
    [
        ({"_id": 1, "a": 1}, None),
        ({"$v": 2, "diff": {"u": {"a": 1, "b": 2}, "i": {"c": 3}}}, {b"a", b"b", b"c"}),
        ({"$v": 2, "diff": {"d": {"gone": False}, "sinner": {"u": {"x": 1}}}}, {b"gone", b"inner"}),
        ({"$v": 2, "diff": {}}, set()),
        ({"diff": {"u": {"a": 1}}}, None),
    ],
)
def test_which_fields_a_change_touches(o: dict[str, Any], names: set[bytes] | None) -> None:
    assert changed_names(bson.encode(o)) == names
