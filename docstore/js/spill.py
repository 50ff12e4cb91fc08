"""Sorted runs on disk.

A run is a file of `{_id, value}` documents put end to end, sorted by `_id` in MongoDB's order; keys are distinct
within it. Runs of one operation live in a directory of their own that disappears with it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from docstore.js.merge import merge_sorted
from docstore.query.value.ordering import Ordering

READ_SIZE = 256 * 1024


def read_documents(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the documents of a file."""
    while head := source.read(4):
        yield head + source.read(int.from_bytes(head, "little") - 4)


class SpillDirectory:
    """The runs of one operation, below `parent`. Use as a context manager."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent
        self._directory: Path | None = None
        self._runs: list[Path] = []

    def __enter__(self) -> SpillDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            shutil.rmtree(self._directory)

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, chunks: Iterable[memoryview]) -> None:
        """Write one run."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="mapreduce-", dir=self._parent))
        path = self._directory / f"run{len(self._runs)}"
        with path.open("xb") as sink:
            for chunk in chunks:
                sink.write(chunk)
        self._runs.append(path)

    def merged(self, ordering: Ordering) -> Iterator[bytes]:
        """Yield all runs merged into one sorted stream."""
        files = [path.open("rb", buffering=READ_SIZE) for path in self._runs]
        try:
            yield from merge_sorted([read_documents(file) for file in files], ordering)
        finally:
            for file in files:
                file.close()
