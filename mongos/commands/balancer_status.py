"""`balancerStatus`: the mode of balancing, and the state of this router's balancer."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.commands.access.catalog_needs import settings_needs
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from mongos.router import router_of


async def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    await router.settings.refresh()
    return {
        "mode": router.settings.mode,
        "inBalancerRound": router.balancer.in_round,
        "numBalancerRounds": Int64(router.balancer.rounds),
    }


COMMAND = Command(
    "balancerStatus",
    run,
    privilege=Privilege("find", Resource.CLUSTER),
    needs=settings_needs("find"),
    role=Role.ANY,
    admin_only=True,
    help="Whether balancing is on.",
)
