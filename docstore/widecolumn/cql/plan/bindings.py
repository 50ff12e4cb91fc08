"""The inputs of one run of a prepared statement: values for its markers, the time, and random numbers.

A marker's value is the bytes of its type, None for null, or `UNSET`, which leaves the column alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.types.native import CqlType


class Unset(Enum):
    UNSET = "unset"


UNSET: Final = Unset.UNSET
Value = bytes | None
Bound = bytes | Unset | None

_GREGORIAN_TICKS = 0x01B21DD213814000
_MULTICAST = 0x01
_TICKS_TO_2010 = 1_262_304_000 * 10_000_000
_VARIANT = 0x80000000
_MAX_LIST_KEYS = 1 << 29
"""The middle of the numbers that tell apart the elements that one statement adds to lists."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A marker that waits for a value. `name`: of the column or, in brackets, of the clause it stands for."""

    position: int
    name: str
    type: CqlType
    marker: str | None = None
    """The name it was written with."""


@dataclass(slots=True)
class ExecutionTime:
    """The time of a statement's execution: `micros` since 1970, `seconds` for expiry; `rng`: random bytes. `nonce`:
    four of them that are the same when the request runs again.
    """

    micros: int
    seconds: int
    rng: Callable[[int], bytes]
    nonce: bytes = bytes(4)
    _issued: int = field(default=0, init=False)
    _appended: int = field(default=0, init=False)
    _prepended: int = field(default=_MAX_LIST_KEYS, init=False)
    _node: bytes = field(default=b"", init=False)

    def time_uuid(self) -> bytes:
        """A version 1 UUID of this moment that no other call gives."""
        if not self._node:
            drawn = bytearray(self.rng(8))
            drawn[0] = drawn[0] & 0x3F | 0x80
            drawn[2] |= _MULTICAST
            self._node = bytes(drawn)
        self._issued += 1
        return time_uuid_bytes(self.micros * 10 + self._issued - 1, self._node)

    def list_keys(self, count: int, *, prepended: bool) -> list[bytes]:
        """Version 1 UUIDs for new elements of a list, ascending: above those of all earlier statements, or below them
        if `prepended`. Those that are prepended are of the time before 2010 that is as far from it as now.
        """
        if prepended:
            self._prepended -= count
            first, ticks = self._prepended, 2 * _TICKS_TO_2010 - self.micros * 10
        else:
            first, ticks = self._appended, self.micros * 10
            self._appended += count
        return [
            time_uuid_bytes(ticks, (_VARIANT | number).to_bytes(4, "big") + self.nonce)
            for number in range(first, first + count)
        ]

    def random_uuid(self) -> bytes:
        drawn = bytearray(self.rng(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return bytes(drawn)


def time_uuid_bytes(unix_ticks: int, tail: bytes) -> bytes:
    """The version 1 UUID of a time in units of 100 ns since 1970; `tail`: its last eight bytes."""
    ticks = (unix_ticks + _GREGORIAN_TICKS) & ((1 << 60) - 1)
    time = ticks.to_bytes(8, "big")
    return time[4:8] + time[2:4] + bytes((time[0] | 0x10, time[1])) + tail


@dataclass(frozen=True, slots=True)
class Bindings:
    """Values by the positions of their markers."""

    values: Mapping[int, Bound]
    time: ExecutionTime


def bind(
    variables: Sequence[Variable], bound_values: Sequence[Bound] | Mapping[str, Bound], time: ExecutionTime
) -> Bindings:
    """Values for all markers: in their order, or by name. Each is validated against its type."""
    if isinstance(bound_values, Mapping):
        missing = [variable for variable in variables if (variable.marker or variable.name) not in bound_values]
        if missing:
            raise invalid("Invalid amount of bind variables")
        values = [bound_values[variable.marker or variable.name] for variable in variables]
    else:
        values = list(bound_values)
    if len(values) != len(variables):
        raise invalid("Invalid amount of bind variables")
    return Bindings({variable.position: value for variable, value in zip(variables, values, strict=True)}, time)
