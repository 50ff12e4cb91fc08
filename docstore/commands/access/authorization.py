"""Authorization: checks the privileges of a connection's user against the needs of a request.

- A command that is not public runs only for an authenticated user, or under the localhost exception.
- Every request passes through here before it is answered, on the fast path too.
- A decision cached on a connection is valid until users or roles may have changed (`UserDirectory.generation`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from docstore.bson.allowance import spend
from docstore.bson.walk import OBJECT
from docstore.commands.access.control import AccessControl
from docstore.commands.access.identity import Identity
from docstore.commands.access.logins import current
from docstore.commands.access.need import Need, on_cluster, on_database
from docstore.commands.client_connection import UNIX_SOCKET, ClientConnection
from docstore.commands.declaration import Command, Resource, admin_only_error
from docstore.commands.limits import MAX_CACHED_DECISIONS
from docstore.errors import Code, CommandError
from docstore.query.value.notation import display_in_full
from docstore.security.privileges import Privileges

if TYPE_CHECKING:
    from docstore.commands.arguments import Arguments
    from docstore.commands.context import Context, Services

_PER_NEED = 512
"""Work units charged for the judgement of a need."""
_OPEN = (Resource.NONE, Resource.USER)
_FIRST_STEPS = Privileges()
"""The privileges of the localhost exception: to initiate a replica set and to create the first user."""
for _need in (
    *on_cluster("replSetConfigure", "replSetGetStatus", "addShard"),
    *on_database("admin", "createUser", "grantRole"),
):
    _FIRST_STEPS.grant(_need.resource, (_need.action,))
_OF_NOBODY = frozenset(("abortTransaction", "commitTransaction", "features", "killCursors", "listDatabases", "logout"))
"""Commands that the localhost exception allows although they need no privilege: they show nothing of others."""


def refusal_of_unreadable(
    services: Services, spelling: str, db: str, peer: ClientConnection, error: CommandError
) -> CommandError:
    """Return the error of a request that failed with `error` before it was admitted.

    An unauthenticated client learns nothing else. If the arguments are unreadable and the command checks the user
    first, its declared privilege decides, on the request's database `db` ("" if that is unreadable).
    """
    command = services.table.find(spelling)
    if command is None or command.privilege.resource is Resource.NONE or error.code == Code.Unauthorized:
        return error
    identity = peer.identity
    if identity is None:
        if services.access.localhost_exception and is_local(peer) and not services.access.had_users:
            return error
        return requires_authentication(command)
    if command.admin_only and db != "admin":
        return admin_only_error(command)
    privileges = identity.user.privileges
    needs = command.privilege.needs(db, "")
    if command.user_first and not all(privileges.allow(need.resource, need.action) for need in needs):
        return CommandError(Code.Unauthorized, f"not authorized on {db} to execute command {command.name}")
    return error


def admit(access: AccessControl, context: Context, arguments: Arguments) -> Awaitable[None] | None:
    """Admit a request, at once (None) or after its user has been reloaded. Errors: Unauthorized."""
    context.identify()
    identity = context.identity
    command = context.command
    if (
        identity is not None
        and (command.name, context.namespace) in identity.allowed
        and identity.generation == access.directory.generation
    ):
        # The common case: the same decision was made before.
        if access.passes_on:
            context.name_owner()
        return None
    if identity is None:
        if command.privilege.resource is Resource.NONE:
            return None
        return _admit_nobody(access, context, arguments)
    if identity.generation != access.directory.generation:
        return None if command.privilege.resource is Resource.NONE else _admit_anew(access, context, arguments)
    _check(identity, context, arguments)
    if access.passes_on:
        context.name_owner()
    return None


def _check(identity: Identity, context: Context, arguments: Arguments) -> None:
    command = context.command
    key = None
    if command.needs is None:
        resource = command.privilege.resource
        if resource in _OPEN:
            return
        if context.namespace or resource is not Resource.COLLECTION:
            key = (command.name, context.namespace or context.db)
            if key in identity.allowed:
                return
    privileges = identity.user.privileges
    # Each need is judged before the next one is derived from the arguments, which may be long.
    needs: dict[Need, None] = {}
    for need in needs_of(context, arguments):
        spend(_PER_NEED)
        if need not in identity.allowed:
            if not privileges.allow(need.resource, need.action):
                raise not_authorized(context)
            _remember(identity, need)
        needs[need] = None
    context.admit(tuple(needs))
    if key is not None:
        _remember(identity, key)


def _remember(identity: Identity, decision: object) -> None:
    if len(identity.allowed) >= MAX_CACHED_DECISIONS:
        identity.allowed.clear()
    identity.allowed.add(decision)


async def _admit_anew(access: AccessControl, context: Context, arguments: Arguments) -> None:
    await current(context.connection, access)
    context.identify()
    identity = context.identity
    if identity is None:
        await _admit_nobody(access, context, arguments)
        return
    _check(identity, context, arguments)
    if access.passes_on:
        context.name_owner()


async def _admit_nobody(access: AccessControl, context: Context, arguments: Arguments) -> None:
    command = context.command
    if not (access.localhost_exception and is_local(context.connection) and await _has_no_users(access)):
        raise requires_authentication(command)
    needless = True
    for need in needs_of(context, arguments):
        needless = False
        spend(_PER_NEED)
        if not _FIRST_STEPS.allow(need.resource, need.action):
            raise not_authorized(context)
    # What needs no privilege is about the user's own sessions and operations, and there is no user.
    if needless and command.name not in _OF_NOBODY:
        raise not_authorized(context)


async def _has_no_users(access: AccessControl) -> bool:
    if not access.had_users:
        access.had_users = await access.directory.was_used()
    return not access.had_users


def is_local(connection: ClientConnection) -> bool:
    """True if the client is on this machine."""
    if connection.remote == UNIX_SOCKET:
        return True
    host = connection.remote.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def needs_of(context: Context, arguments: Arguments) -> Iterable[Need]:
    """Return all privileges that a request needs."""
    command = context.command
    if command.needs is not None:
        return command.needs(context, arguments)
    return command.privilege.needs(context.db, _namespace(context, arguments))


def _namespace(context: Context, arguments: Arguments) -> str:
    if context.namespace:
        return context.namespace
    value = arguments.value
    return value if isinstance(value, str) and "." in value else context.db


def requires_authentication(command: Command) -> CommandError:
    return CommandError(Code.Unauthorized, f"command {command.name} requires authentication")


def not_authorized(context: Context) -> CommandError:
    return CommandError(
        Code.Unauthorized,
        f"not authorized on {context.db} to execute command {display_in_full((OBJECT, context.redacted_request))}",
    )


def privileges_of(context: Context) -> Privileges | None:
    """Return the privileges of the request's user; None if access control is off."""
    if not context.services.access.enabled:
        return None
    identity = context.identity
    return Privileges() if identity is None else identity.user.privileges
