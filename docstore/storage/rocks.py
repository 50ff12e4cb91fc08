# cython: annotation_typing=False
"""The RocksDB engine, through `rocksdict` in raw mode. The only module that depends on the library.

One directory, one write-ahead log, one column family per `Family`. Traps of rocksdict 0.3.29 that shape the code:

* The lower bound of `ReadOptions` sets the upper one, so only upper bounds are used, and a reverse scan checks its
  start itself.
* An iterator does not keep its `ReadOptions` alive, but reads the bound from their memory: if they are freed, rows are
  missed.
* `write` consumes a `WriteBatch`; `raw_mode` must be set on `Options` and on `WriteBatch`.
* Iterators of a snapshot show the newest state; only its `[key]` reads the snapshot: see
  `docstore.storage.rocks_snapshot`.
* A missing key in a snapshot raises a plain `Exception`, distinguishable only by its text.
* A write with `sync` holds the interpreter lock during the fsync; `flush_wal(True)` releases it. So writes never use
  `sync`, and `flush` runs in a thread of its own.
* Iterators end silently at a damaged block: `docstore.storage.rocks_snapshot` checks why they ended.
* After a full disk the log accepts nothing until it is opened again, not even `flush_wal`, and `close` reports the
  error once more.
* Live iterators keep the directory locked after `close`. Snapshots are closed with the engine; closing iterators is up
  to their creators.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import cython
from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    DBRecoveryMode,
    IngestExternalFileOptions,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from docstore.kernel.log.batches import put_changes
from docstore.kernel.scan.kept import KeptValues
from docstore.kernel.scan.watched import Sought
from docstore.log import component
from docstore.storage.directory import SyncedMarks, engine_files, mark_directory, read_marker
from docstore.storage.disk_space import DiskSpace, disk_space
from docstore.storage.engine import Batch, DiskFull, Family, Get, Range, StorageError
from docstore.storage.removed_keys import RemovedKeys, merge_removed_keys
from docstore.storage.rocks_load import NO_SPACE, FileLoad, LoadedFiles
from docstore.storage.rocks_snapshot import RocksSnapshot, Versions, check_status, iterate_ranges, read_error, sought

LOG = component("STORAGE")
_MIB = 1 << 20
_WORK_UNDER_WAY = ("rocksdb.num-running-flushes", "rocksdb.num-running-compactions")
_POLL_SECONDS = 0.005
_CONFIGURATION = "rocksdict-config.json"
_FIGURE = re.compile(r"(raw (?:key|value) size)=(\d+)")
_RATIO_SECONDS = 5.0

# Most writes are records; the other families have small memtables so that an idle node stays small.
_MEMTABLE_BYTES = {
    Family.RECORDS: 16 * _MIB,
    Family.INDEXES: 16 * _MIB,
    Family.OPLOG: 16 * _MIB,
    Family.UNDO: 8 * _MIB,
    Family.META: 4 * _MIB,
    Family.WIDE: 16 * _MIB,
}


_SETTLING = {"bottommost_file_compaction_delay": str(24 * 3_600)}
"""Delay of the second rewrite of files at the last level.

RocksDB rewrites such a file when the snapshot that was open at its creation is closed, to drop old versions. Here a
snapshot is always open, so every file was written twice, nearly always in vain, as few keys have several versions.
Files that do are compacted with later ones, or after this delay.
"""
_LASTING = (Family.RECORDS, Family.INDEXES, Family.OPLOG, Family.WIDE)
"""Families with much data at the last level. (Setting an option takes some milliseconds.)"""

_KEPT_PARTS = {Family.RECORDS: 4, Family.INDEXES: 12}
"""Families whose values are cached by key, each with the divisor of the block cache size that gives its cache size."""


class RocksEngine:
    """The engine; see the module.

    * `cache_bytes` bounds the block cache (uncompressed blocks of sorted files). The cache of values by key takes a
      third of that in addition, and all memtables together up to 64 MiB.
    * `create`: create missing files, for a new directory. Errors: StorageError if RocksDB cannot open it.
    * `lock`, if set, is closed with the engine.

    Directories with data are opened through `docstore.storage.opening`, which inspects them first.
    """

    __weakref__: object

    def __init__(self, path: str, *, cache_bytes: int = 64 * _MIB, create: bool = False) -> None:
        self.path = path
        # The default cache has 64 shards, none of which fits a block with a large document: that block would be read
        # and uncompressed again for every small document in it.
        cache = Cache.new_hyper_clock_cache(cache_bytes, 0)
        try:
            self._db = Rdict(
                path,
                _options(cache, 4 * _MIB, create=create),
                column_families={
                    family.name.lower(): _options(cache, _MEMTABLE_BYTES[family], create=create) for family in Family
                },
            )
        except Exception as error:  # rocksdict raises nothing narrower
            raise StorageError(f"the database in {path} cannot be opened: {error}") from error
        self._cache = cache
        self._families = tuple(self._db.get_column_family(family.name.lower()) for family in Family)
        for family in _LASTING:
            self._families[family].set_options(_SETTLING)
        self._handles = tuple(self._db.get_column_family_handle(family.name.lower()) for family in Family)
        gets = [_reading(family.get) for family in self._families]
        self._kept = {family: KeptValues(gets[family], cache_bytes // part) for family, part in _KEPT_PARTS.items()}
        self._gets = tuple(self._kept[family].get if family in self._kept else gets[family] for family in Family)
        self._write_options = WriteOptions()
        self._versions = Versions(self._families, self._gets)
        self._room = DiskSpace(path)
        self._files = LoadedFiles(path, _options(cache, _MIB), self._room, self._bring_in)
        self._ingestion = IngestExternalFileOptions()
        self._ingestion.set_move_files(True)
        self._out_of_space = False
        self._ratios: dict[Family, tuple[float, float]] = {}
        self._writes = 0
        self._removed = RemovedKeys(self._families, path)
        self._marks = SyncedMarks(Path(path))
        # The changes of logs found at opening are in sorted files now, which are synced.
        self._marks.record(self._marks.observe(), self._db.latest_sequence_number())
        self.lock: int | None = None
        self._open = True

    @cython.ccall
    def get(self, family: Family, key: bytes) -> bytes | None:
        return self._gets[family](key)

    def getter(self, family: Family) -> Get:
        """Return the function of `docstore.storage.engine.getter_of`."""
        return self._gets[family]

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self._versions.walk(family, "items", start, end, reverse)

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return self._versions.walk(family, "keys", start, end, reverse)

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return self._versions.walk(family, "values", start, end, reverse)

    def of_ranges(self, family: Family, ranges: Sequence[Range], values: bool) -> Iterator[bytes]:
        """Return the keys or values in many ranges (`docstore.storage.engine.keys_of_ranges`)."""
        return iterate_ranges(self._families[family], ranges, values)

    def sought(self, family: Family, end: bytes, *, pairs: bool) -> Sought:
        """Return a seekable iterator (`docstore.storage.engine.seeking`)."""
        return sought(self._families[family], end, pairs=pairs)

    def walk(self, family: Family) -> Any:
        """Return rocksdict's own iterator over a family, which can step over damage."""
        return self._families[family].iter()

    @cython.ccall
    def write(self, batch: Batch) -> None:
        self._room.check(batch)
        self._versions.before_write(batch)
        target = WriteBatch(raw_mode=True)
        for family, start, end in batch.ranges:
            target.delete_range(start, end, self._handles[family])
        any_removed = put_changes(target, self._handles, batch.changes, self._removed.counts)
        try:
            self._db.write(target, self._write_options)
        except Exception as error:  # rocksdict raises nothing narrower
            if self._out_of_space or NO_SPACE in str(error):
                # The log accepts nothing after this, so nothing can follow a partial record.
                self._out_of_space = True
                raise DiskFull(f"the disk of {self.path} is full; make room and start again: {error}") from error
            raise StorageError(f"the write to {self.path} failed: {error}") from error
        for family, cache in self._kept.items():
            cache.change(batch.changes[family])
        for family, _, _ in batch.ranges:
            if family in self._kept:
                self._kept[family].forget()
        self._writes += 1
        if any_removed:
            self._removed.write_out_many()
        if self._room.wants_room():
            self._removed.write_out_all()
        if self._files.loads:
            self._files.note(batch)

    def compact_removed(self) -> None:
        self._removed.write_out()

    def begin_load(self, family: Family, start: bytes, end: bytes) -> FileLoad:
        return self._files.begin(family, start, end)

    def _bring_in(self, family: Family, file: str, later: Batch) -> None:
        # Snapshots treat it as the removal of a range, because the changed keys are not listed.
        everything = Batch()
        everything.ranges.append((family, b"", b""))
        self._versions.before_write(everything)
        self._families[family].ingest_external_file([file], self._ingestion)
        if family in self._kept:
            self._kept[family].forget()
        if later:
            self.write(later)

    def snapshot(self) -> RocksSnapshot:
        return RocksSnapshot(self._versions)

    def flush(self) -> None:
        try:
            if self._out_of_space:
                # A log may end with a partial record, which no mark may cover.
                _sync_logs(self.path)
                return
            sequence = self._db.latest_sequence_number()
            observed = self._marks.observe()
            self._db.flush_wal(True)
            self._marks.record(observed, sequence)
        except Exception as error:  # rocksdict raises nothing narrower
            raise StorageError(f"the log in {self.path} could not be flushed: {error}") from error

    def checkpoint(self, path: str) -> None:
        try:
            # A checkpoint that has to flush memtables would hold the interpreter lock meanwhile.
            for family in self._families:
                family.flush(wait=False)
            while any(family.property_int_value("rocksdb.num-immutable-mem-table") for family in self._families):
                sleep(_POLL_SECONDS)
            Checkpoint(self._db).create_checkpoint(path)
            marker = read_marker(Path(self.path))
            if marker is not None:
                mark_directory(Path(path), marker)
        except Exception as error:  # rocksdict raises nothing narrower
            raise StorageError(f"no checkpoint of {self.path} in {path}: {error}") from error

    def hold_files(self) -> bool:
        _set_compaction(self._families, disabled=True)
        return not any(family.property_int_value(name) for family in self._families[:1] for name in _WORK_UNDER_WAY)

    def release_files(self) -> None:
        _set_compaction(self._families, disabled=False)

    def ratio(self, family: Family) -> float:
        measured = self._ratios.get(family)
        now = monotonic()
        if measured is None or now - measured[0] > _RATIO_SECONDS:
            measured = self._ratios[family] = (now, _measured_ratio(self._families[family]))
        return measured[1]

    def stats(self) -> dict[str, Any]:
        metrics: dict[str, Any] = {"name": "rocksdb", "batches": self._writes, "cacheBytes": self._cache.get_usage()}
        for label, name in (
            ("memtableBytes", "rocksdb.cur-size-all-mem-tables"),
            ("fileBytes", "rocksdb.live-sst-files-size"),
            ("pendingCompactionBytes", "rocksdb.estimate-pending-compaction-bytes"),
        ):
            metrics[label] = sum(family.property_int_value(name) or 0 for family in self._families)
        metrics["diskFreeBytes"], metrics["diskTotalBytes"] = disk_space(self.path)
        return metrics

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        self._removed.close()
        self._versions.close()
        self._gets = ()
        self._kept = {}
        self._families = ()
        self._handles = ()
        try:
            self._db.close()
        except Exception as error:  # rocksdict raises nothing narrower
            LOG.warning("The storage engine has not closed cleanly", path=self.path, error=str(error))
        self._marks.close()
        if self.lock is not None:
            os.close(self.lock)


def _set_compaction(families: tuple[Any, ...], *, disabled: bool) -> None:
    for family in families:
        family.set_options({"disable_auto_compactions": str(disabled).lower()})


def _measured_ratio(source: Any) -> float:
    """Return the bytes in a family's files per byte of its keys and values."""
    metrics = dict(_FIGURE.findall(source.property_value("rocksdb.aggregated-table-properties") or ""))
    raw = int(metrics.get("raw key size", 0)) + int(metrics.get("raw value size", 0))
    return (source.property_int_value("rocksdb.total-sst-files-size") or 0) / raw if raw else 1.0


def _reading(get: Get) -> Get:
    """Return rocksdict's `get` with its errors converted to those of this package."""

    def read(key: bytes) -> bytes | None:
        try:
            return get(key)
        except Exception as error:  # rocksdict raises nothing narrower
            raise read_error(error) from error

    return read


def _sync_logs(path: str) -> None:
    """Sync the log files directly: RocksDB has passed all writes before the full disk to them."""
    for log in Path(path).glob("*.log"):
        descriptor = os.open(log, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_unopened(
    path: Path, family: Family, keys: Sequence[bytes], readable: Mapping[str, int], *, with_logs: bool
) -> list[bytes | None]:
    """Return the values of keys in a directory that no process has open, without changing it. Errors: StorageError.

    The whole family is read, so damage in it is an error. `with_logs`: include the write-ahead logs.
    `readable`: how many bytes of files with a torn end are read.
    """
    name = family.name.lower()
    options = Options(raw_mode=True)
    stored: dict[bytes, bytes] = {}
    # RocksDB writes its text log beside the files it reads, so it reads links; rocksdict writes its own file through
    # one.
    with tempfile.TemporaryDirectory() as links:
        for file in engine_files(path):
            if file.name not in ("LOCK", _CONFIGURATION) and (with_logs or file.suffix != ".log"):
                if file.name in readable:
                    # RocksDB may read on for ever in a torn end.
                    Path(links, file.name).write_bytes(file.read_bytes()[: readable[file.name]])
                else:
                    Path(links, file.name).symlink_to(file.resolve())
        try:
            database = Rdict(links, options, column_families={name: options}, access_type=AccessType.read_only())
            try:
                walk = database.get_column_family(name).iter()
                walk.seek_to_first()
                while (key := walk.key()) is not None:
                    if key in keys:
                        stored[key] = walk.value()
                    walk.next()
                check_status(walk)
            finally:
                database.close()
        except Exception as error:  # rocksdict raises nothing narrower
            raise StorageError(str(error).replace(links, str(path))) from error
    return [stored.get(key) for key in keys]


def remake_file_list(path: str) -> None:
    """Rebuild the MANIFEST, without which a database cannot be opened, from the sorted files. Errors: StorageError."""
    try:
        Rdict.repair(path, _options(Cache(_MIB), 4 * _MIB, create=True))
    except Exception as error:  # rocksdict raises nothing narrower
        raise StorageError(f"the database in {path} is beyond repair: {error}") from error


def _options(cache: Cache, memtable_bytes: int, *, create: bool = False) -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_block_size(16 * 1024)
    table.set_bloom_filter(10, False)
    table.set_format_version(5)
    options = Options(raw_mode=True)
    options.create_if_missing(create)
    options.create_missing_column_families(create)
    # Recover up to the first damage: `docstore.storage.inspection` has verified that nothing behind it was synced.
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(memtable_bytes)
    options.set_max_write_buffer_number(3)
    options.set_db_write_buffer_size(64 * _MIB)
    options.set_max_total_wal_size(128 * _MIB)
    # At the last level too: there zstd takes a quarter less disk, while an uncached scan takes 1.6 times as long
    # (documents of 300 bytes: 0.47 us each instead of 0.29), a lookup 1.5 times.
    options.set_compression_type(DBCompressionType.lz4())
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(4 * _MIB)
    options.set_max_open_files(512)
    merge_removed_keys(options)
    return options
