"""Commands that change users.

Credentials are derived from passwords before the unit of work begins, because that is slow.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from bson.binary import Binary, UuidRepresentation

from docstore.bson import document_to_python, to_python
from docstore.bson.walk import each_value
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Result
from docstore.commands.specs.users import (
    CREATE_USER,
    DROP_ALL_USERS,
    DROP_USER,
    GRANT_ROLES_TO_USER,
    REVOKE_ROLES_FROM_USER,
    UPDATE_USER,
)
from docstore.errors import Code, CommandError
from docstore.namespace import USERS_NS
from docstore.node.node import node_of
from docstore.node.users.records import Records, change_records, is_duplicate
from docstore.query.pausing import PAUSED, allowing
from docstore.security.certificates import subject_of
from docstore.security.names import EXTERNAL, RoleName, UserName
from docstore.security.saslprep import NotPreparable
from docstore.security.scram import MECHANISMS, SHA_1, SHA_256
from docstore.security.user_arguments import mechanism_list, restriction_list, role_list

_PREPARATION = {
    "prohibited": "U_STRINGPREP_PROHIBITED_ERROR",
    "unassigned": "U_STRINGPREP_UNASSIGNED_ERROR",
    "bidi": "U_STRINGPREP_CHECK_BIDI_ERROR",
    "empty": "U_STRING_NOT_TERMINATED_WARNING",
}
"""The names that clients know of reasons; those of the limits here are said in words."""


def _refused_password(error: NotPreparable) -> CommandError:
    reason = _PREPARATION.get(error.reason, str(error))
    return CommandError(50692, f"Error preflighting normalization: {reason}")


async def _credentials(
    context: Context, arguments: Arguments, name: UserName, requested: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return the `credentials` for the password: those of the requested mechanisms, or of all that are enabled.

    Errors: BadValue, 50687, 50692.
    """
    password, digested = arguments["pwd"], not arguments["digestPassword"]
    enabled = [mechanism for mechanism in MECHANISMS if mechanism in context.services.access.mechanisms]
    for mechanism in requested or ():
        if mechanism not in enabled:
            raise CommandError(Code.BadValue, f"{mechanism} not supported in authMechanisms")
    mechanisms = requested or tuple(enabled)
    if digested and SHA_256 in mechanisms:
        raise CommandError(Code.BadValue, "Use of SCRAM-SHA-256 requires undigested passwords")
    if not password and mechanisms != (SHA_1,):
        raise CommandError(50687, "Error preflighting UTF-8 conversion: U_STRING_NOT_TERMINATED_WARNING")
    try:
        credentials = await context.services.access.credentials(name.user, password, mechanisms, digested=digested)
    except NotPreparable as error:
        raise _refused_password(error) from None
    return {credential.mechanism: credential.document() for credential in credentials}


def _roles(context: Context, raw: bytes | None) -> list[RoleName] | None:
    """Return the requested roles, which must exist. Errors: BadValue, RoleNotFound."""
    if raw is None:
        return None
    names = asked_roles(context, raw)
    check_known(context, names)
    return names


def asked_roles(context: Context, raw: bytes) -> list[RoleName]:
    """Return the roles of an argument, each once; other tasks may run meanwhile. Errors: BadValue."""
    return allowing(PAUSED, lambda: role_list(map(to_python, each_value(raw)), context.db))


def check_known(context: Context, names: Iterable[RoleName]) -> None:
    """Check that roles exist. Errors: RoleNotFound."""
    graph = node_of(context).users.graph
    for name in names:
        if graph.find(name) is None:
            raise CommandError(Code.RoleNotFound, f"Could not find role: {name}")


def documents_of(names: Iterable[RoleName]) -> list[dict[str, str]]:
    return [name.document() for name in names]


def asked_restrictions(context: Context, arguments: Arguments) -> list[dict[str, Any]] | None:
    """Return the authentication restrictions of a request; other tasks may run meanwhile."""
    restrictions = arguments["authenticationRestrictions"]
    if restrictions is None:
        return None
    return allowing(
        PAUSED, lambda: restriction_list(context.command.name, [document_to_python(raw) for raw in restrictions])
    )


async def create_user(context: Context, arguments: Arguments) -> Result:
    name = UserName(arguments.value, context.db)
    _check_new_user(name, arguments)
    _check_no_member(context, name)
    mechanisms = mechanism_list(arguments["mechanisms"])
    roles = _roles(context, arguments["roles"])
    assert roles is not None, "roles are required"
    restrictions = asked_restrictions(context, arguments)
    if name.db == EXTERNAL:
        credentials: dict[str, Any] = {"external": True}
    else:
        credentials = await _credentials(context, arguments, name, mechanisms)
    document: dict[str, Any] = {
        "_id": name.key,
        "userId": Binary.from_uuid(uuid.uuid4(), UuidRepresentation.STANDARD),
        "user": name.user,
        "db": name.db,
        "credentials": credentials,
    }
    if restrictions:
        document["authenticationRestrictions"] = restrictions
    if arguments["customData"] is not None:
        document["customData"] = document_to_python(arguments["customData"])
    document["roles"] = documents_of(roles)

    def act(records: Records) -> None:
        try:
            records.insert(USERS_NS, document)
        except CommandError as error:
            if is_duplicate(error):
                raise CommandError(51003, f'User "{name}" already exists') from None
            raise

    return await change_records(context, USERS_NS, act)


def _check_new_user(name: UserName, arguments: Arguments) -> None:
    """Validate a new user's name and fields. Errors: BadValue, InvalidNamespace."""
    if not name.user:
        raise CommandError(Code.BadValue, "User document needs 'user' field to be non-empty")
    if "\0" in name.user:
        raise CommandError(Code.InvalidNamespace, "namespaces cannot have embedded null characters")
    if name.db == "local":
        raise CommandError(Code.BadValue, "Cannot create users in the local database")
    if name.db == EXTERNAL:
        _check_external(arguments)
    elif arguments["pwd"] is None:
        raise CommandError(
            Code.BadValue,
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
        )


def _check_no_member(context: Context, name: UserName) -> None:
    """Reject a user whose certificate identifies a process of the cluster. Errors: BadValue."""
    keys, security = context.services.access.keys, context.services.transport_security
    if name.db != EXTERNAL or keys is None or security is None or not keys.mode.takes_certificates:
        return
    subject = subject_of(name.user)
    if subject is not None and security.subject.is_member_with(subject):
        raise CommandError(
            Code.BadValue,
            "Cannot create an x.509 user with a subjectname that would be recognized as an internal cluster member",
        )


def _check_external(arguments: Arguments) -> None:
    if arguments["pwd"] is not None:
        raise CommandError(Code.BadValue, "Cannot set the password for users defined on the '$external' database")


async def update_user(context: Context, arguments: Arguments) -> Result:
    name = UserName(arguments.value, context.db)
    fields = ("pwd", "customData", "roles", "mechanisms", "authenticationRestrictions")
    if all(arguments[field] is None for field in fields):
        raise CommandError(Code.BadValue, "Must specify at least one field to update in updateUser")
    mechanisms = mechanism_list(arguments["mechanisms"])
    if name.db == EXTERNAL:
        _check_external(arguments)
    roles = _roles(context, arguments["roles"])
    restrictions = asked_restrictions(context, arguments)
    changes: dict[str, Any] = {}
    if arguments["pwd"] is not None:
        changes["credentials"] = await _credentials(context, arguments, name, mechanisms)
    if restrictions is not None:
        changes["authenticationRestrictions"] = restrictions
    if arguments["customData"] is not None:
        changes["customData"] = document_to_python(arguments["customData"])
    if roles is not None:
        changes["roles"] = documents_of(roles)

    def act(records: Records) -> None:
        present = records.find(USERS_NS, name.key)
        if present is None:
            raise CommandError(Code.UserNotFound, f"User {name} not found")
        if mechanisms is not None and "credentials" not in changes:
            changes["credentials"] = _fewer(present.get("credentials", {}), mechanisms)
        records.replace(USERS_NS, {**present, **changes})

    return await change_records(context, USERS_NS, act)


def _fewer(credentials: Mapping[str, Any], mechanisms: tuple[str, ...]) -> dict[str, Any]:
    """Return only the credentials of these mechanisms. Errors: BadValue for a missing one."""
    if not credentials.keys() >= set(mechanisms):
        raise CommandError(Code.BadValue, "mechanisms field must be a subset of previously set mechanisms")
    return {name: credentials[name] for name in mechanisms}


async def drop_user(context: Context, arguments: Arguments) -> Result:
    name = UserName(arguments.value, context.db)

    def act(records: Records) -> None:
        if not records.remove(USERS_NS, name.key):
            raise CommandError(Code.UserNotFound, f"User '{name}' not found")

    return await change_records(context, USERS_NS, act)


async def drop_all_users(context: Context, _arguments: Arguments) -> Result:
    reply: dict[str, Any] = {}

    def act(records: Records) -> None:
        reply["n"] = len(records.remove_of(USERS_NS, context.db))

    return await change_records(context, USERS_NS, act, reply)


async def _change_roles(context: Context, arguments: Arguments, *, granting: bool) -> Result:
    name = UserName(arguments.value, context.db)
    names = asked_roles(context, arguments["roles"])
    if not names:
        raise CommandError(Code.BadValue, f'{context.command.name} command requires a non-empty "roles" array')

    def act(records: Records) -> None:
        present = records.find(USERS_NS, name.key)
        if present is None:
            raise CommandError(Code.UserNotFound, f'Could not find user "{name.user}" for db "{name.db}"')
        check_known(context, names)
        records.replace(USERS_NS, {**present, "roles": changed_roles(present.get("roles", []), names, granting)})

    return await change_records(context, USERS_NS, act)


def changed_roles(present: list[Any], names: Iterable[RoleName], granting: bool) -> list[Any]:
    """Return a list of roles with `names` added or removed."""
    documents = documents_of(names)
    roles = [role for role in present if granting or role not in documents]
    return roles + [role for role in documents if granting and role not in present]


async def grant_roles(context: Context, arguments: Arguments) -> Result:
    return await _change_roles(context, arguments, granting=True)


async def revoke_roles(context: Context, arguments: Arguments) -> Result:
    return await _change_roles(context, arguments, granting=False)


COMMANDS: tuple[Command, ...] = (
    CREATE_USER.command(create_user),
    UPDATE_USER.command(update_user),
    DROP_USER.command(drop_user),
    DROP_ALL_USERS.command(drop_all_users),
    GRANT_ROLES_TO_USER.command(grant_roles),
    REVOKE_ROLES_FROM_USER.command(revoke_roles),
)
