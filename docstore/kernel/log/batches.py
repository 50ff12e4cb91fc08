"""Write batches for the storage engine, filled key by key.

`changes` has for each family of keys, by its number, a mapping from keys to values; None deletes the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython

_SORTED_FROM = 64
"""Least changes of a family that are put in the order of their keys: each key is then inserted near the one before."""


@cython.ccall
def put_changes(
    target: Any, handles: Sequence[Any], changes: tuple[dict[bytes, bytes | None], ...], removed: list[int]
) -> cython.Py_ssize_t:
    """Put all changes into `target`, a mapping into one family at a time: the one whose handle was selected last.
    Return the number of deletions; `removed` counts them by family.
    """
    removal_count: cython.Py_ssize_t
    all_gone: cython.Py_ssize_t = 0
    family: cython.Py_ssize_t
    of_family: dict[bytes, bytes | None]
    for family in range(len(changes)):
        of_family = changes[family]
        if of_family:
            target.set_default_column_family(handles[family])
            removal_count = 0
            for key in sorted(of_family) if len(of_family) >= _SORTED_FROM else of_family:
                value = of_family[key]
                if value is None:
                    del target[key]
                    removal_count += 1
                else:
                    target[key] = value
            if removal_count:
                removed[family] += removal_count
                all_gone += removal_count
    return all_gone


def note_keys(noted: tuple[dict[bytes, None], ...], changes: tuple[dict[bytes, bytes | None], ...]) -> int:
    """Record the changed keys, by family, in the order of their first change; return how many are recorded now."""
    family: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    key: bytes
    keys: dict[bytes, None]
    of_family: dict[bytes, bytes | None]
    for family in range(len(noted)):
        keys, of_family = noted[family], changes[family]
        for key in of_family:
            keys[key] = None
        count += len(keys)
    return count
