"""Aggregates of numbers: exact sums, and no value that takes all the time or memory there is."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest

from docstore.widecolumn.cql.errors import CqlError
from docstore.widecolumn.cql.plan.aggregates import find_aggregate
from docstore.widecolumn.cql.types.native import DECIMAL, INT, MAX_NUMBER_BYTES, VARINT
from docstore.widecolumn.model.errors import MarshalError
from tests.unit.widecolumn.cql.running import Cql


def test_decimals_are_added_exactly() -> None:
    cql = Cql()
    cql.run("CREATE TABLE t (a int PRIMARY KEY, d decimal, n varint, i int)")
    for key, number in enumerate(("123456789012345678901234567890.123", "0.877", "1E-40")):
        cql.run(f"INSERT INTO t (a, d) VALUES ({key}, {number})")
    [(found,)] = cql.rows("SELECT sum(d) FROM t WHERE a IN (0, 1)")
    assert found == Decimal("123456789012345678901234567891")
    [(found,)] = cql.rows("SELECT sum(d) FROM t")
    assert str(found) == "123456789012345678901234567891." + "0" * 39 + "1"
    assert cql.rows("SELECT avg(d) FROM t WHERE a = 0") == [(Decimal("123456789012345678901234567890.123"),)]


@pytest.mark.parametrize("scale", [-(1 << 31), (1 << 31) - 1])
def test_no_decimal_is_too_large_to_answer(scale: int) -> None:
    """A scale of four bytes stands for numbers of two thousand million digits."""
    far, near = (struct.pack(">i", number) + b"\1" for number in (scale, 0))
    state = None
    for value in (far, near):
        aggregate = find_aggregate("max", DECIMAL)
        assert aggregate is not None
        state = aggregate.add(state, value)
    assert state == (far if scale < 0 else near)
    assert len(DECIMAL.format(far)) < 20
    total = find_aggregate("sum", DECIMAL)
    assert total is not None
    assert total.finish(total.add(None, far)) == far
    with pytest.raises(CqlError, match="more than 100000 digits"):
        total.add(total.add(None, far), near)
    long = near[:4] + b"\x7f" * (MAX_NUMBER_BYTES - 4)
    DECIMAL.validate(long)
    assert total.finish(total.add(total.add(None, long), near)) == long[:-1] + b"\x80"
    for kind, data in ((DECIMAL, long + b"1"), (VARINT, bytes(MAX_NUMBER_BYTES + 1))):
        with pytest.raises(MarshalError, match="has at most 8192 bytes"):
            kind.validate(data)


def test_empty_values_are_left_out_of_sums() -> None:
    for kind in (INT, DECIMAL, VARINT):
        for name in ("sum", "avg", "min", "max"):
            aggregate = find_aggregate(name, kind)
            assert aggregate is not None
            state = aggregate.add(aggregate.add(None, b""), kind.serialise(3))
            assert aggregate.finish(state) == (b"" if name == "min" else kind.serialise(3))
