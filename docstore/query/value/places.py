"""Places: paths without array positions, by which updates are compared with the fields that index keys depend on.

A place covers its path and everything below it, in any elements of arrays on the way.
"""

from __future__ import annotations

from collections.abc import Collection


def read_place(path: str) -> bytes:
    """Return the place that a path, which may name array positions, reads."""
    first, *later_parts = path.split(".")
    return ".".join([first, *(part for part in later_parts if not part.isdigit())]).encode()


def first_name(path: bytes) -> str:
    """Return the top-level field of a place."""
    return path.partition(b".")[0].decode()


def changed_place(path: str, *, positions_exist: bool = False) -> bytes:
    """Return the place that an update operator at a path changes; all elements of an array if the operator may add
    some. An `_id` changes as a whole. `positions_exist`: the position that `$` stands for is never beyond the array's
    end.
    """
    first, *later_parts = path.split(".")
    parts = [first]
    for part in later_parts if first != "_id" else ():
        if part.isdigit() or (part == "$" and not positions_exist):
            break
        if part != "$" and not part.startswith("$["):
            parts.append(part)
    return ".".join(parts).encode()


def meet(paths: Collection[bytes], other_paths: Collection[bytes]) -> bool:
    """True if one of these places equals, contains or lies in one of the others."""
    return any(
        path == other or path.startswith(other + b".") or other.startswith(path + b".")
        for path in paths
        for other in other_paths
    )
