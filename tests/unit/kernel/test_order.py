from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from docstore.bson.build import array_from, document_from
from docstore.errors import Code, CommandError
from tests.unit.kernel.kernels import Kernel
from tests.unit.kernel.samples import (
    binary,
    decimal,
    document,
    double,
    int32,
    int64,
    number,
    regex,
    scoped,
    string,
    value,
)

SAME_KERNEL = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
EMPTY = document_from([])

ASCENDING = [
    (0xFF, b""),
    (0x06, b""),
    (0x0A, b""),
    double(float("nan")),
    double(float("-inf")),
    decimal("-9.999999999999999999999999999999999E+6144"),
    double(-1.7976931348623157e308),
    int64(-(2**63)),
    int32(-1),
    decimal("-0.1"),
    double(-5e-324),
    decimal("-1E-6176"),
    int32(0),
    decimal("1E-6176"),
    double(5e-324),
    decimal("0.1"),
    double(0.1),
    int32(1),
    double(1.5),
    double(9007199254740992.0),
    decimal("9007199254740992.5"),
    int64(9007199254740993),
    int64(2**63 - 1),
    double(9223372036854775808.0),
    double(1.7976931348623157e308),
    decimal("1.797693134862315708145274237317044E+308"),
    double(float("inf")),
    string(""),
    string("a"),
    string("a\0"),
    string("a\0b"),
    string("a\x01"),
    string("ab"),
    string("é"),
    (0x03, EMPTY),
    (0x03, document_from([("b", 0xFF, b"")])),
    (0x03, document_from([("b", *int32(1))])),
    (0x03, document_from([("b", *int32(1)), ("a", 0xFF, b"")])),
    (0x03, document_from([("c", *int32(0))])),
    (0x03, document_from([("a", *string(""))])),
    (0x04, EMPTY),
    (0x04, array_from([(0xFF, b"")])),
    (0x04, array_from([int32(1)])),
    (0x04, array_from([int32(1), int32(0)])),
    (0x04, array_from([int32(2)])),
    binary(b"\xff", 0),
    binary(b"\0", 5),
    binary(b"\0\0", 0),
    (0x07, bytes(12)),
    (0x07, b"\1" + bytes(11)),
    (0x08, b"\0"),
    (0x08, b"\1"),
    (0x09, b"\xff" * 8),
    (0x09, bytes(8)),
    (0x11, b"\xff\0\0\0\0\0\0\0"),
    (0x11, b"\0\0\0\0\1\0\0\0"),
    (0x11, b"\xff" * 8),
    regex("a", ""),
    regex("a", "i"),
    regex("b", ""),
    (0x0C, string("a")[1] + bytes(12)),
    string("a", 0x0D),
    scoped("a", EMPTY),
    scoped("a", document_from([("x", *int32(1))])),
    (0x7F, b""),
]
"""Values of every class, each less than the one behind it."""

seeds = st.integers(0, 2**32)


def test_values_of_all_classes_are_in_order(kernel: Kernel) -> None:
    for i, low in enumerate(ASCENDING):
        for j, high in enumerate(ASCENDING):
            expected = (i > j) - (i < j)
            assert kernel.compare(low, high) == expected, (low, high)
            low_key, high_key = kernel.encode_key(low), kernel.encode_key(high)
            assert (low_key > high_key) - (low_key < high_key) == expected, (low, high)


def test_equal_numbers_of_different_types_are_one_value(kernel: Kernel) -> None:
    groups = [
        [int32(0), int64(0), double(0.0), double(-0.0), decimal("0"), decimal("-0"), decimal("0E+3")],
        [int32(1), int64(1), double(1.0), decimal("1"), decimal("1.00")],
        [int64(2**53), double(2.0**53), decimal("9007199254740992")],
        [int64(2**63 - 1), decimal("9223372036854775807")],
        [double(-(2.0**63)), int64(-(2**63)), decimal("-9223372036854775808")],
        [double(float("inf")), decimal("Infinity")],
        [double(float("nan")), decimal("NaN"), (0x01, b"\1\0\0\0\0\0\xf8\xff")],
        [double(0.5), decimal("0.50")],
        [string("a"), string("a", 0x0E)],
    ]
    for group in groups:
        assert {kernel.compare(one, other) for one in group for other in group} == {0}
        assert len({kernel.encode_key(one) for one in group}) == 1


@SAME_KERNEL
@given(seed=seeds)
def test_keys_order_as_values_compare(kernel: Kernel, seed: int) -> None:
    rnd = Random(seed)
    for make in (value, number):
        one, other = make(rnd), make(rnd)
        one_key, other_key = kernel.encode_key(one), kernel.encode_key(other)
        order = kernel.compare(one, other)
        assert kernel.compare(other, one) == -order
        assert (one_key > other_key) - (one_key < other_key) == order


@SAME_KERNEL
@given(seed=seeds)
def test_comparison_is_transitive(kernel: Kernel, seed: int) -> None:
    rnd = Random(seed)
    one, two, three = (value(rnd) for _ in range(3))
    if kernel.compare(one, two) <= 0 and kernel.compare(two, three) <= 0:
        assert kernel.compare(one, three) <= 0


@SAME_KERNEL
@given(seed=seeds)
def test_documents_compare_as_values_do(kernel: Kernel, seed: int) -> None:
    rnd = Random(seed)
    one, other = document(rnd), document(rnd)
    assert kernel.compare_documents(one, other) == kernel.compare((0x03, one), (0x03, other))


def test_names_of_array_members_do_not_matter(kernel: Kernel) -> None:
    odd = document_from([("x", *int32(1)), ("x", *int32(2))])
    usual = array_from([int32(1), int32(2)])
    assert kernel.compare((0x04, odd), (0x04, usual)) == 0
    assert kernel.encode_key((0x04, odd)) == kernel.encode_key((0x04, usual))


def test_type_classes_tell_what_comparison_operators_compare(kernel: Kernel) -> None:
    assert kernel.type_class(0x10) == kernel.type_class(0x01) == kernel.type_class(0x12) == kernel.type_class(0x13)
    assert kernel.type_class(0x02) == kernel.type_class(0x0E) != kernel.type_class(0x0D)
    assert kernel.type_class(0x0A) != kernel.type_class(0x06)


def test_documents_nested_beyond_all_bounds_are_refused_before_the_stack_ends(kernel: Kernel) -> None:
    levels = 100_000
    raw = b"".join((8 * (levels - level) + 5).to_bytes(4, "little") + b"\x04a\0" for level in range(levels))
    raw += EMPTY + bytes(levels)
    deep = (0x03, raw)
    for act in (
        lambda: kernel.compare(deep, deep),
        lambda: kernel.encode_key(deep),
        lambda: kernel.In("a", [deep]),
        lambda: kernel.KeyPattern([("a", 1)]).keys(kernel.document_from([("a", *deep)])),
        lambda: kernel.Compare("a", "gt", deep).matches(kernel.document_from([("a", *deep)])),
    ):
        with pytest.raises(CommandError) as refused:
            act()
        assert refused.value.code == Code.Overflow
