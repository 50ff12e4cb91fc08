"""Compares a data directory with what must be there, and changes nothing.

The MANIFEST lists the sorted files with their sizes and the first log that is needed; the synced mark says how much of
the MANIFEST and of the logs a flush has covered. What is missing of that is damage. The end of a log that no flush has
covered may be torn, as a loss of power leaves it: it is dropped, and that is logged.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from docstore.storage.directory import (
    ADOPTING,
    MAKING,
    MARKER,
    SYNCED,
    Marker,
    SyncedMark,
    engine_files,
    read_mark,
    read_marker,
)
from docstore.storage.durable import Unreadable
from docstore.storage.engine import StorageError
from docstore.storage.rocks_format import (
    FormatError,
    Gap,
    LogRecord,
    TableFile,
    Version,
    batch_sequences,
    read_records,
)


class Kind(Enum):
    """What a directory is, by its files."""

    NEW = "new"
    """It holds no file of a database."""
    UNFINISHED = "unfinished"
    """It was being made when the process ended: nothing was ever acknowledged."""
    MADE = "made"
    EARLIER = "earlier"
    """It was written by a version that made no marker, or is the copy of one."""


class DirectoryDamaged(StorageError):
    """Something that must be in a data directory is not there, or not as it was written."""


@dataclass(slots=True)
class LogReading:
    """What a write-ahead log holds. `readable` bytes are good from its begin on; `sequence` is their last change.

    `later_sequence` is the last change that can be read behind damage, if any.
    """

    number: int
    size: int
    readable: int
    sequence: int
    later_sequence: int


@dataclass(slots=True)
class Inspection:
    """`damage` says what is missing or wrong; `torn`, which ends of logs were never synced and cannot be read."""

    kind: Kind
    marker: Marker | None = None
    mark: SyncedMark | None = None
    version: Version | None = None
    missing: list[tuple[int, TableFile]] = field(default_factory=list)
    """(family, file) of each sorted file that is not there, or has another size."""
    logs: list[LogReading] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)

    def require_sound(self, path: Path) -> None:
        """Errors: DirectoryDamaged."""
        if self.damage:
            raise DirectoryDamaged(
                f"the data directory {path} is damaged: {'; '.join(self.damage)}. Nothing was changed. Put back what "
                "is missing, or run --repair, which saves what can be read and says what is lost. A member of a "
                "replica set can instead be started with an empty directory, and copies the data of the others"
            )


def inspect(path: Path) -> Inspection:
    """Return what a directory is and what is wrong with it. Errors: StorageError for a layout of another version."""
    damage: list[str] = []
    marker = mark = None
    try:
        marker = read_marker(path)
    except Unreadable as error:
        damage.append(str(error))
    try:
        mark = read_mark(path)
    except Unreadable as error:
        damage.append(str(error))
    files = {file.name: file.stat().st_size for file in engine_files(path)}
    if marker is not None and marker.state == MAKING:
        return Inspection(Kind.UNFINISHED, marker)
    data = [name for name in files if name != "LOCK" and not name.endswith(".json")]
    if marker is None and mark is None and not damage:
        if not data:
            return Inspection(Kind.NEW)
        result = Inspection(Kind.EARLIER)
    elif marker is not None and marker.state == ADOPTING:
        result = Inspection(Kind.EARLIER, marker)
    else:
        result = Inspection(Kind.MADE, marker, mark, damage=damage)
        if marker is None and not (path / MARKER).exists():
            damage.append(f"the file {MARKER} is missing")
        if mark is None and not (path / SYNCED).exists():
            damage.append(f"the file {SYNCED} is missing")
    _inspect_manifest(path, result, files)
    _inspect_tables(result, files)
    _inspect_logs(path, result, files)
    return result


def _inspect_manifest(path: Path, result: Inspection, files: dict[str, int]) -> None:
    """Read the list of files; `result.version` stays None where it is not whole."""
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
    result.version = version


def read_manifest(file: Path, mark: SyncedMark | None) -> Version | str:
    """Return the state that a MANIFEST describes, or why it is not whole."""
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
    for number, size in sorted(synced.items()):
        if size and number not in numbers:
            result.damage.append(f"the log {number:06}.log is missing, and {size} bytes of it were synced")
    for number in numbers:
        if number < first:
            continue
        log = read_log(path, number)
        result.logs.append(log)
        required = synced.get(number, log.size if result.kind is Kind.EARLIER and number != numbers[-1] else 0)
        if log.readable < required:
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


def synced_logs(mark: SyncedMark | None, version: Version | None) -> dict[int, int]:
    """Return how many bytes of each log that is still needed have been synced, by the log's number."""
    first = 0 if version is None else version.first_log
    return {} if mark is None else {number: size for number, size in mark.logs.items() if number >= first}


def _missing_changes(log: LogReading, mark: SyncedMark | None) -> str:
    if mark is None or mark.sequence <= log.sequence:
        return ""
    return f" (changes {log.sequence + 1} to {mark.sequence} may be missing)"


def read_log(path: Path, number: int) -> LogReading:
    """Return how far a write-ahead log can be read."""
    reading = LogReading(number, os.stat(path / f"{number:06}.log").st_size, 0, 0, 0)
    is_damaged = False
    for record in log_records(path, number):
        if isinstance(record, Gap):
            is_damaged = True
            continue
        try:
            sequence, count = batch_sequences(record.payload)
        except FormatError:
            is_damaged = True
            continue
        if is_damaged:
            reading.later_sequence = sequence + count - 1
        else:
            reading.readable, reading.sequence = record.end, sequence + count - 1
    if not is_damaged:
        reading.readable = reading.size
    return reading


def log_records(path: Path, number: int) -> Iterator[LogRecord | Gap]:
    """Yield the records of a write-ahead log and the gaps between them."""
    with (path / f"{number:06}.log").open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from read_records(data)
