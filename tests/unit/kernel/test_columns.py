"""Names, records and columns of rows in the kernel, against `docstore.widecolumn.model`, which knows all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from docstore.bson import BOOL, INT32, OBJECT, STRING, Value, document_from
from docstore.errors import CommandError
from docstore.sharding.partitioners import murmur3_token
from docstore.widecolumn.model.cells import (
    NOT_DELETED,
    Cell,
    Deletion,
    merge_cells,
    pack_cell,
    pack_deletion,
    stamp_of,
    tombstone,
    value_cell,
)
from docstore.widecolumn.model.column_families import ColumnFamily
from docstore.widecolumn.model.comparators import ASCII, BYTES, LONG, TIME_UUID, UTF8, Comparator
from docstore.widecolumn.model.mutations import Entry, merge_alike, merged_record
from docstore.widecolumn.model.replies import ReplyForm
from docstore.widecolumn.model.slices import Column
from docstore.widecolumn.model.values import binary_value, long_value, name_bytes, partition_key_of, string_value
from tests.unit.kernel.kernels import Kernel

NOW = 1_000
FAMILY = object()
LOWEST = -(1 << 63)
KINDS: dict[str, Comparator] = {
    "PLAIN_NAMES": BYTES, "TEXT_NAMES": UTF8, "ASCII_NAMES": ASCII, "LONG_NAMES": LONG, "TIME_UUID_NAMES": TIME_UUID,
}  # fmt: skip
TIMES = bytes.fromhex("537fd2008b9411de8000010203040506")


def int_value(number: int) -> Value:
    return INT32, number.to_bytes(4, "little", signed=True)


NAMES: tuple[Value, ...] = (
    string_value(b""), string_value(b"a"), string_value(b"a\0b\0\0"), string_value("\u00e9\U00010000".encode()),
    binary_value(b""), binary_value(b"\0\xff\0\1"), binary_value(b"\xff"), binary_value(b"12345678"),
    binary_value(b"x" * 65535), binary_value(b"x" * 65536), long_value(0), long_value(-1), long_value(LOWEST),
    long_value((1 << 63) - 1), int_value(0), int_value(-5), int_value((1 << 31) - 1), binary_value(TIMES, 4),
    binary_value(TIMES), binary_value(TIMES, 3), binary_value(TIMES, 5), binary_value(b"\0" * 16, 4), (BOOL, b"\1"),
    string_value(b"537fd200-8b94-11de-8000-010203040506"),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_names_stand_in_keys_as_their_comparator_has_them(kernel: Kernel, kind: str) -> None:
    form = kernel.columns.encoding.ColumnForm(getattr(kernel.columns.encoding, kind))
    comparator = KINDS[kind]
    known = 0
    for value in NAMES:
        encoded = form.encode(*value)
        if encoded is not None:
            known += 1
            assert encoded == comparator.encode(name_bytes(comparator, value))
    assert known >= 2


def test_what_must_be_judged_is_left_to_others(kernel: Kernel) -> None:
    for kind, comparator in KINDS.items():
        form = kernel.columns.encoding.ColumnForm(getattr(kernel.columns.encoding, kind))
        for value in NAMES:
            try:
                name_bytes(comparator, value)
            except CommandError:
                assert form.encode(*value) is None


def test_keys_of_rows_are_those_of_the_partitioner(kernel: Kernel) -> None:
    rng = random.Random(1)
    for length in (*range(1, 70), 65535):
        key = rng.randbytes(length)
        expected = kernel.columns.murmur3.murmur3_place(key) + kernel.columns.encoding.escape(key)
        assert kernel.columns.encoding.plain_row(*binary_value(key)) == expected
        assert kernel.columns.murmur3.murmur3_token(key) == int.from_bytes(expected[:8], "big") + LOWEST
    for value in (string_value(b""), binary_value(b"x" * 65536), long_value(1)):
        assert kernel.columns.encoding.plain_row(*value) is None
        with pytest.raises(CommandError):
            partition_key_of(value)


def test_both_kernels_have_the_same_tokens(kernel: Kernel) -> None:
    rng = random.Random(2)
    for _ in range(500):
        key = rng.randbytes(rng.randrange(80))
        assert kernel.columns.murmur3.murmur3_token(key) == murmur3_token(key)


def test_records_of_values(kernel: Kernel) -> None:
    for value in (string_value(b"abc"), binary_value(b"\0\1", 7), string_value(b"")):
        content = value[1][4:-1] if value[0] == STRING else value[1][5:]
        for stamp in (0, -1, LOWEST, (1 << 63) - 1):
            record = pack_cell(value_cell(content, stamp))
            assert kernel.columns.encoding.plain_record(*value, stamp_of(stamp), 3) == record
    assert kernel.columns.encoding.plain_record(*string_value(b"abcd"), stamp_of(0), 3) is None
    assert kernel.columns.encoding.plain_record(*long_value(1), stamp_of(0), 100) is None


def some_cell(rng: random.Random) -> Cell:
    stamp = rng.choice((LOWEST, -1, 0, 1, 2, 1 << 40))
    if rng.random() < 0.2:
        return tombstone(stamp, NOW)
    content = rng.choice((b"", b"a", b"\xff\0", "\u00e9".encode(), b"x" * 40))
    return value_cell(content, stamp, ttl=rng.choice((0, 0, 1, 50)), now=NOW - rng.choice((0, 1, 60)))


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_those_of_the_general_form(kernel: Kernel, kind: str, as_text: bool) -> None:
    rng = random.Random(3)
    comparator = KINDS[kind]
    form = kernel.columns.encoding.ColumnForm(getattr(kernel.columns.encoding, kind), as_text)
    general = ReplyForm(ColumnFamily(name="f", comparator=comparator), NOW, as_text=as_text)
    names = [name for value in NAMES if form.encode(*value) and (name := name_bytes(comparator, value))]
    for name in names:
        for _ in range(10):
            cell = some_cell(rng)
            if cell.is_live(NOW):
                record = pack_cell(cell)
                [expected] = general.columns([Column(name, record)], comparator)
                assert form.document(b"before" + comparator.encode(name), 6, record, NOW) == expected


def test_a_slice_takes_live_columns_and_counts_the_dead(kernel: Kernel) -> None:
    rng = random.Random(4)
    form = kernel.columns.encoding.ColumnForm(kernel.columns.encoding.LONG_NAMES)
    for _ in range(300):
        cells = [some_cell(rng) for _ in range(rng.randrange(12))]
        items = [(b"k" + LONG.encode(bytes(7) + bytes((n,))), pack_cell(cell)) for n, cell in enumerate(cells)]
        deletion = rng.choice((NOT_DELETED, Deletion(rng.choice((LOWEST, 0, 1)), NOW)))
        hidden = None if deletion is NOT_DELETED else deletion.timestamp
        limit, most = rng.randrange(6), rng.randrange(1, 8)
        live = [
            cell.is_live(NOW) and (cell.timestamp > deletion.timestamp or (hidden is None and not cell.flags))
            for cell in cells
        ]  # fmt: skip
        expected: list[bytes] = []
        for (key, record), lives in zip(items, live, strict=True):
            if lives and len(expected) < limit:
                expected.append(form.document(key, 1, record, NOW))
        out: list[bytes] = []
        source, looked_at, dead, ended = iter(items), 0, 0, False
        while not ended:
            before = len(out)
            examined, found_dead, ended = kernel.columns.encoding.take_columns(
                form, source, 1, hidden, NOW, out, limit, most
            )
            assert examined <= most
            assert examined == len(out) - before + found_dead
            looked_at += examined
            dead += found_dead
        assert out == expected
        assert dead == live[:looked_at].count(False)
        assert looked_at == len(items) or len(out) == limit


def some_entries(rng: random.Random) -> list[Entry]:
    entries: dict[bytes, Entry] = {}
    for _ in range(rng.randrange(1, 6)):
        name = bytes((rng.randrange(3),))
        paths = ((b"\x20" + name, 2), (b"\x20" + name + b"\1" + name, 2), (b"\x08" + name, 0))
        path, named = rng.choice(paths)
        entries[path] = Entry(path, pack_cell(some_cell(rng)), named)
    if rng.random() < 0.3:
        entries[b"\0"] = Entry(b"\0", pack_deletion(Deletion(rng.randrange(3), NOW)))
    return list(entries.values())


def getter(store: dict[bytes, bytes]) -> Callable[[object, bytes], bytes | None]:
    def get(family: object, key: bytes) -> bytes | None:
        assert family is FAMILY
        return store.get(key)

    return get


def statistics(rows: int, size: int) -> bytes:
    return b"\x40" + stamp_of(rows) + stamp_of(size)


def test_merges_into_a_row_change_what_they_must(kernel: Kernel) -> None:
    rng = random.Random(5)
    prefix, row = b"Wabcd", b"the row"
    for _ in range(60):
        store: dict[bytes, bytes] = {}
        rows = 0
        for _ in range(8):
            entries = some_entries(rng)
            pending: dict[bytes, bytes | None] = {}
            before = dict(store)
            update = kernel.columns.mutations.RowUpdate(prefix, row, pending, getter(store), FAMILY)

            def is_named(name: bytes, before: dict[bytes, bytes] = before) -> bool:
                return any(key.startswith(name) for key in before)

            update.merge(entries, merge_alike, is_named)
            counted: set[bytes] = set()
            for path, record, named in entries:
                key = prefix + row + path
                standing = before.get(key)
                merged = merged_record(standing, record)
                if merged != standing:
                    assert update.keys[key] == merged
                    assert (key, standing) in update.previous
                else:
                    assert key not in update.keys
                alive = not merged[0] & 1
                if named == len(path):
                    rows += alive - (standing is not None and not standing[0] & 1)
                elif named and standing is None and path[:named] not in counted:
                    counted.add(path[:named])
                    rows += alive and not is_named(prefix + row + path[:named])
            assert len(update.previous) == len(update.keys)
            rows = max(rows, 0)
            store.update(update.keys)
            cells = {key: record for key, record in store.items() if key != prefix + row + b"\4"}
            size = sum(len(key) - len(prefix + row) + len(record) for key, record in cells.items())
            assert store[prefix + row + b"\4"] == statistics(rows, size)
            assert update.added == len(store) - len(before) - (not before)
            old = {key: record for key, record in before.items() if key != prefix + row + b"\4"}
            grown = sum(map(len, [*cells, *cells.values()])) - sum(map(len, [*old, *old.values()]))
            assert update.size == grown - update.added * len(prefix)


def test_removals_take_what_stands_as_it_was_seen(kernel: Kernel) -> None:
    prefix, row = b"Wabcd", b"row"
    store = {
        prefix + row + b"\x20a": b"\0" + bytes(8), prefix + row + b"\x20b": b"\0" + bytes(7) + b"\1",
        prefix + row + b"\4": statistics(2, 2 * 11),
    }  # fmt: skip
    update = kernel.columns.mutations.RowUpdate(prefix, row, {}, getter(store), FAMILY)
    update.remove([(b"\x20a", b"\0" + bytes(8)), (b"\x20b", b"\0" + bytes(8)), (b"\x20c", b"")], 1)
    assert update.keys == {prefix + row + b"\x20a": None, prefix + row + b"\4": statistics(1, 11)}
    assert (update.added, update.size) == (-1, -11 - len(row))
    store.pop(prefix + row + b"\x20a")
    store[prefix + row + b"\4"] = statistics(1, 11)
    update = kernel.columns.mutations.RowUpdate(prefix, row, {}, getter(store), FAMILY)
    update.remove([(b"\x20b", b"\0" + bytes(7) + b"\1")], 0)
    assert update.keys == {prefix + row + b"\x20b": None, prefix + row + b"\4": None}


def test_what_a_unit_has_changed_counts_as_standing(kernel: Kernel) -> None:
    record = pack_cell(value_cell(b"v", 5))
    pending: dict[bytes, bytes | None] = {b"Pr\x20a": record, b"Pr\x20b": None}
    stored = {b"Pr\x20b": record}
    update = kernel.columns.mutations.RowUpdate(b"P", b"r", pending, getter(stored), FAMILY)
    update.merge([(b"\x20a", record, 2), (b"\x20b", record, 2)], merge_alike, lambda _: False)
    assert b"Pr\x20a" not in update.keys
    assert update.keys[b"Pr\x20b"] == record


def test_timestamps_decide_and_else_the_rules_of_cells(kernel: Kernel) -> None:
    rng = random.Random(6)
    for _ in range(2000):
        one, other = some_cell(rng), some_cell(rng)
        expected = pack_cell(merge_cells(one, other))
        assert kernel.columns.mutations.merged(pack_cell(one), pack_cell(other), merge_alike) == expected


def document(fields: list[tuple[str, Value]]) -> bytes:
    return document_from((name, *value) for name, value in fields)


def object_value(fields: list[tuple[str, Value]]) -> Value:
    return OBJECT, document(fields)


def mutation(*, key: Value, name: Value, value: Value, more: Any = (), inside: Any = ()) -> bytes:
    insert = object_value([("value", value), *inside, ("name", name)])
    return document([("insert", insert), ("key", key), *more, ("columnFamily", string_value(b"F"))])


def test_plain_mutations_are_gathered_by_row(kernel: Kernel) -> None:
    forms = {string_value(b"F")[1]: kernel.columns.encoding.ColumnForm(kernel.columns.encoding.LONG_NAMES)}
    text = string_value(b"v")
    plain = [
        mutation(key=string_value(b"k"), name=long_value(2), value=text),
        mutation(key=binary_value(b"l"), name=int_value(1), value=text, inside=[("timestamp", long_value(-7))]),
        mutation(key=string_value(b"k"), name=long_value(2), value=text, inside=[("timestamp", long_value(9))]),
        mutation(key=string_value(b"k"), name=long_value(1), value=binary_value(b"w", 5)),
    ]  # fmt: skip
    odd = [
        mutation(key=string_value(b"k"), name=long_value(2), value=long_value(1)),
        mutation(key=string_value(b""), name=long_value(2), value=text),
        mutation(key=string_value(b"k"), name=text, value=text),
        mutation(key=string_value(b"k"), name=long_value(2), value=string_value(b"long")),
        mutation(key=string_value(b"k"), name=long_value(2), value=text, inside=[("ttl", int_value(1))]),
        mutation(key=string_value(b"k"), name=long_value(2), value=text, inside=[("timestamp", int_value(1))]),
        mutation(key=string_value(b"k"), name=long_value(2), value=text, more=[("deletion", object_value([]))]),
        mutation(key=string_value(b"k"), name=long_value(2), value=text, more=[("key", text)]),
        document([("columnFamily", string_value(b"F")), ("key", text)]),
        document([("insert", object_value([])), ("columnFamily", string_value(b"F")), ("key", text)]),
        document([]),
    ]
    for position, other in enumerate(odd):
        mutations = [*plain, other]
        rows: dict[tuple[bytes, bytes], dict[bytes, Entry]] = {}
        taken = kernel.columns.mutations.take_mutations(
            mutations, 0, len(mutations), forms, rows, Entry, merge_alike, stamp_of(5), 3
        )
        assert taken == len(plain), position
    family = string_value(b"F")[1]
    two, one = (b"\x20" + LONG.encode(bytes(7) + bytes((n,))) for n in (2, 1))
    assert list(rows) == [(family, b"k"), (family, b"l")]
    assert list(rows[family, b"k"].values()) == [
        Entry(two, pack_cell(value_cell(b"v", 9)), len(two)), Entry(one, pack_cell(value_cell(b"w", 5)), len(one)),
    ]  # fmt: skip
    assert list(rows[family, b"l"].values()) == [Entry(one, pack_cell(value_cell(b"v", -7)), len(one))]
    assert kernel.columns.mutations.take_mutations(plain, 0, 4, {}, {}, Entry, merge_alike, stamp_of(5), 3) == 0
    assert kernel.columns.mutations.take_mutations(plain, 1, 3, forms, {}, Entry, merge_alike, stamp_of(5), 3) == 3
