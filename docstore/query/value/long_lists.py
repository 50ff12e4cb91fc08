"""Sorting of what may be long: others may run in the middle of it."""

from __future__ import annotations

from docstore.bson.allowance import spend

_AT_ONCE = 8 * 1024
_PER_KEY = 8


def sort_keys(keys: list[bytes]) -> None:
    """Sort a list in place, nobody else's, in parts that are then merged two by two."""
    count = len(keys)
    if count <= _AT_ONCE:
        keys.sort()
        return
    width = _AT_ONCE // 2
    while width < count:
        width *= 2
        for at in range(0, count, width):
            part = keys[at : at + width]
            part.sort()
            keys[at : at + width] = part
            spend(_PER_KEY * len(part))
