"""Commands that manage users and roles."""

from __future__ import annotations

from docstore.commands.access.user_needs import (
    create_role_needs,
    create_user_needs,
    grant_privileges_needs,
    grant_roles_needs,
    revoke_privileges_needs,
    revoke_roles_needs,
    roles_info_needs,
    update_role_needs,
    update_user_needs,
    users_info_needs,
)
from docstore.commands.declaration import Needs, Parameter, Privilege, Resource, Role, Spec, Type

_ROLES = Parameter("roles", Type.ARRAY, distinct=True)
_REQUIRED_ROLES = Parameter("roles", Type.ARRAY, required=True, distinct=True)
_PRIVILEGES = Parameter("privileges", Type.DOCUMENTS, distinct=True)
_REQUIRED_PRIVILEGES = Parameter("privileges", Type.DOCUMENTS, required=True, distinct=True)
_RESTRICTIONS = Parameter("authenticationRestrictions", Type.DOCUMENTS, distinct=True)
_ABOUT_USER = (
    Parameter("pwd", Type.STRING),
    Parameter("customData", Type.OBJECT),
    Parameter("digestPassword", Type.BOOL, default=True),
    Parameter("mechanisms", Type.STRINGS),
    _RESTRICTIONS,
)
_SHOWN = (
    Parameter("showAuthenticationRestrictions", Type.SAFE_BOOL, default=False),
)  # fmt: skip


def _change(
    name: str, action: str, help_line: str, *parameters: Parameter, needs: Needs | None = None, everything: bool = False
) -> Spec:
    """Return a command that changes the user or role it names, or all of its database."""
    return Spec(
        name, privilege=Privilege(action, Resource.DATABASE), role=Role.PRIMARY,
        value=Type.ANY if everything else Type.STRING, parameters=parameters, needs=needs, sensitive=("pwd",),
        pausable=True, help=help_line,
    )  # fmt: skip


CREATE_USER = _change(
    "createUser", "createUser", "add a user to a database", *_ABOUT_USER, _REQUIRED_ROLES, needs=create_user_needs
)
UPDATE_USER = _change("updateUser", "changePassword", "change a user", *_ABOUT_USER, _ROLES, needs=update_user_needs)
DROP_USER = _change("dropUser", "dropUser", "remove a user")
DROP_ALL_USERS = _change("dropAllUsersFromDatabase", "dropUser", "remove all users of a database", everything=True)
GRANT_ROLES_TO_USER = _change(
    "grantRolesToUser", "grantRole", "give roles to a user", _REQUIRED_ROLES, needs=grant_roles_needs
)
REVOKE_ROLES_FROM_USER = _change(
    "revokeRolesFromUser", "revokeRole", "take roles from a user", _REQUIRED_ROLES, needs=revoke_roles_needs
)

CREATE_ROLE = _change(
    "createRole",
    "createRole",
    "add a role to a database",
    _REQUIRED_PRIVILEGES,
    _REQUIRED_ROLES,
    _RESTRICTIONS,
    needs=create_role_needs,
)
UPDATE_ROLE = _change(
    "updateRole", "revokeRole", "change a role", _PRIVILEGES, _ROLES, _RESTRICTIONS, needs=update_role_needs
)
DROP_ROLE = _change("dropRole", "dropRole", "remove a role")
DROP_ALL_ROLES = _change("dropAllRolesFromDatabase", "dropRole", "remove all roles of a database", everything=True)
GRANT_PRIVILEGES_TO_ROLE = _change(
    "grantPrivilegesToRole",
    "grantRole",
    "give privileges to a role",
    _REQUIRED_PRIVILEGES,
    needs=grant_privileges_needs,
)
REVOKE_PRIVILEGES_FROM_ROLE = _change(
    "revokePrivilegesFromRole",
    "revokeRole",
    "take privileges from a role",
    _REQUIRED_PRIVILEGES,
    needs=revoke_privileges_needs,
)
GRANT_ROLES_TO_ROLE = _change(
    "grantRolesToRole", "grantRole", "give a role what others have", _REQUIRED_ROLES, needs=grant_roles_needs
)
REVOKE_ROLES_FROM_ROLE = _change(
    "revokeRolesFromRole", "revokeRole", "take roles from a role", _REQUIRED_ROLES, needs=revoke_roles_needs
)

USERS_INFO = Spec(
    "usersInfo", privilege=Privilege("viewUser", Resource.DATABASE), role=Role.SECONDARY_OK, read_concern=True,
    parameters=(
        Parameter("filter", Type.OBJECT),
        Parameter("showPrivileges", Type.SAFE_BOOL, default=False),
        Parameter("showCredentials", Type.SAFE_BOOL, default=False),
        Parameter("showCustomData", Type.SAFE_BOOL, default=True),
        *_SHOWN,
    ),
    needs=users_info_needs, help="users, and what they may do", pausable=True, repeatable=True,
)  # fmt: skip
ROLES_INFO = Spec(
    "rolesInfo", privilege=Privilege("viewRole", Resource.DATABASE), role=Role.SECONDARY_OK, read_concern=True,
    parameters=(
        Parameter("showBuiltinRoles", Type.SAFE_BOOL, default=False),
        Parameter("showPrivileges", Type.ANY),
        *_SHOWN,
    ),
    needs=roles_info_needs, help="roles, and what they give", pausable=True, repeatable=True,
)  # fmt: skip
INVALIDATE_USER_CACHE = Spec(
    "invalidateUserCache", privilege=Privilege("invalidateUserCache", Resource.CLUSTER), role=Role.ANY,
    help="read users and roles anew",
)  # fmt: skip

CHANGES = (
    CREATE_USER, UPDATE_USER, DROP_USER, DROP_ALL_USERS, GRANT_ROLES_TO_USER, REVOKE_ROLES_FROM_USER, CREATE_ROLE,
    UPDATE_ROLE, DROP_ROLE, DROP_ALL_ROLES, GRANT_PRIVILEGES_TO_ROLE, REVOKE_PRIVILEGES_FROM_ROLE, GRANT_ROLES_TO_ROLE,
    REVOKE_ROLES_FROM_ROLE,
)  # fmt: skip
"""Commands that change users or roles."""
