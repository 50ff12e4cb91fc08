"""hostInfo: describe the machine and the operating system."""

from __future__ import annotations

import socket

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.operations.machine import machine_report
from docstore.commands.specs.processes import HOST_INFO
from docstore.node.node import node_of


def run(context: Context, _arguments: Arguments) -> Result:
    node = node_of(context)
    return machine_report(socket.gethostname(), node.settings.port, node.wall_clock())


COMMAND = HOST_INFO.command(run)
