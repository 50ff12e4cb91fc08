"""The Z-order curve: the interleaved bits of two numbers, so that each quarter of a square is one range of it."""

from __future__ import annotations

from collections.abc import Iterable

import cython

_HALF: cython.ulonglong = 0x00000000FFFFFFFF
_SIXTEENS: cython.ulonglong = 0x0000FFFF0000FFFF
_EIGHTS: cython.ulonglong = 0x00FF00FF00FF00FF
_FOURS: cython.ulonglong = 0x0F0F0F0F0F0F0F0F
_TWOS: cython.ulonglong = 0x3333333333333333
_ONES: cython.ulonglong = 0x5555555555555555
"""Masks of alternating runs of bits of a 64-bit word. As literals such numbers would be objects."""


@cython.ccall
def interleaved(x: cython.ulonglong, y: cython.ulonglong) -> cython.ulonglong:
    """Return the position of (x, y) on the curve; both have at most 32 bits, and x the higher bit of each pair."""
    return spread(x) << 1 | spread(y)


@cython.exceptval(check=False)
def spread(number: cython.ulonglong) -> cython.ulonglong:
    """Return the bits of a 32-bit number with a zero in front of each."""
    number = (number | number << 16) & _SIXTEENS
    number = (number | number << 8) & _EIGHTS
    number = (number | number << 4) & _FOURS
    number = (number | number << 2) & _TWOS
    return (number | number << 1) & _ONES


@cython.exceptval(check=False)
def gathered(number: cython.ulonglong) -> cython.ulonglong:
    """Return the number whose bits `spread` has spread; the other bits are ignored."""
    number = number & _ONES
    number = (number | number >> 1) & _TWOS
    number = (number | number >> 2) & _FOURS
    number = (number | number >> 4) & _EIGHTS
    number = (number | number >> 8) & _SIXTEENS
    return (number | number >> 16) & _HALF


@cython.exceptval(check=False)
def number_at(raw: bytes, at: cython.Py_ssize_t) -> cython.ulonglong:
    """Return the big-endian number of 8 bytes."""
    number: cython.ulonglong = 0
    step: cython.Py_ssize_t
    for step in range(8):
        number = number << 8 | raw[at + step]
    return number


def put_number(buffer: bytearray, at: cython.Py_ssize_t, number: cython.ulonglong) -> None:
    """Write a number as `number_at` reads it."""
    step: cython.Py_ssize_t
    for step in range(8):
        buffer[at + 7 - step] = number & 0xFF
        number >>= 8


def start_of(buffer: bytearray, size: cython.Py_ssize_t) -> bytes:
    """Return the first bytes of a buffer."""
    if cython.compiled:
        return cython.cast(cython.p_char, buffer)[:size]  # type: ignore[index, return-value]
    return bytes(buffer[:size])


def cut_behind(buffer: bytearray, size: cython.Py_ssize_t) -> bytes:
    """Return the least bytes after everything that begins with the first `size` bytes of a buffer. The call changes the
    buffer. Not all of these bytes may be 0xff.
    """
    while buffer[size - 1] == 0xFF:
        size -= 1
    buffer[size - 1] += 1
    return start_of(buffer, size)


@cython.cfunc
def merged(ranges: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the key ranges, all of one key length, in order, with touching ones joined."""
    pair: tuple[bytes, bytes]
    last: tuple[bytes, bytes]
    merged_ranges: list[tuple[bytes, bytes]] = []
    for pair in sorted(ranges):
        if merged_ranges:
            last = merged_ranges[len(merged_ranges) - 1]
            # No key lies between a key and its prefix without trailing zeros.
            if pair[0].rstrip(b"\0") <= last[1]:
                if pair[1] > last[1]:
                    merged_ranges[len(merged_ranges) - 1] = (last[0], pair[1])
                continue
        merged_ranges.append(pair)
    return merged_ranges
