"""Commands about users and roles, which run on the config servers, where these are stored."""

from __future__ import annotations

from typing import Any

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command
from docstore.commands.specs.users import CHANGES, INVALIDATE_USER_CACHE, ROLES_INFO, USERS_INFO
from mongos.router import router_of
from mongos.routing.requests import forwarded, whole_request


async def change(context: Context, _arguments: Arguments) -> bytes:
    """Send a change of users or roles to the config servers; this router knows of it at once."""
    router = router_of(context)
    try:
        return (await router.config.command(context.db, forwarded(whole_request(context)))).relayed()
    finally:
        router.users.invalidate()


async def show(context: Context, _arguments: Arguments) -> bytes:
    """Return the config servers' reply about users or roles."""
    request = forwarded(whole_request(context))
    return (await router_of(context).config.command(context.db, request, repeatable=True)).relayed()


def invalidate(context: Context, _arguments: Arguments) -> dict[str, Any]:
    router_of(context).users.invalidate()
    return {}


COMMANDS: tuple[Command, ...] = (
    *(spec.command(change) for spec in CHANGES),
    USERS_INFO.command(show),
    ROLES_INFO.command(show),
    INVALIDATE_USER_CACHE.command(invalidate),
)
