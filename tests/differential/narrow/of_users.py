"""Random commands about users and roles: showing, making and granting them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.narrow.choices import Choices
from tests.differential.narrow.documents import Document, doc
from tests.differential.narrow.users import USERS

_Maker = Callable[[Choices], Document]
_BUILTIN = ("read", "readWrite", "root", "dbOwner", "userAdmin", "__system", "userAdminAnyDatabase")


def _role(c: Choices) -> Any:
    if c.chance(0.4):
        return c.pick((*_BUILTIN, "spare"))
    return doc(role=c.pick((*_BUILTIN, "spare", "of one", "of granter")), db=c.database())


def _roles(c: Choices, least: int = 0) -> list[Any]:
    return [_role(c) for _ in range(least + c.below(2))]


def _resource(c: Choices) -> Document:
    return c.pick(
        (
            doc(db=c.database(), collection=c.name()), doc(db=c.database(), collection=""), doc(db="", collection=""),
            doc(db="", collection=c.name()), doc(cluster=True), doc(anyResource=True),
            doc(db=c.database(), system_buckets="t"),
        )
    )  # fmt: skip


def _privileges(c: Choices, least: int = 0) -> list[Document]:
    actions = ("find", "insert", "grantRole", "changePassword", "anyAction", "listDatabases", "viewUser")
    return [
        doc(resource=_resource(c), actions=[c.pick(actions) for _ in range(1 + c.below(2))])
        for _ in range(least + c.below(2))
    ]


def _user(c: Choices) -> str:
    return c.pick(("spare", "spare", "spare", "root", "self"))


def _named(c: Choices, key: str, names: tuple[str, ...]) -> Any:
    if c.chance(0.3):
        return c.pick(names)
    return doc((key, c.pick(names)), db=c.pick(("admin", "own", "other")))


def _users_named(c: Choices) -> Any:
    one = lambda: _named(c, "user", ("root", "spare", *USERS))  # noqa: E731
    return c.pick((1, doc(forAllDBs=True), one(), one(), [one(), one()], [], [1], doc(forAllDBs=False), doc(db="own")))


def _roles_named(c: Choices) -> Any:
    one = lambda: _named(c, "role", ("read", "root", "spare", "of one", "of granter", "of reader"))  # noqa: E731
    return c.pick((1, one(), one(), [one(), one()], [], [1], doc(forAllDBs=True)))


def _changes(c: Choices) -> tuple[tuple[str, Any], ...]:
    fields: tuple[tuple[str, Any], ...] = (
        ("pwd", "p"), ("customData", doc(x=1)), ("roles", _roles(c)), ("mechanisms", ["SCRAM-SHA-1"]),
        ("authenticationRestrictions", [doc(clientSource=["127.0.0.1"])]),
    )  # fmt: skip
    chosen = tuple(field for field in fields if c.chance(0.35))
    return chosen or fields[:1]


def _restrictions(c: Choices) -> tuple[tuple[str, Any], ...]:
    return (("authenticationRestrictions", [doc(clientSource=["127.0.0.1"])] if c.chance(0.6) else []),)


def _shown(c: Choices, *names: str) -> dict[str, Any]:
    return {name: c.chance(0.7) for name in names if c.chance(0.4)}


OF_USERS: tuple[_Maker, ...] = (
    lambda c: doc(usersInfo=_users_named(c), **_shown(c, "showCredentials", "showPrivileges", "showCustomData")),
    lambda c: doc(("usersInfo", _users_named(c)), ("filter", doc(user="root"))),
    lambda c: doc(
        ("rolesInfo", _roles_named(c)), ("showPrivileges", c.pick((True, False, "asUserFragment"))),
        *_shown(c, "showBuiltinRoles", "showAuthenticationRestrictions").items(),
    ),
    lambda c: doc(
        ("createUser", "spare"), ("pwd", "p"), ("roles", _roles(c)), ("mechanisms", ["SCRAM-SHA-1"]),
        *(_restrictions(c) if c.chance(0.2) else ()),
    ),
    lambda c: doc(("updateUser", _user(c)), *_changes(c)),
    lambda c: doc(dropUser=_user(c) if c.chance(0.1) else "spare"),
    lambda c: doc(grantRolesToUser=c.pick(("spare", "spare", "self", "granter")), roles=_roles(c, 1)),
    lambda c: doc(revokeRolesFromUser=c.pick(("spare", "spare", "root")), roles=_roles(c, 1)),
    lambda c: doc(
        ("createRole", "spare"), ("privileges", _privileges(c)), ("roles", _roles(c)),
        *(_restrictions(c) if c.chance(0.2) else ()),
    ),
    lambda c: doc(("updateRole", c.pick(("spare", "of one"))), ("privileges", _privileges(c))),
    lambda c: doc(updateRole="spare", roles=_roles(c)),
    lambda c: doc(("updateRole", "spare"), *_restrictions(c)),
    lambda c: doc(grantPrivilegesToRole=c.pick(("spare", "of granter")), privileges=_privileges(c, 1)),
    lambda c: doc(revokePrivilegesFromRole=c.pick(("spare", "of one")), privileges=_privileges(c, 1)),
    lambda c: doc(grantRolesToRole=c.pick(("spare", "of one")), roles=_roles(c, 1)),
    lambda c: doc(revokeRolesFromRole="spare", roles=_roles(c, 1)),
    lambda c: doc(dropRole=c.pick(("spare", "spare", "of one"))),
    lambda c: doc(dropAllUsersFromDatabase=1),
    lambda c: doc(dropAllRolesFromDatabase=1),
)  # fmt: skip
