"""Copies the readable part of a damaged database's sorted files into another database, and reports the gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from docstore.log import component
from docstore.storage.engine import Batch, DataCorrupted, Family, Urgency
from docstore.storage.repairs import Loss
from docstore.storage.rocks import RocksEngine
from docstore.storage.rocks_snapshot import check_status

LOG = component("STORAGE")

_BATCH = 1_000


def copy_readable(source: RocksEngine, target: RocksEngine, family: Family) -> list[Loss]:
    """Copy the readable entries of a family; return the gaps."""
    losses: list[Loss] = []
    batch = Batch()
    last, in_gap = b"", False
    for pair in _readable(lambda: source.walk(family)):
        if pair is None:
            in_gap = True
            continue
        if in_gap:
            losses.append(_gap(family, last, pair[0]))
            in_gap = False
        last = pair[0]
        batch.put(family, *pair)
        if len(batch.changes[family]) >= _BATCH:
            batch.urgency = Urgency.CONSENSUS
            target.write(batch)
            batch = Batch()
    if in_gap:
        losses.append(_gap(family, last, b"\xff" * 16))
    if batch:
        batch.urgency = Urgency.CONSENSUS
        target.write(batch)
    return losses


def _gap(family: Family, start: bytes, end: bytes) -> Loss:
    name = family.name.lower()
    return Loss(f"a damaged block of {name} cannot be read", name, start.hex(), end.hex())


def _readable(make_walk: Callable[[], Any]) -> Iterator[tuple[bytes, bytes] | None]:
    """Yield the readable pairs in order, and None for each gap between them.

    After an error every attempt uses a new iterator, because the old one keeps the damaged block.
    """
    last = start = b""
    while True:
        walk = make_walk()
        walk.seek(start)
        while walk.valid():
            last = walk.key()
            yield last, walk.value()
            walk.next()
        if not _failed(walk):
            return
        yield None
        following = _first_readable(make_walk, max(last, start))
        if following is None:
            return
        start = following


def _failed(walk: Any) -> bool:
    try:
        check_status(walk)
    except DataCorrupted as error:
        LOG.warning("A damaged block is left out", error=str(error))
        return True
    return False


def _first_readable(make_walk: Callable[[], Any], last: bytes) -> bytes | None:
    """Return approximately the lowest readable key above `last`; None if nothing after it is readable.

    Keys are treated as numbers of equal width: doubling steps find a position behind the damage, bisection its end.
    """
    width = len(last) + 16
    base = int.from_bytes(last.ljust(width, b"\0"), "big")
    largest = (1 << 8 * width) - 1

    def readable(number: int) -> bool:
        walk = make_walk()
        walk.seek(number.to_bytes(width, "big"))
        return bool(walk.valid())

    step = 1
    while base + step <= largest and not readable(base + step):
        step <<= 1
    if base + step > largest:
        return None
    low, high = base + step // 2, base + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if readable(middle) else (middle, high)
    return high.to_bytes(width, "big")
