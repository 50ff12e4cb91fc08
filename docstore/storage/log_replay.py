"""Replays write-ahead logs into another database, also behind damage, and says what is missing of them.

RocksDB stops at the first damage, and passes over families that no sorted file names. Here every record that can be
read counts, as it holds the newest state of what it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docstore.log import component
from docstore.storage.directory import engine_files, manifests
from docstore.storage.engine import Batch, Family, Urgency
from docstore.storage.inspection import Inspection, log_records, synced_logs
from docstore.storage.repairs import Loss
from docstore.storage.rocks import RocksEngine
from docstore.storage.rocks_format import (
    DELETE,
    PUT,
    FormatError,
    Gap,
    Version,
    batch_operations,
    batch_sequences,
    read_records,
)

LOG = component("STORAGE")

_FAMILIES = {family.name.lower(): family for family in Family}


def replay_logs(
    path: Path, state: Inspection, version: Version | None, target: RocksEngine, *, is_whole_history: bool
) -> list[Loss]:
    """Apply what the logs hold and no sorted file does; return what is missing of the logs.

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
    last = 0 if is_whole_history else None
    is_damaged, unknown = is_whole_history, 0
    for number in numbers:
        flushed = set() if version is None else {f.name for f in version.families.values() if number < f.log_number}
        for record in _readable_batches(path, number):
            if record is None:
                is_damaged = True
                continue
            sequence, count = batch_sequences(record)
            batch, strangers = _batch_of(record, families, flushed)
            if is_damaged and last is None:
                losses.append(Loss(f"the changes of the log before number {sequence} are missing"))
            elif is_damaged and last is not None and sequence > last + 1:
                losses.append(Loss(f"changes {last + 1} to {sequence - 1} of the log are missing"))
            is_damaged, last, unknown = False, sequence + count - 1, unknown + strangers
            target.write(batch)
    promised = 0 if state.mark is None or not any(synced.values()) else state.mark.sequence
    if (last or 0) < promised:
        begin = "the changes" if last is None else f"changes {last + 1}"
        losses.append(Loss(f"{begin} to {promised} of the log, which were synced, are missing"))
    if unknown:
        losses.append(Loss(f"{unknown} changes in the logs are of families that nothing names"))
    return losses


def _log_numbers(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in engine_files(path) if file.suffix == ".log")


def _readable_batches(path: Path, number: int) -> Iterator[bytes | None]:
    """Yield the write batches of a log, and None for each gap between them."""
    for record in log_records(path, number):
        if isinstance(record, Gap):
            LOG.warning("A log cannot be read", log=number, start=record.start, end=record.end)
            yield None
            continue
        try:
            batch_sequences(record.payload)
            for _ in batch_operations(record.payload):
                pass
        except FormatError as error:
            LOG.warning("A record of a log cannot be read", log=number, end=record.end, error=str(error))
            yield None
            continue
        yield record.payload


def _batch_of(payload: bytes, families: dict[int, str], flushed: set[str]) -> tuple[Batch, int]:
    """Return the changes of a record that no sorted file holds, and how many are of unknown families."""
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
    """Return the names of RocksDB's families by their numbers, as far as anything says so."""
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
