"""How far a restore has come, in a file: with it, a restore that was interrupted goes on where it was.

The first line is `{"dump", "content", "server"}`, which says of which restore it is: of which files, as they were then,
and into which set or server. Each other line is `{"ns": ..., "done": ...}`, documents from the beginning of a
collection that the server has acknowledged; the last line of a collection counts. A line that is not whole was being
written when the restore ended.
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
    """Any thread may say how far it has come."""

    def __init__(self, path: Path, task: Mapping[str, str]) -> None:
        """Errors: ToolFailed for the record of another restore, or what is none."""
        self._path = path
        self._lock = threading.Lock()
        self._done: dict[str, int] = {}
        known = path.exists() and path.stat().st_size > 0
        if known:
            self._read(task)
        self._file: IO[str] = path.open("a", encoding="utf-8")
        if not known:
            self._write(task)

    def done(self, namespace: str) -> int | None:
        """How many documents have been restored; None for a collection that was not begun."""
        return self._done.get(namespace)

    def reach(self, namespace: str, count: int) -> None:
        with self._lock:
            self._write({"ns": namespace, "done": count})

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """All is done."""
        self._file.close()
        self._path.unlink()

    def _write(self, line: Mapping[str, str | int]) -> None:
        self._file.write(json.dumps(dict(line)) + "\n")
        self._file.flush()

    def _read(self, task: Mapping[str, str]) -> None:
        text = self._path.read_text("utf-8")
        whole = text[: text.rfind("\n") + 1]
        try:
            first, *rest = map(json.loads, whole.splitlines())
            if first["dump"] != task["dump"]:
                raise ToolFailed(f"{self._path} is the record of a restore of {first['dump']}")
            if first["content"] != task["content"]:
                raise ToolFailed(f"{self._path} is the record of a restore of {first['dump']} as it was before")
            if first["server"] != task["server"]:
                raise ToolFailed(f"{self._path} is the record of a restore into {first['server']}")
            self._done = {each["ns"]: each["done"] for each in rest}
        except (ValueError, TypeError, KeyError) as error:
            raise ToolFailed(f"{self._path} is no record of a restore") from error
        if len(whole) < len(text):
            self._path.write_text(whole, "utf-8")


def describe_task(client: Client, root: Path, archive: str | None) -> dict[str, str]:
    """Return the first line of a record: a dump, its files as they are now, and the set or server that it goes to."""
    hello = client.admin.command("hello")
    target = hello["setName"] if "setName" in hello else "{}:{}".format(*(client.address or ("", 0)))
    place = Path(archive) if archive is not None else root
    files = sorted(each for each in (place, *place.rglob("*")) if each.is_file())
    states = [(each.as_posix(), each.stat().st_size, each.stat().st_mtime_ns) for each in files]
    content = hashlib.sha256(json.dumps(states).encode()).hexdigest()
    return {"dump": archive or str(root.absolute()), "content": content, "server": target}
