"""currentOp: list the operations in progress; requests that are answered in one step never appear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson

from docstore.bson import from_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.envelope import ENVELOPE_FIELDS
from docstore.commands.operations.report import Wanted, in_progress
from docstore.commands.specs.processes import CURRENT_OP
from docstore.node.node import node_of
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter

_OWN = ENVELOPE_FIELDS | {"currentOp", "$all", "$ownOps"}


def run(context: Context, _arguments: Arguments) -> Result:
    conditions: Mapping[str, Any] = {name: value for name, value in context.body.items() if name not in _OWN}
    predicate = compile_filter(parse_filter(bson.encode(conditions)))
    # The reference accepts any value for the two options.
    connections, own = bool(context.body.get("$all")), bool(context.body.get("$ownOps"))
    wanted = Wanted(connections=connections, all_users=not own, shorten=True)
    operations = in_progress(context, wanted, host=node_of(context).settings.address)
    reply: dict[str, Any] = {"inprog": [entry for entry in operations if predicate.matches(from_python(entry)[1])]}
    if node_of(context).store.write_lock.is_held:
        reply["fsyncLock"] = True
        reply["info"] = "use db.fsyncUnlock() to terminate the fsync write/snapshot lock"
    return reply


COMMAND = CURRENT_OP.command(run)
