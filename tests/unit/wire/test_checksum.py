"""CRC-32C: the standard's check value, and long messages folded rightly."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from docstore.wire.checksum import A, B, C, crc32c

P = 0x11EDC6F41


def remainder(exponents: list[int]) -> int:
    value, result = 1, 0
    for exponent in range(max(exponents) + 1):
        if exponent in exponents:
            result ^= value
        value <<= 1
        if value >> 32:
            value ^= P
    return result


def bit_by_bit(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_the_identity_behind_the_folding_holds() -> None:
    assert remainder([A, B, C, 0]) == 0


@given(st.integers(3_900, 20_000), st.integers(0, 2**32))
def test_long_messages_have_the_same_checksum_as_bit_by_bit(size, seed) -> None:
    data = random.Random(seed).randbytes(size)
    assert crc32c(data) == bit_by_bit(data)
    assert crc32c(memoryview(data)) == crc32c(data)
