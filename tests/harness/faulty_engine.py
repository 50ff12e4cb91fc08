"""An engine over a good one that does what a bad disk does, when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docstore.storage import Batch, DataCorrupted, DiskFull, Engine, Family, StorageError


class FaultyEngine:
    """Satisfies `Engine`. Set `write_error`, `flush_error`, or put keys into `damaged`, whose reads then fail.

    `after` writes pass before `write_error` shows; `refused` counts what did not.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.write_error: BaseException | None = None
        self.flush_error: StorageError | None = None
        self.damaged: set[bytes] = set()
        self.after = 0
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def fill_disk(self, after: int = 0) -> None:
        self.write_error, self.after = DiskFull("no room"), after

    def write(self, batch: Batch) -> None:
        if self.write_error is not None:
            self.after -= 1
            if self.after < 0:
                self.refused += 1
                raise self.write_error
        self._engine.write(batch)

    def flush(self) -> None:
        if self.flush_error is not None:
            raise self.flush_error
        self._engine.flush()

    def get(self, family: Family, key: bytes) -> bytes | None:
        self._check(key)
        return self._engine.get(family, key)

    def values(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return (value for _, value in self.items(family, start, end, reverse))

    def keys(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[bytes]:
        return (key for key, _ in self.items(family, start, end, reverse))

    def items(self, family: Family, start: bytes, end: bytes, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._engine.items(family, start, end, reverse):
            self._check(key)
            yield key, value

    def _check(self, key: bytes) -> None:
        if key in self.damaged:
            raise DataCorrupted("a checksum does not fit")
