"""Opens a database by a MANIFEST, finding and leaving out sorted files that cannot be opened.

A file is removed by a version edit appended to the MANIFEST, so the others keep their levels.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from docstore.storage.engine import StorageError
from docstore.storage.rocks import RocksEngine
from docstore.storage.rocks_format import TableFile, append_record, removal_edit

_NAMED_TABLE = re.compile(r"(\d{6,})\.sst")


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A sorted file of a MANIFEST, with the number and the name of its family."""

    number: int
    family: str
    file: TableFile

    @property
    def name(self) -> str:
        return f"{self.file.number:06}.sst"


@dataclass(frozen=True, slots=True)
class TableList:
    """A MANIFEST's content and its files. `is_earlier`: families that it does not name may be created."""

    manifest: bytes
    tables: Sequence[ListedTable]
    is_earlier: bool

    def open(self, directory: Path, missing: Iterable[ListedTable]) -> tuple[RocksEngine, list[ListedTable]]:
        """Return (an engine over the files of the list in a directory, the files that RocksDB cannot open).

        `missing`: files known to be absent. Errors: StorageError if nothing can be opened.
        """
        missing, damaged = list(missing), list[ListedTable]()
        while True:
            try:
                return self._open(directory, [*missing, *damaged]), damaged
            except StorageError as error:
                present = [table for table in self.tables if table not in missing and table not in damaged]
                numbers = {int(name) for name in _NAMED_TABLE.findall(str(error))}
                # Not every error message names the file.
                culprits = [table for table in present if table.file.number in numbers]
                culprits = culprits or self._find_damaged(directory, present)
                if not culprits:
                    raise
                damaged += culprits

    def _open(self, directory: Path, without: Iterable[ListedTable]) -> RocksEngine:
        content = self.manifest
        for table in without:
            content += append_record(content, removal_edit(table.number, table.file))
        (directory / "MANIFEST-000001").write_bytes(content)
        (directory / "CURRENT").write_text("MANIFEST-000001\n")
        return RocksEngine(str(directory), create=self.is_earlier)

    def _find_damaged(self, directory: Path, tables: list[ListedTable]) -> list[ListedTable]:
        """Return the files that cannot be opened, found by bisection."""
        if not tables or self._opens(directory, tables):
            return []
        if len(tables) == 1:
            return tables
        middle = len(tables) // 2
        return self._find_damaged(directory, tables[:middle]) + self._find_damaged(directory, tables[middle:])

    def _opens(self, directory: Path, tables: list[ListedTable]) -> bool:
        probe = directory / "probe"
        shutil.rmtree(probe, ignore_errors=True)
        probe.mkdir()
        for table in tables:
            link(directory / table.name, probe / table.name)
        try:
            self._open(probe, [table for table in self.tables if table not in tables]).close()
        except StorageError:
            return False
        finally:
            shutil.rmtree(probe, ignore_errors=True)
        return True


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if the file system has no links. Errors: OSError."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
