"""What is left of a database directory when the power goes: the bytes that were made durable, and no others.

RocksDB makes its sorted files and its list of files durable before it refers to them; what lies in a log is durable as
far as the log was long when the last finished flush began.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

from docstore.storage import open_engine
from tests.harness.waiting import wait_until


def copy_files(engine: Any, source: Path, target: Path) -> None:
    """Copy the directory of an open engine; no file of it is rewritten or removed meanwhile."""
    wait_until(engine.hold_files, 10)
    try:
        shutil.copytree(source, target)
    finally:
        engine.release_files()


class PowerLossEngine:
    """Satisfies `Engine`, on disk; `lose_power` copies what would be left now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = open_engine("rocksdb", str(path))
        # An open ends with a flush where it has written anything.
        self._durable = self._log_sizes()
        self._flushing = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def flush(self) -> None:
        with self._flushing:
            sizes = self._log_sizes()
            self._engine.flush()
            self._durable = sizes

    def _log_sizes(self) -> dict[str, int]:
        return {file.name: file.stat().st_size for file in self._path.glob("*.log")}

    def lose_power(self, target: Path) -> None:
        """Copy the durable bytes to a directory that is not there yet."""
        with self._flushing:
            copy_files(self._engine, self._path, target)
            for log in target.glob("*.log"):
                with log.open("r+b") as file:
                    file.truncate(self._durable.get(log.name, 0))
