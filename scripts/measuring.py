"""What a server has used: its process, how long the threads of that have run, and the memory that it holds."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pymongo

_SCHEDULED = 2
"""The kind of a process's clock that counts what the scheduler gave it, in the number that Linux has for the clock."""


def processor_seconds(pid: int) -> float:
    """What all threads of a process have run so far, those that have ended too; 0 where the system does not tell."""
    with contextlib.suppress(OSError):
        return time.clock_gettime(~pid << 3 | _SCHEDULED)
    return 0.0


def resident_mib(pid: int) -> float:
    """The memory that a process holds."""
    fields = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in fields if line.startswith("VmRSS"))


def server_pid(client: pymongo.MongoClient[dict[str, Any]]) -> int:
    """The process that answers; the command that started it may be another."""
    return int(client.admin.command("serverStatus")["pid"])
