"""What a server has used: its process, and how long the threads of that have run."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pymongo


def processor_seconds(pid: int) -> float:
    """What the threads of a process that are alive have run so far; 0 where the system does not tell."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(file.read_text().split()[0])
    return total / 1e9


def server_pid(client: pymongo.MongoClient[dict[str, Any]]) -> int:
    """The process that answers; the command that started it may be another."""
    return int(client.admin.command("serverStatus")["pid"])
