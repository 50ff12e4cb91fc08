"""`currentOp`: the operations that this router is working on."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from docstore.commands.operation_report import describe
from mongos.router import router_of


def run(context: Context, args: Arguments) -> dict[str, Any]:
    router = router_of(context)
    return {
        "inprog": [
            describe(operation, host=router.facts.address, services=context.services)
            for operation in context.services.operations
        ]
    }


COMMAND = Command(
    "currentOp",
    run,
    aliases=("currentop",),
    privilege=Privilege("inprog", Resource.CLUSTER),
    role=Role.ANY,
    admin_only=True,
    tolerant=True,
    help="Operations in progress.",
)
