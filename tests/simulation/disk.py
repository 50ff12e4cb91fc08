"""A machine's disk: the engine's batches and ordinary files, with what of them a loss of power leaves.

`MachineEngine` keeps the engine contract of `docstore.storage.engine` in memory. Every batch that no finished flush
covers can be taken back, newest first: when the power goes a random number of them is, as the end of a write-ahead log
is. The end of the process alone loses nothing of what `write` has accepted.

Files (those of rollbacks) are real ones below a directory of the world; `fsync` notes how long they were, and a loss of
power cuts them to a length between that and the present one.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstore.storage.disk_space import DiskSpace
from docstore.storage.engine import Batch, Family, StorageError
from docstore.storage.load import BatchLoad
from docstore.storage.memory import MemoryEngine
from tests.simulation.loop import Killed

if TYPE_CHECKING:
    from tests.simulation.process import Incarnation
    from tests.simulation.world import World

_GIB = 1 << 30
Change = tuple[Family, bytes, bytes | None]


class Contents(MemoryEngine):
    """What the engine of a machine holds, across the processes that open it."""

    def __init__(self) -> None:
        super().__init__()
        self.unsynced: list[list[Change]] = []
        """For each batch that may be lost: what it replaced, in order."""
        self._replaced: list[Change] = []

    def write(self, batch: Batch) -> None:
        self._replaced = []
        super().write(batch)
        self.unsynced.append(self._replaced)

    def _change(self, family: Family, key: bytes, value: bytes | None) -> None:
        self._replaced.append((family, key, self._maps[family].get(key)))
        super()._change(family, key, value)

    @property
    def open_snapshots(self) -> int:
        """How many are open."""
        count, version = 0, self._newest
        while version is not None:
            count, version = count + version.handles, version.older
        return count

    def reopened(self) -> Contents:
        """The same contents without the snapshots that a dead process has left open."""
        fresh = Contents()
        fresh._maps = self._maps
        fresh.unsynced = self.unsynced
        return fresh

    def lose(self, batches: int) -> list[bytes]:
        """Take so many of the newest unsynced batches back; the entries of the log that are gone by that."""
        entries = []
        for _ in range(batches):
            for family, key, before in reversed(self.unsynced.pop()):
                if family is Family.OPLOG and before is None and (entry := self._maps[family].get(key)) is not None:
                    entries.append(entry)
                super()._change(family, key, before)
        return entries


class Disk:
    """Of one machine. `seconds` is what a flush takes about; `full` refuses documents, `failing` every flush."""

    def __init__(self, world: World, name: str, dice: random.Random, root: Path) -> None:
        self._world = world
        self._name = name
        self.dice = dice
        self.contents = Contents()
        self.path = root / name
        self.path.mkdir(parents=True)
        self.seconds = 0.0005
        self.full = False
        self.failing = False
        self.writes = 0
        self.die_at_write: int | None = None
        """The process dies with this write of its engine, before or after the batch."""
        self.fail_at_write: int | None = None
        """This write of its engine and all that follow fail; the batch of the first one may be there all the same."""
        self.lost: list[bytes] = []
        """Entries of the log that went with the power."""
        self._synced: dict[str, int] = {}
        self._moved = 0
        self._flushed = 0

    def delay(self) -> float:
        """Of one piece of blocking work."""
        return self.dice.expovariate(1 / self.seconds) + 0.00005

    def room(self) -> tuple[int, int]:
        """(bytes free, bytes in all)."""
        return (16 << 20 if self.full else 50 * _GIB), 100 * _GIB

    # The engine

    def begin_flush(self) -> Callable[[], None]:
        """A flush begins: it will have made durable what stands now. The returned call ends it."""
        covered = len(self.contents.unsynced) + self._flushed

        def end() -> None:
            count = covered - self._flushed
            if count > 0:
                del self.contents.unsynced[:count]
                self._flushed = covered

        return end

    def lose_power(self) -> str:
        """Keep what was synced and a random part of what was not; says what was lost."""
        unsynced = len(self.contents.unsynced)
        lost = 0 if not unsynced else self.dice.choice((unsynced, self.dice.randint(0, unsynced), 0))
        self.lost += self.contents.lose(lost)
        self.contents.unsynced.clear()
        for file in self._files():
            size, name = file.stat().st_size, str(file)
            kept = self.dice.randint(self._synced.get(name, 0), size)
            if kept == 0 and name not in self._synced:
                file.unlink()
            elif kept < size:
                os.truncate(file, kept)
        return f"{lost} of {unsynced} unsynced batches lost"

    # Files

    def _files(self) -> list[Path]:
        return sorted(file for file in self.path.rglob("*") if file.is_file())

    def files(self) -> list[str]:
        """Their names below the directory of the machine."""
        return [str(file.relative_to(self.path)) for file in self._files()]

    def wipe(self) -> None:
        """Everything on it is gone. No process may run."""
        self.contents = Contents()
        self._flushed = 0
        self._synced.clear()
        shutil.rmtree(self.path)
        self.path.mkdir()

    def damage(self, entries: int) -> int:
        """Lose the newest entries of the log, and the newest record of each collection; how many entries are gone."""
        contents = self.contents
        keys = list(islice(contents.keys(Family.OPLOG, b"", b"\xff" * 8, reverse=True), entries))
        batch = Batch()
        for key in keys:
            batch.delete(Family.OPLOG, key)
            batch.delete(Family.UNDO, key)
        newest = {key[:4]: key for key in contents.keys(Family.RECORDS, b"", b"\xff" * 16)}
        local = {row[1:5] for row, raw in contents.items(Family.META, b"c", b"d") if b"local." in raw}
        for prefix, key in newest.items():
            if prefix not in local:
                batch.delete(Family.RECORDS, key)
        contents.write(batch)
        return len(keys)

    def sync_all(self) -> None:
        """Nothing of what stands can be lost any more."""
        self.contents.unsynced.clear()

    def synced(self, path: str, size: int) -> None:
        """A file of this machine was synced at that size."""
        self._synced[path] = size

    def detach(self) -> None:
        """The process is gone: what its objects still write goes to files that nobody sees."""
        self.contents = self.contents.reopened()
        if not any(self.path.iterdir()):
            return
        self._moved += 1
        away = self.path.with_name(f"{self._name}.dead{self._moved}")
        self.path.rename(away)
        shutil.copytree(away, self.path)


class MachineEngine:
    """Satisfies `Engine`: a machine's disk as one process has it open."""

    def __init__(self, owner: Incarnation) -> None:
        self._owner = owner
        self._disk = disk = owner.machine.disk
        contents = disk.contents
        self._contents = contents
        self._loads: list[BatchLoad] = []
        self._room = DiskSpace(str(disk.path), lambda _path: disk.room())
        self.get = contents.get
        self.items = contents.items
        self.keys = contents.keys
        self.values = contents.values
        self.snapshot = contents.snapshot
        self.stats = contents.stats
        self.ratio = contents.ratio
        self.checkpoint = contents.checkpoint
        self.compact_removed = contents.compact_removed
        self.hold_files = contents.hold_files
        self.release_files = contents.release_files

    def write(self, batch: Batch) -> None:
        owner, disk = self._owner, self._disk
        if not owner.alive:
            raise Killed
        self._room.check(batch)
        disk.writes += 1
        if disk.die_at_write is not None and disk.writes >= disk.die_at_write:
            disk.die_at_write = None
            if owner.world.fault_dice.random() < 0.5:
                self._contents.write(batch)
            owner.machine.crash_now("at a write of its engine")
            raise Killed
        if disk.fail_at_write is not None and disk.writes >= disk.fail_at_write:
            if disk.writes == disk.fail_at_write and owner.world.fault_dice.random() < 0.5:
                self._contents.write(batch)
            raise StorageError("the write failed: input/output error")
        self._contents.write(batch)
        for load in self._loads:
            load.later.note(batch)

    def begin_load(self, family: Family, start: bytes, end: bytes) -> BatchLoad:
        return BatchLoad(self._loads, self.write, family, start, end)

    def flush(self) -> None:
        if not self._owner.alive:
            raise Killed
        if self._disk.failing:
            raise StorageError("input/output error")
        self._owner.world.loop.when_done(self._disk.begin_flush())

    def close(self) -> None:
        """The contents stay with the machine."""


def note_fsync(descriptor: int, machines: dict[str, Any]) -> None:
    """A process has synced a file: remember how long it was. Errors: OSError where its disk is full or fails."""
    path = os.readlink(f"/proc/self/fd/{descriptor}")
    size = os.fstat(descriptor).st_size
    for machine in machines.values():
        if path == str(machine.disk.path) or path.startswith(f"{machine.disk.path}/"):
            if machine.disk.full or machine.disk.failing:
                wrong = errno.ENOSPC if machine.disk.full else errno.EIO
                raise OSError(wrong, os.strerror(wrong))
            machine.disk.synced(path, size)
