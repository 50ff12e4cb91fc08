"""Consistency levels: how many members must have a write, or answer a read.

The number follows from the keyspace's replication factor, not from how many members there are: a keyspace that declares
three copies has no quorum on a set of one.
"""

from __future__ import annotations

from enum import Enum

from docstore.widecolumn.model.errors import invalid_request


class Level(Enum):
    """A level by the name that clients give."""

    ZERO = "ZERO"
    ANY = "ANY"
    ONE = "ONE"
    LOCAL_ONE = "LOCAL_ONE"
    TWO = "TWO"
    THREE = "THREE"
    QUORUM = "QUORUM"
    LOCAL_QUORUM = "LOCAL_QUORUM"
    EACH_QUORUM = "EACH_QUORUM"
    ALL = "ALL"
    SERIAL = "SERIAL"
    LOCAL_SERIAL = "LOCAL_SERIAL"


QUORUMS = (Level.QUORUM, Level.LOCAL_QUORUM, Level.EACH_QUORUM, Level.SERIAL, Level.LOCAL_SERIAL)
_NUMBERS = {
    Level.ZERO: 0, Level.ANY: 1, Level.ONE: 1, Level.LOCAL_ONE: 1, Level.TWO: 2, Level.THREE: 3,
}  # fmt: skip
_BY_NAME = {level.value: level for level in Level}
SERIAL_LEVELS = (Level.SERIAL, Level.LOCAL_SERIAL)


def level_named(name: str) -> Level:
    """The level of that name, in upper or lower case. InvalidRequest."""
    level = _BY_NAME.get(name) or _BY_NAME.get(name.upper())
    if level is None:
        raise invalid_request(f"unknown consistency level '{name}'")
    return level


def members_needed(level: Level, factor: int) -> int:
    """Return how many members the level requires with a replication factor of `factor`."""
    if level in QUORUMS:
        return factor // 2 + 1
    return factor if level is Level.ALL else _NUMBERS[level]


def check_read_level(level: Level) -> None:
    """InvalidRequest for the levels that no read can have."""
    if level in (Level.ZERO, Level.ANY):
        raise invalid_request(f"Consistency level {level.value.lower()} may not be applied to read operations")


def check_write_level(level: Level) -> None:
    """InvalidRequest for the levels that only conditional writes have."""
    if level in SERIAL_LEVELS:
        raise invalid_request(f"Consistency level {level.value.lower()} may not be applied to write operations")
