"""`currentOp`: the operations that this router is working on."""

from __future__ import annotations

from typing import Any

import bson

from docstore.bson import from_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from docstore.commands.envelope import ENVELOPE_FIELDS
from docstore.commands.operation_report import in_progress
from docstore.query.compile import compile_filter
from docstore.query.filter import parse_filter
from mongos.router import router_of

_OWN = ENVELOPE_FIELDS | {"currentOp", "$all", "$ownOps"}


def run(context: Context, args: Arguments) -> dict[str, Any]:
    conditions = {name: value for name, value in context.body.items() if name not in _OWN}
    wanted = compile_filter(parse_filter(bson.encode(conditions)))
    found = in_progress(
        context.services,
        context.operation,
        host=router_of(context).facts.address,
        connections=bool(context.body.get("$all")),
    )
    return {"inprog": [entry for entry in found if wanted.matches(from_python(entry)[1])]}


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
