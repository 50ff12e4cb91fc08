"""Names, roles, privileges and restrictions as commands give them: decoded values in, checked ones out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bson.code import Code as JavaScript

from docstore.bson import to_python
from docstore.bson.allowance import spend
from docstore.bson.walk import ARRAY, OBJECT, Value, each_value, elements
from docstore.errors import Code, CommandError
from docstore.security.actions import ACTIONS
from docstore.security.names import RoleName, UserName
from docstore.security.privileges import Kind, Privileges, Resource
from docstore.security.restrictions import Restriction
from docstore.security.scram import MECHANISMS

_PER_ENTRY = 512
"""Work units charged for an entry of a list."""


def _is_text(value: Any) -> bool:
    """True if a value is a string. Code decodes to a subclass of str."""
    return isinstance(value, str) and not isinstance(value, JavaScript)


def _pair(type_name: str, value: Any, db: str, fields: tuple[str, str]) -> tuple[str, str]:
    if _is_text(value):
        return value, db
    if not isinstance(value, Mapping):
        raise CommandError(Code.BadValue, f"{type_name} must be either a string or an object")
    for field in fields:
        if not _is_text(value.get(field)):
            raise CommandError(Code.BadValue, f"{type_name} must contain a field named: {field}")
    return value[fields[0]], value[fields[1]]


def user_name(value: Any, db: str) -> UserName:
    """Errors: BadValue."""
    return UserName(*_pair("UserName", value, db, ("user", "db")))


def role_name(value: Any, db: str) -> RoleName:
    """Errors: BadValue."""
    return RoleName(*_pair("RoleName", value, db, ("role", "db")))


def each_name(type_name: str, value: Value) -> Iterator[Any]:
    """Yield the names in an argument of usersInfo (`type_name`: UserName) or rolesInfo (RoleName), decoded: the
    members of an array, or the value itself.

    Errors: BadValue for a name with a field twice, as decoding would keep one of the two.
    """
    for code, data in each_value(value[1]) if value[0] == ARRAY else (value,):
        field_names: set[str] = set()
        for name, _, _ in elements(data) if code == OBJECT else ():
            if name in field_names:
                raise CommandError(Code.BadValue, f"{type_name} has more than one field named: {name}")
            field_names.add(name)
        yield to_python((code, data))


def names_argument(type_name: str, value: Value) -> Any:
    """Return the argument of usersInfo or rolesInfo, decoded. Errors: as of `each_name`."""
    names = list(each_name(type_name, value))
    return names if value[0] == ARRAY else names[0]


def role_list(members: Iterable[Any], db: str) -> list[RoleName]:
    """The roles of a list, each once. Errors: BadValue."""
    roles: dict[RoleName, None] = {}
    for role in members:
        spend(_PER_ENTRY)
        if not isinstance(role, str | Mapping):
            raise CommandError(Code.BadValue, "Role name must be either a document or string")
        roles[role_name(role, db)] = None
    return list(roles)


def mechanism_list(names: Sequence[Any] | None) -> tuple[str, ...] | None:
    """Mechanisms for which credentials are kept. Errors: BadValue."""
    if names is None:
        return None
    if not names:
        raise CommandError(Code.BadValue, "mechanisms field must not be empty")
    for name in names:
        if name not in MECHANISMS:
            raise CommandError(Code.BadValue, f"Unknown auth mechanism '{name}'")
    return tuple(name for name in MECHANISMS if name in names)


def _resource(document: Mapping[str, Any]) -> Resource:
    db, name = document.get("db"), document.get("collection")
    buckets = document.get("system_buckets")
    if buckets is None and (db is None) != (name is None):
        raise _unparsable("resource must set both db and collection or neither, but not exactly one.")
    kinds = [field for field in ("cluster", "anyResource", "system_buckets") if document.get(field) is not None]
    if len(kinds) + (name is not None) != 1:
        raise _unparsable(
            "resource must have exactly db and collection set, or have only cluster set  or have only anyResource set"
        )
    for field in ("cluster", "anyResource"):
        if field in kinds:
            if document[field] is not True:
                raise _unparsable(f"{field} must be true when specified")
            return Resource(Kind.CLUSTER if field == "cluster" else Kind.EVERYTHING)
    collection_name = buckets if name is None else name
    if not isinstance(collection_name, str) or not _is_text(collection_name) or not (db is None or _is_text(db)):
        raise _unparsable("the names of a resource must be strings")
    return Resource(Kind.BUCKETS if name is None else Kind.NAMESPACE, db or "", collection_name)


def privilege_list(documents: Iterable[Mapping[str, Any]]) -> Privileges:
    """Parse a list of privileges. Errors: FailedToParse, BadValue for an unknown action."""
    privileges = Privileges()
    for privilege in documents:
        spend(_PER_ENTRY)
        actions = privilege.get("actions")
        if not isinstance(actions, list) or not actions:
            raise _unparsable("missing actions field")
        if not isinstance(privilege.get("resource"), Mapping):
            raise _unparsable("missing resource field")
        resource = _resource(privilege["resource"])
        if not all(isinstance(action, str) for action in actions):
            raise CommandError(Code.BadValue, "Unable to parse privilege document: an action is a string")
        unknown = [action for action in actions if action not in ACTIONS]
        if unknown:
            raise CommandError(Code.BadValue, f"Unrecognized action: {unknown[0]}")
        privileges.grant(resource, actions)
    return privileges


def check_reach(role: RoleName, privileges: Privileges, roles: Iterable[RoleName] = ()) -> None:
    """Refuse privileges of a database role on other databases or the cluster. Errors: InvalidRoleModification."""
    if role.db == "admin":
        return
    for name in roles:
        if name.db != role.db:
            raise CommandError(
                Code.InvalidRoleModification,
                f"Roles on the '{role.db}' database cannot be granted roles from other databases",
            )
    for resource, _ in privileges.items():
        if resource.kind not in (Kind.NAMESPACE, Kind.BUCKETS) or resource.db != role.db:
            raise CommandError(
                Code.InvalidRoleModification,
                f"Roles on the '{role.db}' database cannot be granted privileges that target other databases or the"
                " cluster",
            )


def _check_addresses(path: str, addresses: Any) -> None:
    """Check a list of addresses. Errors: TypeMismatch unless it is a list of strings."""
    if not isinstance(addresses, list):
        raise CommandError(Code.TypeMismatch, f"BSON field '{path}' is the wrong type, expected type 'array'")
    for position, address in enumerate(addresses):
        spend(_PER_ENTRY)
        if not isinstance(address, str):
            text = f"BSON field '{path}.{position}' is the wrong type, expected type 'string'"
            raise CommandError(Code.TypeMismatch, text)


def restriction_list(command: str, restrictions: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return `authenticationRestrictions` in the stored form. Errors: 40415, CollectionIsEmpty, BadValue."""
    if restrictions is None:
        return None
    for restriction in restrictions:
        spend(_PER_ENTRY)
        for field in restriction:
            if field not in ("clientSource", "serverAddress"):
                raise CommandError(
                    40415, f"BSON field '{command}.authenticationRestrictions.{field}' is an unknown field."
                )
            _check_addresses(f"{command}.authenticationRestrictions.{field}", restriction[field])
        if not restriction:
            raise CommandError(Code.CollectionIsEmpty, "At least one of 'clientSource' or 'serverAddress' must be set")
        try:
            Restriction.parsed(restriction)
        except ValueError:
            raise CommandError(Code.BadValue, "Invalid IP address in CIDR string") from None
    return [dict(restriction) for restriction in restrictions]


def _unparsable(message: str) -> CommandError:
    return CommandError(Code.FailedToParse, message)
