from __future__ import annotations

import math

import pytest
from bson.decimal128 import Decimal128
from bson.int64 import Int64
from hypothesis import given
from hypothesis import strategies as st

from docstore.query.value.arithmetic import add, multiply, subtract
from docstore.query.value.summation import Summation
from tests.unit.query.raw import content, value

LONG = Int64(2**63 - 1)


@pytest.mark.parametrize(
    ("a", "b", "total"),
    [
        (1, 2, 3),
        (2**31 - 1, 1, Int64(2**31)),
        (Int64(1), 1, Int64(2)),
        (1, 0.5, 1.5),
        (0.1, Decimal128("1"), Decimal128("1.100000000000000")),
        (Decimal128("1.0"), 1, Decimal128("2.0")),
    ],
)
def test_the_wider_type_wins(a: object, b: object, total: object) -> None:
    assert add(value(a), value(b)) == value(total)


def test_a_long_overflows_to_nothing() -> None:
    assert add(value(LONG), value(1)) is None
    assert multiply(value(LONG), value(2)) is None
    assert subtract(value(Int64(-(2**63))), value(1)) is None


def total(*numbers: object) -> object:
    summation = Summation()
    for number in numbers:
        summation.add(value(number))
    return content(summation.result())


def test_sums_of_integers_are_exact_and_widen_when_they_must() -> None:
    assert total(1, 2) == 3
    assert total(2**31 - 1, 1) == 2**31
    assert total(LONG, 1, -1) == LONG
    assert total(LONG, 1) == float(2**63)


def test_sums_of_doubles_have_twice_the_precision() -> None:
    assert total(0.1, 0.2, 0.3) == 0.6
    assert total(1e100, 1.0, -1e100, 2.0) == 3.0
    assert total(Int64(2**53), 1.0, 1) == 2.0**53 + 2


def test_infinities_and_nan_carry_through() -> None:
    assert total(math.inf, 1.0) == math.inf
    assert math.isnan(total(math.inf, -math.inf))  # type: ignore[arg-type]


def test_a_decimal_makes_the_sum_a_decimal() -> None:
    assert total(0.5, Decimal128("0.1"), 1) == Decimal128("1.6")


def test_last_digits_are_those_of_the_real_server() -> None:
    """Its results, where rounding at the end alone would give others."""
    assert total(63.24, 0.4303622932571364, -31.0) == 32.67036229325714
    assert total(1e100, 1.0, -1e100) == 0.0
    assert total(496, 1.0, 43, -97.52, 440, Decimal128("-6.08")) == Decimal128("876.4000000000000039790393202565611")
    long = Int64(10944329497070401)
    assert total(long, 0.5059538196823609) == 1.0944329497070402e16
    exact = Decimal128("10944329497070401.50595381968236097")
    assert total(long, 0.5059538196823609, Decimal128("0")) == exact


@given(st.lists(st.integers(-(2**40), 2**40) | st.floats(-1e12, 1e12), max_size=20), st.integers(0, 20))
def test_parts_of_a_sum_merge_to_the_sum(numbers: list[int | float], cut: int) -> None:
    whole, left, right = Summation(), Summation(), Summation()
    for position, number in enumerate(numbers):
        item = value(Int64(number) if isinstance(number, int) else number)
        whole.add(item)
        (left if position < cut else right).add(item)

    left.merge_partial(right.partial())

    assert left.kind == whole.kind
    # Both sums round; what they lose goes by the size of the numbers, of which the sum may have little left.
    lost = 2.0**-52 * sum(map(abs, numbers))
    assert content(left.result()) == pytest.approx(content(whole.result()), rel=0, abs=lost)
