"""Replays write-ahead logs into another database, also behind damage, and reports missing changes.

RocksDB stops at the first damage, and skips families that no sorted file names. Here every readable record is applied,
because it holds the newest value of its keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from docstore.log import component
from docstore.storage.directory import engine_files, manifests
from docstore.storage.engine import Batch, Family, Urgency
from docstore.storage.inspection import Inspection, LogReading, is_uncovered, log_records, read_log, synced_logs
from docstore.storage.repairs import Loss
from docstore.storage.rocks import RocksEngine
from docstore.storage.rocks_format import (
    DELETE,
    PUT,
    FormatError,
    Gap,
    LogRecord,
    Version,
    batch_operations,
    batch_sequences,
    is_next_sequence,
    read_records,
)

LOG = component("STORAGE")

_FAMILIES = {family.name.lower(): family for family in Family}


def replay_logs(
    path: Path, state: Inspection, version: Version | None, target: RocksEngine, *, is_whole_history: bool
) -> list[Loss]:
    """Apply the changes of the logs that no sorted file has; return the losses.

    `is_whole_history`: there is neither a list of files nor a file, so the logs must begin with the first change.
    """
    losses: list[Loss] = []
    families = _family_numbers(path, state, version)
    synced = synced_logs(state.mark, version)
    first = 0 if version is None else version.first_log
    numbers = [number for number in _log_numbers(path) if number >= first]
    for number, size in sorted(synced.items()):
        present = (path / f"{number:06}.log").stat().st_size if number in numbers else 0
        if present < size:
            losses.append(Loss(f"the log {number:06}.log has {present} bytes, and {size} were synced"))
    order = _Order(0 if is_whole_history else None, version)
    unknown = 0
    for number in numbers:
        log = read_log(path, number, order.logless, state.mark)
        if log.is_foreign:
            losses.append(Loss(f"the log {number:06}.log is not the one that was written here, and was left out"))
            order.has_gap = True
            continue
        if log.first_sequence and is_uncovered(state.mark, number) and not order.is_followed_by(log.first_sequence):
            # As at a start: its changes may depend on lost ones, if they are of this directory at all.
            losses.append(
                Loss(
                    f"the log {number:06}.log begins with change {log.first_sequence}, which does not follow what is "
                    "there; no flush had covered it, and it was left out"
                )
            )
            order.has_gap = True
            continue
        flushed = set() if version is None else {f.name for f in version.families.values() if number < f.log_number}
        for record in _sorted_batches(path, log) if log.disorder else _readable_batches(path, number):
            if record is None:
                order.has_gap = True
                continue
            loss, is_new = order.follow(*batch_sequences(record))
            losses += loss
            if is_new:
                batch, strangers = _batch_of(record, families, flushed)
                unknown += strangers
                target.write(batch)
    promised = 0 if state.mark is None or not any(synced.values()) else state.mark.sequence
    if (order.last or 0) < promised:
        begin = "the changes" if order.last is None else f"changes {order.last + 1}"
        losses.append(Loss(f"{begin} to {promised} of the log, which were synced, are missing"))
    if unknown:
        losses.append(Loss(f"{unknown} changes in the logs are of families that nothing names"))
    return losses


class _Order:
    """Checks that change numbers are consecutive. `has_gap`: the preceding records are unreadable."""

    def __init__(self, last: int | None, version: Version | None) -> None:
        self.last = last
        self.has_gap = False
        self.logless = None if version is None else version.logless_sequences
        self._listed = None if version is None else version.last_sequence

    def follow(self, sequence: int, count: int) -> tuple[list[Loss], bool]:
        """Return (the losses before a batch, True if it comes after the preceding ones)."""
        last, has_gap = self.last, self.has_gap
        if count and last is not None and sequence <= last:
            return [Loss(f"changes {sequence} to {sequence + count - 1} of the log are there a second time")], False
        is_next = self.is_followed_by(sequence)
        self.last, self.has_gap = sequence + count - 1, False
        if last is None and (has_gap or not is_next):
            return [Loss(f"the changes of the log before number {sequence} are missing")], True
        if last is not None and not is_next:
            return [Loss(f"changes {last + 1} to {sequence - 1} of the log are missing")], True
        return [], True

    def is_followed_by(self, sequence: int) -> bool:
        """True if the change comes next, as far as can be told."""
        last = self.last
        if last is None:
            last = sequence - 1 if self._listed is None else min(self._listed, sequence - 1)
        elif not self.has_gap and self.logless is None and last != 0:
            # Without the list of files, the numbers taken by ingested files are unknown.
            return True
        return is_next_sequence(sequence, last, self.logless or set())


def _log_numbers(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in engine_files(path) if file.suffix == ".log")


def _readable_batches(path: Path, number: int) -> Iterator[bytes | None]:
    """Yield the write batches of a log, and None for each gap between them."""
    for record in log_records(path, number):
        if isinstance(record, Gap):
            LOG.warning("A log cannot be read", log=number, start=record.start, end=record.end)
        yield None if isinstance(record, Gap) else _checked_batch(number, record)


def _checked_batch(number: int, record: LogRecord) -> bytes | None:
    try:
        batch_sequences(record.payload)
        for _ in batch_operations(record.payload):
            pass
    except FormatError as error:
        LOG.warning("A record of a log cannot be read", log=number, end=record.end, error=str(error))
        return None
    return record.payload


def _first_sequence(record: LogRecord | Gap | None) -> int | None:
    try:
        return batch_sequences(record.payload)[0] if isinstance(record, LogRecord) else None
    except FormatError:
        return None


def _sorted_batches(path: Path, log: LogReading) -> list[bytes | None]:
    """Return the write batches of a log whose blocks are out of order, in the order of writing.

    A record with fragments in two blocks is left out unless its successor follows: the fragments may be of two records.
    """
    LOG.warning("A log is out of order", log=log.number)
    batches: list[bytes] = []
    records = [*log_records(path, log.number), None]
    for record, following in pairwise(records):
        payload = _checked_batch(log.number, record) if isinstance(record, LogRecord) else None
        if payload is None or not isinstance(record, LogRecord):
            continue
        sequence, count = batch_sequences(payload)
        if not record.is_joined or _first_sequence(following) == sequence + count:
            batches.append(payload)
    in_order: list[bytes | None] = []
    for payload in sorted(batches, key=batch_sequences):
        # Their numbers show if anything is missing between them.
        in_order += [payload, None]
    return in_order


def _batch_of(payload: bytes, families: dict[int, str], flushed: set[str]) -> tuple[Batch, int]:
    """Return (the changes of a record that no sorted file has, how many are of unknown families)."""
    batch = Batch()
    batch.urgency = Urgency.CONSENSUS
    unknown = 0
    for kind, number, key, value in batch_operations(payload):
        name = families.get(number, "")
        if name in flushed:
            continue
        family = _FAMILIES.get(name)
        if family is None:
            unknown += name != "default"
        elif kind is PUT:
            batch.put(family, key, value)
        elif kind is DELETE:
            batch.delete(family, key)
        else:
            batch.delete_range(family, key, value)
    return batch, unknown


def _family_numbers(path: Path, state: Inspection, version: Version | None) -> dict[int, str]:
    """Return the names of RocksDB's families by number, as far as recorded."""
    if version is not None:
        return {number: family.name for number, family in version.families.items()}
    numbers: dict[int, str] = {0: "default"}
    for file in reversed(manifests(path)):
        partial = Version()
        for record in read_records(file.read_bytes()):
            if not isinstance(record, Gap):
                try:
                    partial.apply(record.payload)
                except FormatError:
                    continue
        numbers.update((number, family.name) for number, family in partial.families.items())
    if state.marker is not None:
        numbers.update((number, name) for name, number in state.marker.families.items())
    return numbers
