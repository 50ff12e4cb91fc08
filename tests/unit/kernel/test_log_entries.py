"""Oplog entries and undo records as the kernel puts them together, taken apart by others."""

from __future__ import annotations

from random import Random
from typing import Any

import bson
import pytest
from bson.int64 import Int64
from bson.timestamp import Timestamp

from docstore.collection.oplog.entry import statement_field
from docstore.collection.oplog.sessions import pack_row
from docstore.collection.oplog.undo import NOTHING_COUNTED, Part, undo_counters, undo_keys
from docstore.key_layout import timestamp_key
from docstore.storage import DataCorrupted, Family
from tests.unit.kernel.kernels import Kernel

LARGE = b"x" * 100_000


def fields(**values: Any) -> bytes:
    """Encoded elements."""
    return bson.encode(values)[4:-1]


@pytest.mark.parametrize("term", [-1, 0, 7, 2**40])
@pytest.mark.parametrize("size", [0, 5000])
def test_an_entry_has_its_fields_in_the_order_of_the_format(kernel: Kernel, term: int, size: int) -> None:
    o = {"_id": 1, "a": "x" * size}
    stamp = (1_700_000_000 << 32) + 3

    entry = kernel.log.entries.build_entry(
        fields(op="i", ns="a.b"), bson.encode(o), fields(o2={"_id": 1}), stamp, term, 1_700_000_000_123,
        fields(prevOpTime={"ts": Timestamp(1, 2), "t": Int64(-1)}),
    )  # fmt: skip

    assert list(bson.decode(entry).items()) == [
        ("op", "i"), ("ns", "a.b"), ("o", o), ("o2", {"_id": 1}), ("ts", Timestamp(1_700_000_000, 3)), ("t", term),
        ("v", 2), ("wall", bson.DatetimeMS(1_700_000_000_123).as_datetime().replace(tzinfo=None)),
        ("prevOpTime", {"ts": Timestamp(1, 2), "t": -1}),
    ]  # fmt: skip


@pytest.mark.parametrize("image", [False, True])
def test_the_entry_of_a_statement_names_its_session_and_the_one_before(kernel: Kernel, image: bool) -> None:
    lsid = bytes(range(48))
    o = bson.encode({"_id": 1, "a": 2})
    more = {"preImageOpTime": {"ts": Timestamp(3, 4), "t": Int64(1)}} if image else {}

    entry = kernel.log.entries.build_statement(
        lsid, 7, fields(op="u", ns="a.b"), o, fields(o2={"_id": 1}), fields(stmtId=3), (5 << 32) + 6, 2,
        1_700_000_000_123, 0, -1, fields(**more),
    )  # fmt: skip

    session = {"id": bson.Binary(lsid[:16], 4), "uid": bson.Binary(lsid[16:], 0)}
    assert entry == bson.encode(
        {
            "lsid": session, "txnNumber": Int64(7), "op": "u", "ns": "a.b", "o": bson.decode(o), "o2": {"_id": 1},
            "stmtId": 3, "ts": Timestamp(5, 6), "t": Int64(2), "v": Int64(2),
            "wall": bson.DatetimeMS(1_700_000_000_123), "prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}, **more,
        }
    )  # fmt: skip
    assert kernel.log.entries.session_head(lsid, 7) == fields(lsid=session, txnNumber=Int64(7))


def test_an_optime_is_a_field(kernel: Kernel) -> None:
    for term in (-1, 3):
        made = kernel.log.entries.optime_field(b"prevOpTime", (5 << 32) + 6, term)
        assert made == fields(prevOpTime={"ts": Timestamp(5, 6), "t": Int64(term)})


@pytest.mark.parametrize("identity", [1, "x", bson.ObjectId(), {"a": [1, {}]}, b"z", None, "y" * 9000])
def test_the_identity_alone_is_a_document(kernel: Kernel, identity: Any) -> None:
    raw = bson.encode({"a": 1, "_id": identity, "b": {"_id": 2}})

    assert kernel.log.entries.id_document(raw) == bson.encode({"_id": identity})
    assert kernel.log.entries.id_document(raw, b"o2") == fields(o2={"_id": identity})


def test_undo_records_say_what_stood_there(kernel: Kernel) -> None:
    record = kernel.log.undo.undo_record(
        (7, -1, -(2**33)),
        [
            kernel.log.undo.undo_key(Family.RECORDS, b"key", LARGE),
            kernel.log.undo.undo_key(Family.META, b"", b""),
            kernel.log.undo.undo_absent(Family.INDEXES, (b"one", b"another")),
            kernel.log.undo.undo_absent(Family.INDEXES, ()),
            kernel.log.undo.undo_marked(Family.INDEXES, {b"old": b"mark", b"older": b""}.items()),
            kernel.log.undo.undo_key(Family.WIDE, LARGE, None),
            kernel.log.undo.undo_document(
                Family.RECORDS, b"rid", b"doc", None, Family.INDEXES, {b"gone": b"m"}, [b"made", b"too"]
            ),
            kernel.log.undo.undo_document(Family.RECORDS, b"new", None, b"new", Family.INDEXES, {}, (b"id",)),
        ],
    )

    assert list(undo_counters(record)) == [(7, -1, -(2**33))]
    assert kernel.log.undo.undo_record((0, 0, 0), []) == NOTHING_COUNTED
    assert list(undo_keys(record)) == [
        (Family.RECORDS, b"key", LARGE),
        (Family.META, b"", b""),
        (Family.INDEXES, b"one", None),
        (Family.INDEXES, b"another", None),
        (Family.INDEXES, b"old", b"mark"),
        (Family.INDEXES, b"older", b""),
        (Family.WIDE, LARGE, None),
        (Family.RECORDS, b"rid", b"doc"),
        (Family.INDEXES, b"gone", b"m"),
        (Family.INDEXES, b"made", None),
        (Family.INDEXES, b"too", None),
        (Family.RECORDS, b"new", None),
        (Family.INDEXES, b"id", None),
    ]


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("in_session", [False, True])
def test_many_inserts_are_logged_as_each_by_itself(kernel: Kernel, in_session: bool, named: bool) -> None:
    entries = kernel.log.entries
    documents = [bson.encode({"a": number, "_id": number}) for number in range(300)] + [
        bson.encode({"_id": "x" * 9000})
    ]
    o2 = [fields(o2={"k": 1, "_id": number}) for number in range(len(documents))] if named else None
    record_keys = [b"r%d" % number for number in range(len(documents))]
    made = [[b"i%d" % number, *([b"more"] * (number % 3))] for number in range(len(documents))]
    lsid, head, stamp, term, wall = bytes(range(48)), fields(op="i", ns="a.b"), (5 << 32) + 1, 3, 1_700_000_000_123
    row, previous = b"old row", (4 << 32, 2)
    stmt_ids = list(range(10, 10 + len(documents)))
    session = entries.SessionSteps(lsid, 7, stmt_ids, b"row", row, *previous) if in_session else None
    logged: dict[bytes, bytes | None] = {}
    undone: dict[bytes, bytes | None] = {}

    log = kernel.log.undo.LogBatch(logged, undone, (Family.RECORDS, Family.INDEXES, Family.META))
    changes = kernel.log.undo.DocumentChanges(documents, record_keys, documents, new_keys=made, named=o2)
    found = entries.document_entries(log, changes, head, 9, stamp, term, wall, session)

    for number, raw in enumerate(documents):
        key = timestamp_key(stamp + number)
        middle = entries.id_document(raw, b"o2") if o2 is None else o2[number]
        parts = [
            kernel.log.undo.undo_document(
                Family.RECORDS, record_keys[number], None, raw, Family.INDEXES, {}, made[number]
            )
        ]
        if in_session:
            statement = statement_field(10 + number)
            entry = entries.build_statement(
                lsid, 7, head, raw, middle, statement, stamp + number, term, wall, *previous, b""
            )
            parts.append(kernel.log.undo.undo_key(Family.META, b"row", row))
            row, previous = pack_row(7, term, stamp + number, wall), (stamp + number, term)
        else:
            entry = entries.build_entry(head, raw, middle, stamp + number, term, wall, b"")
        assert logged[key] == entry
        assert undone[key] == kernel.log.undo.undo_record((9, 1, len(raw)), parts)
    assert len(logged) == len(undone) == len(documents)
    sizes = [sum(len(each) for each in made_of.values() if each is not None) for made_of in (logged, undone)]
    assert found == tuple(sizes)
    assert session is None or session.row == row


def test_many_updates_are_logged_as_each_by_itself(kernel: Kernel) -> None:
    entries = kernel.log.entries
    before = [bson.encode({"_id": number, "a": "x" * number}) for number in range(100)]
    documents = [bson.encode({"_id": number, "a": "y" * (100 - number)}) for number in range(100)]
    operations = [bson.encode({"u": number}) for number in range(100)]
    record_keys = [b"r%d" % number for number in range(100)]
    logged: dict[bytes, bytes | None] = {}
    undone: dict[bytes, bytes | None] = {}

    log = kernel.log.undo.LogBatch(logged, undone, (Family.RECORDS, Family.INDEXES, Family.META))
    changes = kernel.log.undo.DocumentChanges(operations, record_keys, documents, before)
    entries.document_entries(log, changes, b"", 9, 1, -1, 2, None)

    for number, raw in enumerate(documents):
        o2 = entries.id_document(raw, b"o2")
        assert logged[timestamp_key(1 + number)] == entries.build_entry(
            b"", operations[number], o2, 1 + number, -1, 2, b""
        )
        parts = [kernel.log.undo.undo_key(Family.RECORDS, record_keys[number], before[number])]
        growth = len(raw) - len(before[number])
        assert undone[timestamp_key(1 + number)] == kernel.log.undo.undo_record((9, 0, growth), parts)


def test_many_deletes_are_logged_as_each_by_itself(kernel: Kernel) -> None:
    entries = kernel.log.entries
    before = [bson.encode({"a": "x" * number, "_id": number}) for number in range(100)]
    operations = [entries.id_document(raw) for raw in before]
    record_keys = [b"r%d" % number for number in range(100)]
    removed = [{b"i%d" % number: b"m" * (number % 3), b"id": b"rid"} for number in range(100)]
    logged: dict[bytes, bytes | None] = {}
    undone: dict[bytes, bytes | None] = {}

    log = kernel.log.undo.LogBatch(logged, undone, (Family.RECORDS, Family.INDEXES, Family.META))
    changes = kernel.log.undo.DocumentChanges(operations, record_keys, before=before, removed=removed)
    entries.document_entries(log, changes, b"", 9, 1, -1, 2, None)

    for number, raw in enumerate(before):
        o = bson.encode({"_id": number})
        assert logged[timestamp_key(1 + number)] == entries.build_entry(b"", o, b"", 1 + number, -1, 2, b"")
        parts = [kernel.log.undo.undo_document(
            Family.RECORDS, record_keys[number], raw, None, Family.INDEXES, removed[number], ()
        )]  # fmt: skip
        assert undone[timestamp_key(1 + number)] == kernel.log.undo.undo_record((9, -1, -len(raw)), parts)


def test_of_a_changed_document_an_undo_record_has_what_changed(kernel: Kernel) -> None:
    rng = Random(5)
    parts = 0
    for _ in range(2_000):
        before = bson.encode({"_id": 1, "a": rng.randbytes(rng.randrange(600)), "b": rng.choice([1, 2.5, None])})
        content = bytearray(before[4:])
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(content))
            content[at : at + rng.randrange(9)] = rng.randbytes(rng.randrange(9))
        after = (len(content) + 4).to_bytes(4, "little") + bytes(content)
        undo = kernel.log.undo.undo_document(Family.RECORDS, b"key", before, after, Family.INDEXES, {b"i": b"m"}, [])
        record = kernel.log.undo.undo_record((7, 0, len(after) - len(before)), [undo])
        (family, key, previous), index = undo_keys(record)
        assert (family, key, index) == (Family.RECORDS, b"key", (Family.INDEXES, b"i", b"m"))
        if isinstance(previous, Part):
            parts += 1
            assert len(previous.middle) + 64 <= len(before)
            with pytest.raises(DataCorrupted):
                previous.put_back(None)
            previous = previous.put_back(after)
        assert previous == before
    assert parts > 1_000
