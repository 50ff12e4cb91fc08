"""Read-only check of a data directory against its marker, MANIFEST and synced mark.

* The MANIFEST lists the sorted files with their sizes, and the first log still needed. The synced mark tells how much
  of the MANIFEST and of the logs a flush has covered. Anything missing of that is damage.
* An unsynced end of a log may be torn by a power loss: it is dropped, and that is logged.
* Changes in the logs are numbered, continuing the MANIFEST. A gap in the numbers is damage: blocks out of order, or the
  log of another directory.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from docstore.key_layout import DIRECTORY_IDENTITY_KEY, FORMAT_KEY
from docstore.storage.directory import (
    ADOPTING,
    MAKING,
    MARKER,
    SYNCED,
    UNKNOWN,
    Marker,
    Provenance,
    SyncedMark,
    engine_files,
    read_provenance,
)
from docstore.storage.engine import Family, StorageError
from docstore.storage.restored import is_restored
from docstore.storage.rocks import read_unopened
from docstore.storage.rocks_format import (
    FormatError,
    Gap,
    LogRecord,
    TableFile,
    Version,
    batch_sequences,
    is_head_intact,
    is_next_sequence,
    log_head,
    read_records,
)


class Kind(Enum):
    """Kind of a directory, by its files."""

    NEW = "new"
    """It contains no database file."""
    UNFINISHED = "unfinished"
    """Its creation was interrupted: nothing was acknowledged."""
    MADE = "made"
    EARLIER = "earlier"
    """It was written by a version without markers, or is a copy of such a directory."""


class DirectoryDamaged(StorageError):
    """Part of a data directory is missing or altered."""


@dataclass(slots=True)
class LogReading:
    """The readable part of a write-ahead log: the first `readable` bytes, up to the change `sequence`.

    * `first_sequence`: the first change of the log. `later_sequence`: the last readable change behind damage, if any.
    * `disorder`: the first change that does not follow its predecessor, and the predecessor.
    * `is_foreign`: the log is not the one that the mark has under this number.
    """

    number: int
    size: int
    readable: int = 0
    sequence: int = 0
    later_sequence: int = 0
    first_sequence: int = 0
    disorder: tuple[int, int] | None = None
    is_foreign: bool = False

    @property
    def last_sequence(self) -> int:
        return max(self.sequence, self.later_sequence)


@dataclass(slots=True)
class Inspection:
    """The result of an inspection. `damage`: problems found; `torn`: unsynced, unreadable ends of files."""

    kind: Kind
    marker: Marker | None = None
    mark: SyncedMark | None = None
    version: Version | None = None
    missing: list[tuple[int, TableFile]] = field(default_factory=list)
    """(Family, file) of each sorted file that is missing, or has another size."""
    logs: list[LogReading] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    readable: dict[str, int] = field(default_factory=dict)
    """The bytes before the torn end of each file that has one, by name. RocksDB must not see that end: its reader of
    records may loop for ever there."""
    stored_format: bytes | None = None
    """The stored format version, if it is known before the database is opened."""
    beyond_tear: list[int] = field(default_factory=list)
    """The logs behind a torn end: none of them was synced, and their changes may depend on lost ones."""

    def require_sound(self, path: Path) -> None:
        """Check that there is no damage. Errors: DirectoryDamaged."""
        if self.damage:
            raise DirectoryDamaged(
                f"the data directory {path} is damaged: {'; '.join(self.damage)}. Nothing was changed. Put back what "
                "is missing, or run --repair, which saves what can be read and says what is lost. A member of a "
                "replica set can instead be started with an empty directory, and copies the data of the others"
            )


def inspect(path: Path, recorded: Provenance = UNKNOWN) -> Inspection:
    """Return the kind and the problems of a directory; `recorded`: what it had when its unfinished repair began.

    Errors: StorageError for another version's layout.
    """
    present, damage = read_provenance(path)
    provenance = present.completed(recorded)
    marker, mark = provenance.marker, provenance.mark
    if present.marker is not None and marker is not None and present.marker.identity != marker.identity:
        damage.append(f"the file {MARKER} is that of another directory")
    files = {file.name: file.stat().st_size for file in engine_files(path)}
    if present.marker is not None and present.marker is marker and marker.state == MAKING:
        return Inspection(Kind.UNFINISHED, marker)
    if marker is not None and present.mark is not None and present.mark.identity not in ("", marker.identity):
        damage.append(f"the files {MARKER} and {SYNCED} belong to different directories")
        mark = None if mark is present.mark else mark
    data = [name for name in files if name != "LOCK" and not name.endswith(".json")]
    if marker is None and mark is None and not damage:
        if not data:
            return Inspection(Kind.NEW, damage=["all files of the database are missing"] if is_restored(path) else [])
        result = Inspection(Kind.EARLIER)
    elif marker is not None and marker.state == ADOPTING:
        result = Inspection(Kind.EARLIER, marker)
    else:
        result = Inspection(Kind.MADE, marker, mark, damage=damage)
        for name, content in ((MARKER, present.marker), (SYNCED, present.mark)):
            if content is None and not (path / name).exists():
                damage.append(f"the file {name} is missing")
    _inspect_manifest(path, result, files)
    _inspect_tables(result, files)
    _inspect_logs(path, result, files)
    if not result.damage and (marker is None or marker.state != ADOPTING):
        _inspect_origin(path, result)
    return result


def _inspect_origin(path: Path, result: Inspection) -> None:
    """Read the database's own catalog, format and identity before it is opened.

    They tell a directory of an earlier version from one of this version whose marker and mark are missing.
    """
    version = result.version
    assert version is not None
    identity = None
    try:
        if any(family.name == Family.META.name.lower() for family in version.families.values()):
            result.stored_format, identity = read_unopened(
                path, Family.META, (FORMAT_KEY, DIRECTORY_IDENTITY_KEY), result.readable,
                with_logs=result.marker is None,
            )  # fmt: skip
    except (StorageError, OSError) as error:
        result.damage.append(f"the database cannot be read: {error}")
        return
    if result.marker is not None:
        # Both may still be in the logs.
        if identity not in (None, result.marker.identity.encode()):
            result.damage.append(f"the file {MARKER} and the sorted files belong to different directories")
    elif identity is not None:
        result.kind = Kind.MADE
        result.damage.append(f"the files {MARKER} and {SYNCED}, which this directory had, are missing")
    elif result.stored_format is None:
        # If this version created the directory, both are in one batch.
        result.damage.append(f"the file {MARKER} is missing, and so is what says the format of the database")


def _inspect_manifest(path: Path, result: Inspection, files: dict[str, int]) -> None:
    """Read the list of files; `result.version` stays None if it is damaged."""
    try:
        name = (path / "CURRENT").read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        result.damage.append("the file CURRENT is missing")
        return
    except OSError as error:
        result.damage.append(f"the file CURRENT cannot be read: {error.strerror}")
        return
    if name[-1:] != "\n" or not name.startswith("MANIFEST-") or name[:-1] not in files:
        result.damage.append("the file CURRENT does not name a MANIFEST that is there")
        return
    version = read_manifest(path / name[:-1], result.mark)
    if isinstance(version, str):
        result.damage.append(version)
        return
    if result.marker is not None and result.kind is Kind.MADE:
        numbers = {family.name: number for number, family in version.families.items()}
        if any(numbers.get(family) != number for family, number in result.marker.families.items()):
            result.damage.append(f"the file {name[:-1]} does not name the families of this directory")
            return
    torn = files[name[:-1]] - version.readable
    if torn:
        result.torn.append(f"the last {torn} bytes of the file {name[:-1]}, which no flush had covered")
        result.readable[name[:-1]] = version.readable
    result.version = version


def read_manifest(file: Path, mark: SyncedMark | None) -> Version | str:
    """Return the state that a MANIFEST describes, or a description of its damage."""
    number = int(file.name.partition("-")[2])
    if mark is not None and number < mark.manifest:
        return f"the file {file.name} is older than the last one, MANIFEST-{mark.manifest:06}"
    synced = mark.manifest_bytes if mark is not None and mark.manifest == number else 0
    try:
        content = file.read_bytes()
    except OSError as error:
        return f"the file {file.name} cannot be read: {error.strerror}"
    if len(content) < synced:
        return f"the file {file.name} has {len(content)} bytes, and {synced} were synced"
    version = Version()
    edits = 0
    try:
        for record in read_records(content):
            if isinstance(record, LogRecord):
                version.apply(record.payload)
                version.readable = record.end
                edits += 1
            elif record.end < len(content) or record.start < synced:
                return f"the file {file.name} cannot be read from byte {record.start} on"
    except FormatError as error:
        return f"the file {file.name} is damaged: {error}"
    return version if edits else f"the file {file.name} is empty"


def _inspect_tables(result: Inspection, files: dict[str, int]) -> None:
    if result.version is None:
        return
    for identity, family in result.version.families.items():
        for file in family.files.values():
            size = files.get(f"{file.number:06}.sst")
            if size != file.size:
                result.missing.append((identity, file))
                is_as = "is missing" if size is None else f"has {size} bytes, and {file.size} were written"
                result.damage.append(f"the file {file.number:06}.sst of the family {family.name} {is_as}")


def _inspect_logs(path: Path, result: Inspection, files: dict[str, int]) -> None:
    version, mark = result.version, result.mark
    first = 0 if version is None else version.first_log
    numbers = sorted(int(name[:-4]) for name in files if name.endswith(".log"))
    synced = synced_logs(mark, version)
    damage_count = len(result.damage)
    for number, size in sorted(synced.items()):
        if size and number not in numbers:
            result.damage.append(f"the log {number:06}.log is missing, and {size} bytes of it were synced")
    if result.kind is Kind.EARLIER and not any(number >= first for number in numbers):
        result.damage.append("the write-ahead log is missing")
    for number in numbers:
        if number < first:
            continue
        log = read_log(path, number, None if version is None else version.logless_sequences, mark)
        result.logs.append(log)
        required = synced.get(number, log.size if result.kind is Kind.EARLIER and number != numbers[-1] else 0)
        if log.is_foreign:
            result.damage.append(f"the log {number:06}.log is not the one that was written here")
        elif log.disorder is not None:
            result.damage.append(f"in the log {number:06}.log change {log.disorder[0]} stands behind {log.disorder[1]}")
        elif log.readable < required:
            result.damage.append(
                f"the log {number:06}.log can be read up to byte {log.readable}, and {required} bytes were synced"
                + _missing_changes(log, mark)
            )
        elif log.later_sequence and result.kind is Kind.EARLIER:
            result.damage.append(f"the log {number:06}.log is damaged at byte {log.readable}")
        elif log.readable < log.size:
            result.torn.append(
                f"the last {log.size - log.readable} bytes of the log {number:06}.log, which no flush had covered"
            )
            result.readable[f"{number:06}.log"] = log.readable
    if version is not None and len(result.damage) == damage_count:
        _inspect_order(result, version, synced)


def _inspect_order(result: Inspection, version: Version, synced: dict[int, int]) -> None:
    """Check the change numbers of each log against the preceding logs, the MANIFEST and the mark."""
    promised = 0 if result.mark is None else result.mark.sequence
    logs = [log for log in result.logs if log.first_sequence]
    # The MANIFEST also counts changes that are in the first log.
    last = version.last_sequence if not logs else min(version.last_sequence, logs[0].first_sequence - 1)
    for at, log in enumerate(logs):
        if not is_next_sequence(log.first_sequence, last, version.logless_sequences):
            is_promised = last < promised or any(synced.get(later.number) for later in logs[at:])
            if log.first_sequence <= last or result.mark is None or is_promised:
                result.damage.append(
                    f"the log {log.number:06}.log begins with change {log.first_sequence}, "
                    f"and the last one before it is {last}"
                )
            else:
                names = ", ".join(f"{later.number:06}.log" for later in logs[at:])
                result.torn.append(f"{names}: behind a torn end, and no flush had covered them")
                result.beyond_tear += [later.number for later in logs[at:]]
            return
        last = log.last_sequence
    if max(last, version.last_sequence) < promised:
        result.damage.append(f"changes {last + 1} to {promised}, which were synced, are missing")


def synced_logs(mark: SyncedMark | None, version: Version | None) -> dict[int, int]:
    """Return the synced bytes of each log that is still needed, by log number."""
    first = 0 if version is None else version.first_log
    return {} if mark is None else {number: size for number, size in mark.logs.items() if number >= first}


def _missing_changes(log: LogReading, mark: SyncedMark | None) -> str:
    if mark is None or mark.sequence <= log.sequence:
        return ""
    return f" (changes {log.sequence + 1} to {mark.sequence} may be missing)"


def read_log(path: Path, number: int, logless: set[int] | None = None, mark: SyncedMark | None = None) -> LogReading:
    """Return how far a write-ahead log can be read.

    `logless`: changes that are in no log; None if unknown.
    """
    reading = LogReading(number, os.stat(path / f"{number:06}.log").st_size)
    is_damaged = is_behind_gap = False
    last: int | None = None
    with open_log(path, number) as data:
        is_foreign = mark is not None and mark.heads.get(number, log_head(data[:4])) != log_head(data[:4])
        is_foreign = is_foreign and is_head_intact(data)
        for record in read_records(data):
            if isinstance(record, Gap):
                is_damaged = is_behind_gap = True
                continue
            try:
                sequence, count = batch_sequences(record.payload)
            except FormatError:
                is_damaged = is_behind_gap = True
                continue
            if last is None:
                reading.first_sequence = sequence
            elif sequence != last + 1 and reading.disorder is None:
                may_skip = is_behind_gap or logless is None
                if sequence <= last or not (may_skip or is_next_sequence(sequence, last, logless or set())):
                    reading.disorder = (sequence, last)
                    is_damaged = True
            last, is_behind_gap = sequence + count - 1, False
            if is_damaged:
                reading.later_sequence = max(reading.later_sequence, last)
            else:
                reading.readable, reading.sequence = record.end, last
    if not is_damaged:
        reading.readable = reading.size
    if is_uncovered(mark, number):
        assert mark is not None
        is_foreign = 0 < reading.first_sequence <= mark.sequence
    # The first block may also be another block of this log.
    reading.is_foreign = is_foreign and reading.disorder is None
    return reading


def is_uncovered(mark: SyncedMark | None, number: int) -> bool:
    """True if no flush has covered anything of the log."""
    # A mark names the newest logs, and those alone that had something in them.
    return (
        mark is not None and bool(mark.identity) and not mark.logs.get(number) and number >= min(mark.logs, default=0)
    )


@contextmanager
def open_log(path: Path, number: int) -> Iterator[bytes | mmap.mmap]:
    """Open a write-ahead log as bytes or an mmap."""
    with (path / f"{number:06}.log").open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def log_records(path: Path, number: int) -> Iterator[LogRecord | Gap]:
    """Yield the records of a write-ahead log and the gaps between them."""
    with open_log(path, number) as data:
        yield from read_records(data)
