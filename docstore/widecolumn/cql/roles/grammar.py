"""CREATE, ALTER and DROP of ROLE and USER; GRANT, REVOKE, LIST.

Nothing of these statements is remembered: they may hold passwords.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn

from docstore.query.pausing import PAUSED, allowing
from docstore.widecolumn.cql.errors import unsupported
from docstore.widecolumn.cql.grammar.scanner import Scanner, after_blanks, joined, listed
from docstore.widecolumn.cql.grammar.terms import table_name
from docstore.widecolumn.cql.roles.permissions import PERMISSIONS
from docstore.widecolumn.cql.roles.statements import (
    AlterRole,
    CreateRole,
    DataResource,
    DropRole,
    GrantPermissions,
    GrantRole,
    ListPermissions,
    ListRoles,
    RoleOptions,
    RoleStatement,
)
from docstore.widecolumn.limits import MAX_OPENING_CHARACTERS


class _Scanner(Scanner):
    """Repeats no string in errors: it may be a password."""

    def fail(self) -> NoReturn:
        at = self.at
        if self.string() is not None:
            raise self.error("no viable alternative at input '<string>'", at)
        super().fail()


_BEGIN = re.compile(r"(?:(?:CREATE|ALTER|DROP)\s+(?:ROLE|USER)|GRANT|REVOKE|LIST)\b", re.IGNORECASE | re.ASCII)
_ALL = "all"
_LISTED = ("roles", "users", "permissions", _ALL, *map(str.lower, PERMISSIONS))


def is_about_roles(text: str) -> bool:
    """True if the statement begins like one about roles."""
    at = allowing(PAUSED, after_blanks, text)
    return _BEGIN.match(text, at, at + MAX_OPENING_CHARACTERS) is not None


def parse(text: str) -> RoleStatement:
    """The statement of a text that is about roles. CqlError."""
    return allowing(PAUSED, _parsed, text)


def _parsed(text: str) -> RoleStatement:
    scan = _Scanner(text)
    first = scan.expect("create", "alter", "drop", "grant", "revoke", "list")
    statement: RoleStatement
    if first == "list":
        statement = _list(scan)
    elif first in ("grant", "revoke"):
        statement = _grant(scan, revoke=first == "revoke")
    else:
        user = scan.expect("role", "user") == "user"
        statement = _DEFINITIONS[first](scan, user)
    scan.accept_sign(";")
    if not scan.ended():
        scan.fail()
    return statement


def _role(scan: Scanner) -> str:
    """A role's name: folded to lower case unless it is quoted or a string."""
    text = scan.string()
    return scan.name() if text is None else text


def _create(scan: Scanner, user: bool) -> CreateRole:
    absent = scan.accept("if") is not None
    if absent:
        scan.expect("not")
        scan.expect("exists")
    name = _role(scan)
    options = _user_options(scan, RoleOptions(login=True)) if user else _options(scan)
    return CreateRole(name, absent, options)


def _alter(scan: Scanner, user: bool) -> AlterRole:
    name = _role(scan)
    return AlterRole(name, _user_options(scan, RoleOptions()) if user else _options(scan))


def _drop(scan: Scanner, _user: bool) -> DropRole:
    present = scan.accept("if") is not None
    if present:
        scan.expect("exists")
    return DropRole(_role(scan), present)


_DEFINITIONS: dict[str, Callable[[Scanner, bool], RoleStatement]] = {"create": _create, "alter": _alter, "drop": _drop}


def _user_options(scan: Scanner, options: RoleOptions) -> RoleOptions:
    password, superuser = None, None
    if scan.accept("with"):
        scan.expect("password")
        password = _string(scan)
    keyword = scan.accept("superuser", "nosuperuser")
    if keyword is not None:
        superuser = keyword == "superuser"
    return RoleOptions(password, options.login, superuser)


def _options(scan: Scanner) -> RoleOptions:
    if not scan.accept("with"):
        return RoleOptions()
    options: dict[str, str | bool] = {}
    for name, value in joined(scan, _option):
        if name in options:
            raise scan.error(f"{name.upper()} is given twice")
        options[name] = value
    password, login, superuser = options.get("password"), options.get("login"), options.get("superuser")
    return RoleOptions(
        password if isinstance(password, str) else None,
        login if isinstance(login, bool) else None,
        superuser if isinstance(superuser, bool) else None,
    )


def _option(scan: Scanner) -> tuple[str, str | bool]:
    name = scan.accept("password", "login", "superuser")
    if name is None:
        if scan.word() in ("options", "hashed", "access", "generated"):
            _refuse("Other options of roles than PASSWORD, LOGIN and SUPERUSER are")
        scan.fail()
    scan.expect_sign("=")
    return name, _string(scan) if name == "password" else scan.expect("true", "false") == "true"


def _string(scan: Scanner) -> str:
    text = scan.string()
    if text is None:
        scan.fail()
    return text


def _grant(scan: Scanner, *, revoke: bool) -> GrantRole | GrantPermissions:
    begin = scan.at
    permissions = _permissions(scan)
    if permissions is not None and scan.accept("on"):
        on = _resource(scan)
        scan.expect("from" if revoke else "to")
        return GrantPermissions(permissions, on, _role(scan), revoke)
    scan.at = begin
    role = _role(scan)
    scan.expect("from" if revoke else "to")
    return GrantRole(role, _role(scan), revoke)


def _permissions(scan: Scanner) -> tuple[str, ...] | None:
    """Parse the permissions; None if something else follows."""
    if scan.accept(_ALL):
        scan.accept("permissions")
        return PERMISSIONS
    words = tuple(map(str.lower, PERMISSIONS))
    if scan.word() not in words:
        return None
    permissions = listed(scan, lambda each: each.expect(*words))
    scan.accept("permission", "permissions")
    return tuple(word.upper() for word in permissions)


def _resource(scan: Scanner) -> DataResource:
    if scan.accept(_ALL):
        if scan.expect("keyspaces", "roles", "functions", "mbeans") != "keyspaces":
            _refuse("Permissions on other resources than keyspaces and tables are")
        return DataResource()
    if scan.accept("keyspace"):
        return DataResource(keyspace=scan.name())
    if scan.accept("role", "function", "mbean", "mbeans"):
        _refuse("Permissions on other resources than keyspaces and tables are")
    scan.accept("table", "columnfamily")
    return DataResource(table=table_name(scan))


def _list(scan: Scanner) -> ListRoles | ListPermissions:
    word = scan.word()
    if word not in _LISTED:
        scan.fail()
    if scan.accept("users"):
        return ListRoles(users=True)
    if scan.accept("roles"):
        of = _role(scan) if scan.accept("of") else None
        return ListRoles(of, scan.accept("norecursive") is None)
    permissions = _permissions(scan)
    if permissions is None:
        scan.fail()
    on = _resource(scan) if scan.accept("on") else None
    of = _role(scan) if scan.accept("of") else None
    return ListPermissions(permissions, on, of, scan.accept("norecursive") is None)


def _refuse(feature: str) -> NoReturn:
    raise unsupported(feature)
