"""A batch of changes as it goes into the engine, key by key.

`changes` has for each family of keys, by its number, a mapping from keys to values; None stands for a key that goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython

_SORTED_FROM = 64
"""From so many changes of a family on, they go in by order of their keys: each finds its place near the one before."""


def put_changes(
    target: Any, handles: Sequence[Any], changes: tuple[dict[bytes, bytes | None], ...], removed: list[int]
) -> cython.Py_ssize_t:
    """Put all changes into `target`, a mapping into one family at a time: that whose handle was selected last. Return
    how many keys go; `removed` counts them by family.
    """
    gone: cython.Py_ssize_t
    all_gone: cython.Py_ssize_t = 0
    place: cython.Py_ssize_t
    of_family: dict[bytes, bytes | None]
    for place in range(len(changes)):
        of_family = changes[place]
        if of_family:
            target.set_default_column_family(handles[place])
            gone = 0
            for key in sorted(of_family) if len(of_family) >= _SORTED_FROM else of_family:
                value = of_family[key]
                if value is None:
                    del target[key]
                    gone += 1
                else:
                    target[key] = value
            if gone:
                removed[place] += gone
                all_gone += gone
    return all_gone


def note_keys(noted: tuple[dict[bytes, None], ...], changes: tuple[dict[bytes, bytes | None], ...]) -> int:
    """Note the keys that change, by family, in the order of their first change; return how many are noted now."""
    place: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    key: bytes
    keys: dict[bytes, None]
    of_family: dict[bytes, bytes | None]
    for place in range(len(noted)):
        keys, of_family = noted[place], changes[place]
        for key in of_family:
            keys[key] = None
        count += len(keys)
    return count
