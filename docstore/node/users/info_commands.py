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
from docstore.security import builtin_roles
from docstore.security.given import role_name, user_name
from docstore.security.names import RoleName, UserName
from docstore.security.restrictions import Restriction
from docstore.security.roles import Inheritance, role_names

_PER_NAME = 1024
"""Work units charged for the lookup of a user or role."""
Name = TypeVar("Name", RoleName, UserName)
_MECHANISMS_SHOWN = ("SCRAM-SHA-1", "SCRAM-SHA-256", "external")


def users_info(context: Context, arguments: Arguments) -> Result:
    users = node_of(context).users
    asked = to_python(arguments.value)
    in_detail = arguments["showPrivileges"] or arguments["showAuthenticationRestrictions"]
    if _is_one(asked) or asked == {"forAllDBs": True}:
        if in_detail:
            raise CommandError(
                Code.IllegalOperation, "Privilege or restriction details require exact-match usersInfo queries"
            )
        everywhere = not _is_one(asked)
        found: Iterable[dict[str, Any]] = (
            each for each in users.user_documents() if everywhere or each["db"] == context.db
        )
    else:
        if isinstance(asked, dict) and "forAllDBs" in asked:
            raise CommandError(Code.BadValue, "UserName contains an unknown field named: 'forAllDBs")
        names = _names(user_name, asked, context.db)
        documents = (users.user_document(name) for name in sorted(set(names)))
        found = (each for each in documents if each is not None)
    shown = [_user_in_detail(users, each, arguments) if in_detail else _user(each, arguments) for each in found]
    if arguments["filter"] is not None:
        wanted = compile_filter(parse_filter(arguments["filter"]))
        shown = [each for each in shown if wanted.matches(from_python(each)[1])]
    return {"users": shown}


def _names(name_of: Callable[[Any, str], Name], asked: Any, db: str) -> list[Name]:
    """Return the names of the requested users or roles; other tasks may run meanwhile."""

    def name(given: Any) -> Name:
        spend(_PER_NAME)
        return name_of(given, db)

    return allowing(PAUSED, lambda: [name(given) for given in (asked if isinstance(asked, list) else [asked])])


def _is_one(asked: Any) -> bool:
    return not isinstance(asked, bool) and bool(asked == 1)


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
    shown = {name: value for name, value in document.items() if name not in hidden}
    return {**shown, "mechanisms": _mechanisms(document)}


def _user_in_detail(users: LocalUsers, document: dict[str, Any], arguments: Arguments) -> dict[str, Any]:
    hidden = _hidden(arguments)
    shown: dict[str, Any] = {}
    for name, value in document.items():
        if name not in hidden:
            shown[name] = value
        if name == "db":
            shown["mechanisms"] = _mechanisms(document)
    if arguments["showAuthenticationRestrictions"]:
        shown.setdefault("authenticationRestrictions", [])
    inheritance = users.graph.inherited(role_names(document.get("roles", ())))
    return {**shown, **_inherited(inheritance, inheritance.roles), **_inherited_restrictions(inheritance)}


def _inherited(inheritance: Inheritance, roles: Iterable[RoleName]) -> dict[str, Any]:
    return {
        "inheritedRoles": [name.document() for name in roles],
        "inheritedPrivileges": inheritance.privileges.documents(),
    }


def _inherited_restrictions(inheritance: Inheritance) -> dict[str, Any]:
    return {"inheritedAuthenticationRestrictions": _lists(inheritance.restrictions)}


def _lists(restrictions: Iterable[Iterable[Restriction]]) -> list[list[dict[str, Any]]]:
    return [[each.document() for each in one] for one in restrictions]


def roles_info(context: Context, arguments: Arguments) -> Result:
    users = node_of(context).users
    privileges = _shows_privileges(arguments)
    asked = to_python(arguments.value)
    if _is_one(asked):
        if privileges is None:
            raise CommandError(Code.IllegalOperation, "Cannot get user fragment for all roles in a database")
        names = [RoleName(each["role"], each["db"]) for each in users.role_documents() if each["db"] == context.db]
        if arguments["showBuiltinRoles"]:
            names += builtin_roles.names_in(context.db)
    else:
        names = _names(role_name, asked, context.db)
    if privileges is None:
        inheritance = users.graph.inherited(names)
        roles = {"roles": [name.document() for name in names]}
        return {"userFragment": {**roles, **_inherited(inheritance, inheritance.roles)}}
    restrictions = arguments["showAuthenticationRestrictions"]
    shown = _roles(users, names, privileges=privileges, restrictions=restrictions)
    return {"roles": allowing(PAUSED, lambda: list(shown))}


def _shows_privileges(arguments: Arguments) -> bool | None:
    """Return True if privileges are shown; None: as a user fragment. Errors: BadValue."""
    given = arguments["showPrivileges"]
    if given is None:
        return False
    code, data = given
    if code == BOOL or code in NUMBERS:
        return truth_of(code, data)
    if code == STRING and text_of(data) == "asUserFragment":
        return None
    raise CommandError(
        Code.BadValue,
        "Failed to parse 'showPrivileges'. 'showPrivileges' should either be a boolean or the string 'asUserFragment',"
        " given: showPrivileges: " + (f'"{text_of(data)}"' if code == STRING else str(to_python(given))),
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
        shown: dict[str, Any] = {"db": name.db, "role": name.role} if builtin else {"_id": name.key, **name.document()}
        contained = {"roles": [each.document() for each in role.roles]}
        own = {"privileges": role.privileges.documents()} if privileges else {}
        shown |= contained | own if builtin else own | contained
        inheritance = users.graph.inherited([name])
        inherited = _inherited(inheritance, [each for each in inheritance.roles if each != name])
        if restrictions:
            shown["authenticationRestrictions"] = _lists([role.restrictions] if role.restrictions else [])
        shown["inheritedRoles"] = inherited["inheritedRoles"]
        if privileges:
            shown["inheritedPrivileges"] = inherited["inheritedPrivileges"]
        if restrictions:
            shown |= _inherited_restrictions(inheritance)
        yield {**shown, "isBuiltin": builtin}


def invalidate(context: Context, _arguments: Arguments) -> Result:
    node_of(context).users.invalidate()
    return {}


COMMANDS: tuple[Command, ...] = (
    USERS_INFO.command(users_info),
    ROLES_INFO.command(roles_info),
    INVALIDATE_USER_CACHE.command(invalidate),
)
