"""`flushRouterConfig`: forget the cached routing of a namespace, a database or everything; it is read again."""

from __future__ import annotations

from typing import Any

from docstore.bson import to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Role
from mongos.router import router_of


def run(context: Context, args: Arguments) -> dict[str, Any]:
    cache = router_of(context).cache
    name = None if args.value is None else to_python(args.value)
    if not isinstance(name, str):
        cache.forget()
    elif "." in name:
        cache.forget(name)
    else:
        cache.forget_database(name)
    return {"flushed": True}


COMMAND = Command(
    "flushRouterConfig",
    run,
    aliases=("flushrouterconfig",),
    privilege=Privilege("flushRouterConfig", Resource.CLUSTER),
    role=Role.ANY,
    admin_only=True,
    help="Forget cached routing.",
)
