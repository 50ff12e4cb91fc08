"""Membership: whether a request comes from a process of the cluster, which alone may use internal fields.

Internal parameters are the fields that routers, shards and members of a set send each other
(`docstore.commands.declaration.Parameter.internal`). One of them, `fromMongos`, allows the marks of split pipelines. To
everybody else they are unknown fields.
"""

from __future__ import annotations

from docstore.commands.access.control import AccessControl
from docstore.commands.client_connection import ClientConnection
from docstore.commands.declaration import INTERNAL, Command, Parameter
from docstore.security.privileges import CLUSTER


def is_process(access: AccessControl, connection: ClientConnection) -> bool:
    """True if the connection is that of a process of the cluster.

    With access control it has the privilege that only processes have; without, its hello has said so.
    """
    if not access.enabled:
        return connection.greets_as_process
    identity = connection.identity
    return identity is not None and identity.user.privileges.allow(CLUSTER, INTERNAL.action)


def is_known_to(
    access: AccessControl, connection: ClientConnection, command: Command, parameter: Parameter | None
) -> bool:
    """True if the client of the connection may send this parameter of a command; None is undeclared.

    Every parameter of an internal command is internal, and the command itself needs the privilege.
    """
    if parameter is None:
        return False
    return not parameter.internal or command.privilege == INTERNAL or is_process(access, connection)
