"""_configsvrGetBalancingSettings: see `docstore.sharding.requests.get_balancing_settings`."""

from __future__ import annotations

from typing import Any

from configsvr.server import server_of
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.specs.cluster import internal_command
from docstore.sharding.balancing.settings import balancing_settings


async def run(context: Context, arguments: Arguments) -> dict[str, Any]:
    tables = server_of(context).tables
    return balancing_settings(tables.settings(), tables.second_of_day()).document()


COMMAND = internal_command(
    "_configsvrGetBalancingSettings",
    run,
    help="the settings of splitting and balancing, and whether chunks may be balanced now",
)
