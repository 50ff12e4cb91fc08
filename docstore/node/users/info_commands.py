"""Commands that show users and roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from docstore.bson import from_python, to_python
from docstore.bson.allowance import spend
from docstore.bson.walk import BOOL, STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Result
from docstore.commands.specs.users import INVALIDATE_USER_CACHE, ROLES_INFO, USERS_INFO
from docstore.commands.values import NUMBERS, text_of, truth_of
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.users.directory import LocalUsers
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter
from docstore.query.pausing import PAUSED, allowing
from docstore.query.value.long_lists import sort_keys
from docstore.security import builtin_roles
from docstore.security.names import RoleName, UserName
from docstore.security.restrictions import Restriction
from docstore.security.roles import Inheritance, role_names
from docstore.security.user_arguments import names_argument, role_name, user_name

_PER_NAME = 1024
"""Work units charged for the lookup of a user or role."""
Name = TypeVar("Name", RoleName, UserName)
_MECHANISMS_SHOWN = ("SCRAM-SHA-1", "SCRAM-SHA-256", "external")


def users_info(context: Context, arguments: Arguments) -> Result:
    users = node_of(context).users
    argument = allowing(PAUSED, names_argument, "UserName", arguments.value)
    in_detail = arguments["showPrivileges"] or arguments["showAuthenticationRestrictions"]
    if _is_one(argument) or argument == {"forAllDBs": True}:
        if in_detail:
            raise CommandError(
                Code.IllegalOperation, "Privilege or restriction details require exact-match usersInfo queries"
            )
        everywhere = not _is_one(argument)
        user_documents: Iterable[dict[str, Any]] = (
            document for document in users.user_documents() if everywhere or document["db"] == context.db
        )
    else:
        if isinstance(argument, dict) and "forAllDBs" in argument:
            raise CommandError(Code.BadValue, "UserName contains an unknown field named: 'forAllDBs")
        names = _names(user_name, argument, context.db)
        user_documents = _user_documents(users, names)
    entries = allowing(
        PAUSED,
        lambda: [
            _user_in_detail(users, document, arguments) if in_detail else _user(document, arguments)
            for document in user_documents
        ],
    )
    if arguments["filter"] is not None:
        predicate = compile_filter(parse_filter(arguments["filter"]))
        entries = [document for document in entries if predicate.matches(from_python(document)[1])]
    return {"users": entries}


def _user_documents(users: LocalUsers, names: list[UserName]) -> Iterator[dict[str, Any]]:
    """Yield the documents of those of the users that exist, each once."""
    unique_names = list(set(names))
    sort_keys(unique_names)
    for name in unique_names:
        spend(_PER_NAME)
        document = users.user_document(name)
        if document is not None:
            yield document


def _names(name_of: Callable[[Any, str], Name], argument: Any, db: str) -> list[Name]:
    """Return the names of the requested users or roles; other tasks may run meanwhile."""

    def name(member: Any) -> Name:
        spend(_PER_NAME)
        return name_of(member, db)

    return allowing(PAUSED, lambda: [name(value) for value in (argument if isinstance(argument, list) else [argument])])


def _is_one(argument: Any) -> bool:
    return not isinstance(argument, bool) and bool(argument == 1)


def _hidden(arguments: Arguments) -> set[str]:
    hidden = {"authenticationRestrictions"} if not arguments["showAuthenticationRestrictions"] else set()
    if not arguments["showCredentials"]:
        hidden.add("credentials")
    if not arguments["showCustomData"]:
        hidden.add("customData")
    return hidden


def _mechanisms(document: dict[str, Any]) -> list[str]:
    credentials = document.get("credentials")
    return [name for name in _MECHANISMS_SHOWN if isinstance(credentials, dict) and name in credentials]


def _user(document: dict[str, Any], arguments: Arguments) -> dict[str, Any]:
    hidden = _hidden(arguments)
    fields = {name: value for name, value in document.items() if name not in hidden}
    return {**fields, "mechanisms": _mechanisms(document)}


def _user_in_detail(users: LocalUsers, document: dict[str, Any], arguments: Arguments) -> dict[str, Any]:
    hidden = _hidden(arguments)
    fields: dict[str, Any] = {}
    for name, value in document.items():
        if name not in hidden:
            fields[name] = value
        if name == "db":
            fields["mechanisms"] = _mechanisms(document)
    if arguments["showAuthenticationRestrictions"]:
        fields.setdefault("authenticationRestrictions", [])
    inheritance = users.graph.inherited(role_names(document.get("roles", ())))
    return {**fields, **_inherited(inheritance, inheritance.roles), **_inherited_restrictions(inheritance)}


def _inherited(inheritance: Inheritance, roles: Iterable[RoleName]) -> dict[str, Any]:
    return {
        "inheritedRoles": [name.document() for name in roles],
        "inheritedPrivileges": inheritance.privileges.documents(),
    }


def _inherited_restrictions(inheritance: Inheritance) -> dict[str, Any]:
    return {"inheritedAuthenticationRestrictions": _lists(inheritance.restrictions)}


def _lists(restrictions: Iterable[Iterable[Restriction]]) -> list[list[dict[str, Any]]]:
    return [[restriction.document() for restriction in role_restrictions] for role_restrictions in restrictions]


def roles_info(context: Context, arguments: Arguments) -> Result:
    users = node_of(context).users
    privileges = _shows_privileges(arguments)
    argument = allowing(PAUSED, names_argument, "RoleName", arguments.value)
    if _is_one(argument):
        if privileges is None:
            raise CommandError(Code.IllegalOperation, "Cannot get user fragment for all roles in a database")
        names = [RoleName(role["role"], role["db"]) for role in users.role_documents() if role["db"] == context.db]
        if arguments["showBuiltinRoles"]:
            names += builtin_roles.names_in(context.db)
    else:
        names = _names(role_name, argument, context.db)
    if privileges is None:
        inheritance = users.graph.inherited(names)
        roles = {"roles": [name.document() for name in names]}
        return {"userFragment": {**roles, **_inherited(inheritance, inheritance.roles)}}
    restrictions = arguments["showAuthenticationRestrictions"]
    entries = _roles(users, names, privileges=privileges, restrictions=restrictions)
    return {"roles": allowing(PAUSED, lambda: list(entries))}


def _shows_privileges(arguments: Arguments) -> bool | None:
    """Return True if privileges are shown; None: as a user fragment. Errors: BadValue."""
    argument = arguments["showPrivileges"]
    if argument is None:
        return False
    code, data = argument
    if code == BOOL or code in NUMBERS:
        return truth_of(code, data)
    if code == STRING and text_of(data) == "asUserFragment":
        return None
    raise CommandError(
        Code.BadValue,
        "Failed to parse 'showPrivileges'. 'showPrivileges' should either be a boolean or the string 'asUserFragment',"
        " given: showPrivileges: " + (f'"{text_of(data)}"' if code == STRING else str(to_python(argument))),
    )


def _roles(
    users: LocalUsers, names: Iterable[RoleName], *, privileges: bool, restrictions: bool
) -> Iterator[dict[str, Any]]:
    for name in names:
        spend(_PER_NAME)
        role = users.graph.find(name)
        if role is None:
            continue
        builtin = builtin_roles.is_builtin(name)
        entry: dict[str, Any] = {"db": name.db, "role": name.role} if builtin else {"_id": name.key, **name.document()}
        contained = {"roles": [parent.document() for parent in role.roles]}
        own = {"privileges": role.privileges.documents()} if privileges else {}
        entry |= contained | own if builtin else own | contained
        inheritance = users.graph.inherited([name])
        inherited = _inherited(inheritance, [parent for parent in inheritance.roles if parent != name])
        if restrictions:
            entry["authenticationRestrictions"] = _lists([role.restrictions] if role.restrictions else [])
        entry["inheritedRoles"] = inherited["inheritedRoles"]
        if privileges:
            entry["inheritedPrivileges"] = inherited["inheritedPrivileges"]
        if restrictions:
            entry |= _inherited_restrictions(inheritance)
        yield {**entry, "isBuiltin": builtin}


def invalidate(context: Context, _arguments: Arguments) -> Result:
    node_of(context).users.invalidate()
    return {}


COMMANDS: tuple[Command, ...] = (
    USERS_INFO.command(users_info),
    ROLES_INFO.command(roles_info),
    INVALIDATE_USER_CACHE.command(invalidate),
)
