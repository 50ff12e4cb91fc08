"""A file that records the progress of a restore: an interrupted restore continues from it.

The first line is `{"dump", "content", "server"}`, which identifies the restore: its files, in their state then, and
the target set or server. Each other line is `{"ns": ..., "done": ...}`: the number of acknowledged documents from the
beginning of a collection. The last line of a collection counts. An incomplete line was being written when the restore
ended.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from docstore.tools.connection import Client
from docstore.tools.terminal import ToolFailed


class Record:
    """The record of a restore. Any thread may note progress."""

    def __init__(self, path: Path, task: Mapping[str, str]) -> None:
        """Errors: ToolFailed for the record of another restore, or for a file that is no record."""
        self._path = path
        self._lock = threading.Lock()
        self._done: dict[str, int] = {}
        has_record = path.exists() and path.stat().st_size > 0
        if has_record:
            self._read(task)
        self._file: IO[str] = path.open("a", encoding="utf-8")
        if not has_record:
            self._write(task)

    def done(self, namespace: str) -> int | None:
        """Return how many documents have been restored; None for a collection that was not begun."""
        return self._done.get(namespace)

    def reach(self, namespace: str, count: int) -> None:
        with self._lock:
            self._write({"ns": namespace, "done": count})

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Remove the record: the restore is complete."""
        self._file.close()
        self._path.unlink()

    def _write(self, line: Mapping[str, str | int]) -> None:
        self._file.write(json.dumps(dict(line)) + "\n")
        self._file.flush()

    def _read(self, task: Mapping[str, str]) -> None:
        text = self._path.read_text("utf-8")
        complete_lines = text[: text.rfind("\n") + 1]
        try:
            first, *entries = map(json.loads, complete_lines.splitlines())
            if first["dump"] != task["dump"]:
                raise ToolFailed(f"{self._path} is the record of a restore of {first['dump']}")
            if first["content"] != task["content"]:
                raise ToolFailed(f"{self._path} is the record of a restore of {first['dump']} as it was before")
            if first["server"] != task["server"]:
                raise ToolFailed(f"{self._path} is the record of a restore into {first['server']}")
            self._done = {entry["ns"]: entry["done"] for entry in entries}
        except (ValueError, TypeError, KeyError) as error:
            raise ToolFailed(f"{self._path} is no record of a restore") from error
        if len(complete_lines) < len(text):
            self._path.write_text(complete_lines, "utf-8")


def describe_task(client: Client, root: Path, archive: str | None) -> dict[str, str]:
    """Return the first line of a record: a dump, the current state of its files, and the target set or server."""
    hello = client.admin.command("hello")
    target = hello["setName"] if "setName" in hello else "{}:{}".format(*(client.address or ("", 0)))
    dump_path = Path(archive) if archive is not None else root
    files = sorted(path for path in (dump_path, *dump_path.rglob("*")) if path.is_file())
    states = [(path.as_posix(), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    content = hashlib.sha256(json.dumps(states).encode()).hexdigest()
    return {"dump": archive or str(root.absolute()), "content": content, "server": target}
