"""Saving what can be read of a damaged database directory: a fresh one is filled and takes its place.

The stages can be told from what lies in the directory, so that a kill at any moment is made good by the next run:
`repair.new` is being filled, or, once `repair.damaged` is there, the damaged files are moved to that; `repair.done` is
moved into place. `open_engine` refuses a directory that is in the middle of this. The damaged files are kept.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from docstore.log import component
from docstore.storage.engine import Batch, DatabaseLocked, DataCorrupted, Family, StorageError
from docstore.storage.rocks import RocksEngine, remake_file_list
from docstore.storage.rocks_snapshot import check_status

LOG = component("STORAGE")

FILLING, DAMAGED, DONE = "repair.new", "repair.damaged", "repair.done"
_ENGINE_FILE = re.compile(r"CURRENT|IDENTITY|LOCK|LOG(\.old.*)?|MANIFEST-\d+|OPTIONS-\d+.*|\d+\.(log|sst|blob)")
_BATCH = 1_000


def unfinished(path: Path) -> bool:
    """Whether a repair of the directory was begun and not ended."""
    return (path / DONE).exists() or (path / FILLING).exists()


def salvage(path: Path) -> int:
    """Make the directory one in which everything can be read; how many ranges of keys were lost.

    DatabaseLocked; StorageError when nothing can be opened at all.
    """
    if (path / DONE).exists() or ((path / FILLING).exists() and (path / DAMAGED).exists()):
        LOG.warning("An earlier repair is brought to its end", path=str(path))
        _put_in_place(path)
    shutil.rmtree(path / FILLING, ignore_errors=True)
    engine = _open_damaged(path)
    try:
        if _is_readable(engine):
            return 0
        target = RocksEngine(str(path / FILLING))
        try:
            lost = sum(_copy(engine, target, family) for family in Family)
            target.flush()
        finally:
            target.close()
    finally:
        engine.close()
    damaged = path / DAMAGED
    if damaged.exists():
        shutil.rmtree(damaged)
    damaged.mkdir()
    _put_in_place(path)
    return lost


def _open_damaged(path: Path) -> RocksEngine:
    try:
        return RocksEngine(str(path))
    except DatabaseLocked:
        raise
    except StorageError as error:
        LOG.warning("The database cannot be opened; its list of files is made anew", error=str(error))
        remake_file_list(str(path))
        return RocksEngine(str(path))


def _is_readable(engine: RocksEngine) -> bool:
    try:
        for family in Family:
            for _ in engine.items(family, b"", b"\xff" * 16):
                pass
    except DataCorrupted as error:
        LOG.warning("Damage was found", error=str(error))
        return False
    return True


def _copy(source: RocksEngine, target: RocksEngine, family: Family) -> int:
    """Copy what can be read of a family; how many gaps there were."""
    lost = 0
    batch = Batch()
    for pair in _readable(lambda: source.walk(family)):
        if pair is None:
            lost += 1
            continue
        batch.put(family, *pair)
        if len(batch.changes[family]) >= _BATCH:
            target.write(batch)
            batch = Batch()
    if batch:
        target.write(batch)
    return lost


def _readable(make_walk: Callable[[], Any]) -> Iterator[tuple[bytes, bytes] | None]:
    """The pairs that can be read, in order, and None for each gap between them.

    After an error every look is made with a new iterator: an old one remembers the damaged block.
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
    """About the lowest key above `last` from which can be read; None when nothing after it can.

    Keys are taken as numbers of equal width: steps that double find a place behind the damage, halving its end.
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


def _put_in_place(path: Path) -> None:
    """Move the damaged files away and the fresh ones to their place, from wherever that was left."""
    if (path / FILLING).exists():
        for file in list(path.iterdir()):
            if _ENGINE_FILE.fullmatch(file.name):
                file.rename(path / DAMAGED / file.name)
        (path / FILLING).rename(path / DONE)
    for file in list((path / DONE).iterdir()):
        if _ENGINE_FILE.fullmatch(file.name):
            file.rename(path / file.name)
    shutil.rmtree(path / DONE)
