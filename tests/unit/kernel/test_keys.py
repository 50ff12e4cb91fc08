from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import TEXTS, decimal, double, int32, int64, string, value
from tests.unit.kernel.test_order import SAME_KERNEL

seeds = st.integers(0, 2**32)


@SAME_KERNEL
@given(seed=seeds)
def test_descending_keys_order_the_other_way(kernel: Kernel, seed: int) -> None:
    rnd = Random(seed)
    one, other = value(rnd), value(rnd)
    one_key, other_key = kernel.encode_key(one, True), kernel.encode_key(other, True)
    assert (one_key < other_key) - (one_key > other_key) == kernel.compare(one, other)


@SAME_KERNEL
@given(seed=seeds)
def test_no_key_is_the_beginning_of_another(kernel: Kernel, seed: int) -> None:
    rnd = Random(seed)
    one, other = value(rnd), value(rnd)
    for descending in (False, True):
        one_key, other_key = kernel.encode_key(one, descending), kernel.encode_key(other, descending)
        assert one_key == other_key or not other_key.startswith(one_key)


@SAME_KERNEL
@given(seed=seeds)
def test_keys_one_behind_the_other_order_as_tuples_do(kernel: Kernel, seed: int) -> None:
    rnd = Random(seed)
    directions = [rnd.random() < 0.5 for _ in range(2)]
    first = value(rnd)
    rows = [(first if rnd.random() < 0.5 else value(rnd), value(rnd)) for _ in range(2)]
    keys = [b"".join(kernel.encode_key(*pair) for pair in zip(row, directions, strict=True)) for row in rows]
    expected = 0
    for position, descending in enumerate(directions):
        order = kernel.compare(rows[0][position], rows[1][position])
        if order:
            expected = -order if descending else order
            break
    assert (keys[0] > keys[1]) - (keys[0] < keys[1]) == expected


def test_texts_with_low_bytes_keep_their_order(kernel: Kernel) -> None:
    ordered = sorted(TEXTS, key=str.encode)
    assert sorted(TEXTS, key=lambda text: kernel.encode_key(string(text))) == ordered


def test_the_format_on_disk_has_not_changed(kernel: Kernel) -> None:
    """These bytes are in index files; a change of any of them needs a new format version."""
    document = kernel.document_from([("a", *int32(1)), ("b", *string("x"))])
    expected = {
        (0xFF, b""): "10",
        (0x06, b""): "18",
        (0x0A, b""): "20",
        double(float("nan")): "28",
        int32(0): "30",
        int32(1): "383ff000000000000000",
        double(-2.5): "2cbffbffffffffffffff",
        int64(2**53 + 1): "384340000000000000014000" + b"1".hex() + "00",
        decimal("0.5"): "383fe000000000000000",
        string("a\0b\1"): "406101016201" + "0200",
        (0x03, document): "4828" + "6100" + "383ff000000000000000" + "40" + "6200" + "407800" + "00",
        (0x04, kernel.array_from([(0x0A, b"")])): "502000",
        (0x05, b"\2\0\0\0\x80ab"): "580000000280" + b"ab".hex(),
        (0x07, b"abcdefghijkl"): "60" + b"abcdefghijkl".hex(),
        (0x08, b"\0"): "68",
        (0x08, b"\1"): "69",
        (0x09, b"\1\0\0\0\0\0\0\0"): "708000000000000001",
        (0x11, b"\1\0\0\0\2\0\0\0"): "780000000200000001",
        (0x0B, b"a\0i\0"): "8061006900",
        (0x0D, b"\2\0\0\0f\0"): "906600",
        (0x7F, b""): "f0",
    }
    for one, key in expected.items():
        assert kernel.encode_key(one).hex() == key, one
        assert kernel.encode_key(one, True) == bytes(byte ^ 0xFF for byte in kernel.encode_key(one))


def test_identity_key_is_the_prefix_and_the_key_of_the_id(kernel: Kernel) -> None:
    rnd = Random(12)
    for _ in range(300):
        identity = value(rnd, 2)
        raw = kernel.document_from([("a", *value(rnd, 1)), ("_id", *identity), ("_id", *value(rnd, 1))])
        assert kernel.identity_key(b"abcd", raw) == b"abcd" + kernel.encode_key(identity)
