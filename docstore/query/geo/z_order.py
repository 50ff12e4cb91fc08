"""The Z-order curve: the bits of two numbers taken in turn, so that each quarter of a square is one range of it."""

from __future__ import annotations

_SPREADING = (
    (16, 0x0000FFFF0000FFFF),
    (8, 0x00FF00FF00FF00FF),
    (4, 0x0F0F0F0F0F0F0F0F),
    (2, 0x3333333333333333),
    (1, 0x5555555555555555),
)


def _spread(number: int) -> int:
    """The bits of a number of 32 bits with a zero in front of each."""
    for shift, mask in _SPREADING:
        number = (number | number << shift) & mask
    return number


def interleaved(x: int, y: int) -> int:
    """The place of (x, y) on the curve; both have at most 32 bits, and x the higher bit of each pair."""
    return _spread(x) << 1 | _spread(y)
