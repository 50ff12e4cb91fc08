"""The machine and the operating system of this process, for hostInfo."""

from __future__ import annotations

import os
import platform
from typing import Any

from bson.datetime_ms import DatetimeMS

_MEBIBYTE = 1024 * 1024


def machine_report(hostname: str, port: int, now: float) -> dict[str, Any]:
    """Return the reply of hostInfo. `now`: seconds since 1970."""
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    memory = page_bytes * os.sysconf("SC_PHYS_PAGES") // _MEBIBYTE
    return {
        "system": {
            "currentTime": DatetimeMS(int(now * 1000)),
            "hostname": f"{hostname}:{port}",
            "cpuAddrSize": 64,
            "memSizeMB": memory,
            "memLimitMB": memory,
            "numCores": os.cpu_count() or 1,
            "cpuArch": platform.machine(),
        },
        "os": {"type": platform.system(), "name": platform.platform(), "version": f"Kernel {platform.release()}"},
        "extra": {"pageSize": page_bytes, "pythonVersion": platform.python_version()},
    }
