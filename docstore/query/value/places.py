"""Places of documents: paths without positions in arrays. What a change concerns, and what a key is made of.

A place stands for all that is at its path or below it, in whichever elements of arrays on the way.
"""

from __future__ import annotations

from collections.abc import Collection


def read_place(path: str) -> bytes:
    """The place of what a path leads to, which may name positions in arrays."""
    first, *rest = path.split(".")
    return ".".join([first, *(part for part in rest if not part.isdigit())]).encode()


def first_name(place: bytes) -> str:
    """The field of the document in which a place is."""
    return place.partition(b".")[0].decode()


def changed_place(path: str, *, positions_exist: bool = False) -> bytes:
    """The place that changes where an update operator is applied to a path: that of all elements of an array where the
    operator may add some. An `_id` changes as a whole. `positions_exist`: what `$` stands for is in no array that is
    shorter.
    """
    first, *rest = path.split(".")
    parts = [first]
    for part in rest if first != "_id" else ():
        if part.isdigit() or (part == "$" and not positions_exist):
            break
        if part != "$" and not part.startswith("$["):
            parts.append(part)
    return ".".join(parts).encode()


def meet(some: Collection[bytes], others: Collection[bytes]) -> bool:
    """Whether one of these places is one of the others, within it, or around it."""
    return any(
        one == other or one.startswith(other + b".") or other.startswith(one + b".") for one in some for other in others
    )
