"""Data directories: their marker, and the record of how much of them is synced.

Two files of this project stand beside those of RocksDB:

* `DOCSTORE`, the marker: written before anything else, and `complete` once the database is. It holds the directory's
  identity and the numbers of the families. If it is `complete`, opening creates nothing.
* `SYNCED`, the synced mark: the identity again, the size of the MANIFEST, and of each write-ahead log its head and the
  size covered by a finished flush. Two slots are written alternately, so one is intact after a power loss.

`docstore.storage.inspection` compares a directory with both.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from docstore.log import component
from docstore.storage.durable import Unreadable, read_sealed, seal_text, unseal, write_sealed
from docstore.storage.engine import StorageError
from docstore.storage.rocks_format import log_head

MAX_SLOT_LOGS = 80
"""Logs per slot, at 40 bytes each."""
LOG = component("STORAGE")

MARKER, SYNCED = "DOCSTORE", "SYNCED"
ENGINE_FILE = re.compile(
    r"CURRENT|IDENTITY|LOCK|MANIFEST-\d+|OPTIONS-\d+.*|\d+\.(log|sst|blob|dbtmp)|rocksdict-config\.json"
)
"""The files of RocksDB, except its text log (`LOG`)."""

MAKING, ADOPTING, COMPLETE = "making", "adopting", "complete"
"""States of a marker. `MAKING`: nothing was acknowledged yet.

`ADOPTING`: a directory of an earlier version, which may lack a synced mark.
"""

_LOG_FILE = re.compile(r"(\d+)\.log")
_SLOT_BYTES = 4096
_SETTLED_NS = 50_000_000
"""Nanoseconds after a new modification time of the directory, from which on a listing of it is complete."""
_SYNC_SECONDS = 1.0
"""Interval of syncs of the mark itself, besides one at the end: a flush waits only for the log."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker of a directory. `families`: RocksDB's numbers of the families, by name."""

    identity: str
    state: str
    families: dict[str, int] = field(default_factory=dict)

    def write(self, directory: Path) -> None:
        write_sealed(directory / MARKER, {"layout": 1, **asdict(self)})


def read_marker(directory: Path) -> Marker | None:
    """Return the marker of a directory, or None if there is none. Errors: Unreadable, StorageError."""
    content = read_sealed(directory / MARKER)
    if content is None:
        return None
    if content.pop("layout") != 1:
        raise StorageError(f"the directory {directory} has a layout of files that this program does not know")
    return Marker(**content)


def new_identity() -> str:
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class SyncedMark:
    """The synced parts of a directory: the first `manifest_bytes` of a MANIFEST, the first bytes of each log.

    * `logs`: the synced bytes by log number.
    * `sequence`: RocksDB's number of the last change covered. Logs with 0 bytes here have only later changes.
    * `identity`: the directory's. `heads`: the checksum at the start of each log. Marks of earlier versions lack both.
    """

    sequence: int
    manifest: int
    manifest_bytes: int
    logs: dict[int, int]
    heads: dict[int, int] = field(default_factory=dict)
    identity: str = ""


def read_mark(directory: Path) -> SyncedMark | None:
    """Return the newest mark of a directory, or None without a file. Errors: Unreadable."""
    slots = _read_slots(directory)
    return None if slots is None else _mark_of(max(slots, key=lambda slot: int(slot["turn"])))


def _read_slots(directory: Path) -> list[dict[str, Any]] | None:
    try:
        content = (directory / SYNCED).read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"the file {SYNCED} cannot be read: {error.strerror}") from None
    slots = [unseal(content[start : start + _SLOT_BYTES]) for start in (0, _SLOT_BYTES)]
    readable = [slot for slot in slots if slot is not None]
    if not readable:
        raise Unreadable(f"the file {SYNCED} is damaged: its checksums do not fit")
    return readable


def _mark_of(slot: dict[str, Any]) -> SyncedMark:
    logs, heads = ({int(number): value for number, value in slot.get(name, ())} for name in ("logs", "heads"))
    identity = slot.get("identity", "")
    return SyncedMark(slot["sequence"], slot["manifest"], slot["manifestBytes"], logs, heads, identity)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The marker and the synced mark of a directory; None for one that is missing or unreadable."""

    marker: Marker | None = None
    mark: SyncedMark | None = None

    @property
    def identity(self) -> str:
        """The identity of the directory; empty if unknown."""
        return self.marker.identity if self.marker is not None else self.mark.identity if self.mark is not None else ""

    def completed(self, recorded: Provenance) -> Provenance:
        """Return this provenance with the marker and mark of `recorded` where its own are missing, foreign or older."""
        identity = recorded.identity
        if not identity:
            return self
        marker = self.marker if self.marker is not None and self.marker.identity == identity else recorded.marker
        marks = [mark for mark in (self.mark, recorded.mark) if mark is not None and mark.identity in ("", identity)]
        newest = max(marks, key=lambda mark: (mark.manifest, mark.manifest_bytes, mark.sequence), default=None)
        return Provenance(marker, newest)

    def document(self) -> dict[str, Any]:
        """Return it as JSON, for `provenance_of`."""
        marker, mark = (None if part is None else asdict(part) for part in (self.marker, self.mark))
        if mark is not None:
            mark |= {name: sorted(mark[name].items()) for name in ("logs", "heads")}
        return {"marker": marker, "mark": mark}


UNKNOWN = Provenance()


def provenance_of(document: dict[str, Any]) -> Provenance:
    """Return what `Provenance.document` was made of."""
    marker, mark = document["marker"], document["mark"]
    if mark is not None:
        mark |= {name: dict(mark[name]) for name in ("logs", "heads")}
    return Provenance(None if marker is None else Marker(**marker), None if mark is None else SyncedMark(**mark))


def read_provenance(directory: Path) -> tuple[Provenance, list[str]]:
    """Return (the provenance of a directory, which of its two files are damaged). Errors: StorageError."""
    marker = mark = None
    damage: list[str] = []
    try:
        marker = read_marker(directory)
    except Unreadable as error:
        damage.append(str(error))
    try:
        mark = read_mark(directory)
    except Unreadable as error:
        damage.append(str(error))
    return Provenance(marker, mark), damage


class SyncedMarks:
    """Writer of the mark of a directory that this process has open.

    `observe` comes before a flush and `record` after it, both in the flushing thread. The sequence number is read
    before the sizes, so these cover all changes up to it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._turn = 0
        self._changed = 0
        """The directory's modification time at the last look, in nanoseconds."""
        self._listed_at = self._settled_at = 0
        """When the directory was last listed, and from when on a list of it is complete, by the monotonic clock."""
        self._logs: list[tuple[int, str]] = []
        self._heads: dict[int, int] = {}
        self._manifest = 0
        self._manifest_path = ""
        self._last: tuple[int, tuple[int, dict[int, int]]] = (0, (0, {}))
        self._is_failing = False
        self._identity = b""
        slots = None
        with suppress(Unreadable):
            marker = read_marker(directory)
            self._identity = b"" if marker is None else marker.identity.encode()
        with suppress(Unreadable):
            slots = _read_slots(directory)
        if slots:
            self._turn = max(int(slot["turn"]) for slot in slots)
        self._file = os.open(directory / SYNCED, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if os.fstat(self._file).st_size != 2 * _SLOT_BYTES:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, b" " * (2 * _SLOT_BYTES), 0)
        self._synced_at = 0.0

    def observe(self) -> tuple[int, dict[int, int]]:
        """Return the current (size of the MANIFEST, sizes of the logs)."""
        # Times of the file system are compared with each other alone: the process's clock may be set. A change within
        # the tick of the one before leaves the time as it is, so the directory is listed until that tick is over.
        changed = os.stat(self._directory).st_mtime_ns
        if changed != self._changed:
            self._changed = changed
            self._settled_at = time.monotonic_ns() + _SETTLED_NS
        if self._listed_at < self._settled_at:
            self._list()
        try:
            return self._sizes()
        except FileNotFoundError:
            self._list()
            return self._sizes()

    def _list(self) -> None:
        self._listed_at = time.monotonic_ns()
        directory = self._directory
        logs = sorted((int(name[:-4]), name) for name in os.listdir(directory) if _LOG_FILE.fullmatch(name))
        self._logs = [(number, f"{directory}/{name}") for number, name in logs[-MAX_SLOT_LOGS:]]
        self._heads = {number: self._heads[number] for number, _ in self._logs if number in self._heads}
        # RocksDB keeps writing to its open MANIFEST, even if CURRENT changes.
        with suppress(*([OSError] if self._manifest else [])):
            name = Path(directory, "CURRENT").read_text().strip()
            self._manifest, self._manifest_path = int(name.partition("-")[2]), f"{directory}/{name}"

    def _sizes(self) -> tuple[int, dict[int, int]]:
        sizes = {}
        for number, path in self._logs:
            # RocksDB removes a log as soon as sorted files hold its changes.
            try:
                size = os.stat(path).st_size
                if size and number not in self._heads:
                    self._heads[number] = read_head(path)
                sizes[number] = size
            except FileNotFoundError:
                continue
        return os.stat(self._manifest_path).st_size, sizes

    def record(self, observed: tuple[int, dict[int, int]], sequence: int) -> None:
        """Write a mark: the observed sizes, up to `sequence`, are synced by now."""
        if self._last != (sequence, observed):
            self._last = (sequence, observed)
            self._turn += 1
            # On failure the older mark stays; it promises less, but is still true.
            try:
                os.pwrite(self._file, self._slot().ljust(_SLOT_BYTES), self._turn % 2 * _SLOT_BYTES)
            except OSError as error:
                self._note_failure(error)
        now = time.monotonic()
        if now - self._synced_at > _SYNC_SECONDS:
            self._synced_at = now
            self.sync()

    def _slot(self) -> bytes:
        sequence, (manifest_bytes, logs) = self._last
        sizes = b",".join([b"[%d,%d]" % item for item in logs.items()])
        # The last mark of a process names logs that are gone.
        heads = b",".join([b"[%d,%d]" % (number, self._heads[number]) for number in logs if number in self._heads])
        return seal_text(
            b'{"turn":%d,"sequence":%d,"manifest":%d,"manifestBytes":%d,"logs":[%s],"heads":[%s],"identity":"%s"}'
            % (self._turn, sequence, self._manifest, manifest_bytes, sizes, heads, self._identity)
        )

    def sync(self) -> None:
        """Sync the mark, so that it survives power loss."""
        try:
            os.fdatasync(self._file)
        except OSError as error:
            self._note_failure(error)

    def _note_failure(self, error: OSError) -> None:
        if not self._is_failing:
            LOG.warning("The synced mark cannot be written", path=self._directory, error=str(error))
        self._is_failing = True

    def close(self) -> None:
        """Record the final size of the MANIFEST, which RocksDB syncs with each change, and close the file."""
        sequence, (_, logs) = self._last
        try:
            self.record((self.observe()[0], logs), sequence)
        except OSError as error:
            self._note_failure(error)
        self.sync()
        os.close(self._file)


def read_head(path: str | Path) -> int:
    """Return the head of a log (`docstore.storage.rocks_format.log_head`). Errors: OSError."""
    with open(path, "rb") as file:
        return log_head(file.read(4))


def mark_directory(directory: Path, marker: Marker) -> None:
    """Write the marker and a mark of the whole content to a directory without writers, such as a checkpoint."""
    (directory / SYNCED).unlink(missing_ok=True)
    marker.write(directory)
    marks = SyncedMarks(directory)
    marks.record(marks.observe(), 0)
    marks.close()


def engine_files(directory: Path) -> list[Path]:
    """Return RocksDB's files in a directory, by name."""
    return sorted(file for file in directory.iterdir() if ENGINE_FILE.fullmatch(file.name))


def manifests(path: Path) -> list[Path]:
    """Return the MANIFEST files of a directory, newest first."""
    return sorted((file for file in engine_files(path) if file.name.startswith("MANIFEST-")), reverse=True)
