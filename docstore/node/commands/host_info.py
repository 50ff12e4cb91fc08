"""hostInfo: describe the machine and the operating system."""

from __future__ import annotations

import os
import platform
import socket

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role
from docstore.node.node import node_of

MEBIBYTE = 1024 * 1024


def run(context: Context, _arguments: Arguments) -> Result:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // MEBIBYTE
    cores = os.cpu_count() or 1
    return {
        "system": {
            "currentTime": node_of(context).now(),
            "hostname": f"{socket.gethostname()}:{node_of(context).settings.port}",
            "cpuAddrSize": 64,
            "memSizeMB": memory,
            "memLimitMB": memory,
            "numCores": cores,
            "cpuArch": platform.machine(),
        },
        "os": {"type": platform.system(), "name": platform.platform(), "version": f"Kernel {platform.release()}"},
        "extra": {"pageSize": os.sysconf("SC_PAGE_SIZE"), "pythonVersion": platform.python_version()},
    }


COMMAND = Command(
    "hostInfo", run, privilege=Privilege("hostInfo", Resource.CLUSTER), role=Role.ANY, help="the machine of this node"
)
