"""shutdown: end the process in order, after the reply was sent.

A primary first hands over, within `timeoutSecs`; if no member can take over it keeps running, unless forced.
"""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.specs.processes import SHUTDOWN
from docstore.node.node import node_of


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    seconds = arguments["timeoutSecs"]
    if seconds is not None:
        node.shutdown_seconds = float(seconds)
    refused = await node.replication.hand_over(node.shutdown_seconds)
    if refused is not None and not arguments["force"]:
        raise refused
    node.shutdown()
    return {}


COMMAND = SHUTDOWN.command(run)
