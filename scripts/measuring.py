"""What a server has used: its process, how long the threads of that have run, and the memory that it holds."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pymongo

_TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """What the threads of a process that are alive have run so far; 0 where the system does not tell."""
    total = 0
    for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(file.read_text().split()[0])
    return total / 1e9


def process_seconds(pid: int) -> float:
    """What all threads of a process have run so far, those that have ended too; in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(pid: int) -> float:
    """The memory that a process holds."""
    fields = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in fields if line.startswith("VmRSS"))


def server_pid(client: pymongo.MongoClient[dict[str, Any]]) -> int:
    """The process that answers; the command that started it may be another."""
    return int(client.admin.command("serverStatus")["pid"])
