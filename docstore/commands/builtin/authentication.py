"""Authentication commands: start and continue a conversation, log out, and report the authenticated user."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from docstore.bson.walk import BOOL
from docstore.commands.access import conversations
from docstore.commands.access.logins import current, log_out
from docstore.commands.arguments import Arguments
from docstore.commands.audit.log import logout as logged_out
from docstore.commands.client_connection import ClientConnection
from docstore.commands.context import Context
from docstore.commands.declaration import AUTHENTICATED, PUBLIC, Command, Parameter, Response, Result, Role, Type
from docstore.commands.eager_tasks import start_eagerly
from docstore.query.value.option_fields import option_fields


def sasl_start(context: Context, arguments: Arguments) -> Response:
    payload = conversations.payload_of(arguments["payload"])
    options = arguments["options"]
    short = None if options is None else option_fields("saslStart.options", options).get("skipEmptyExchange")
    work = conversations.start(context, arguments["mechanism"], payload, context.db, short=short == (BOOL, b"\1"))
    return _under_way(context, work)


def sasl_continue(context: Context, arguments: Arguments) -> Response:
    payload = conversations.payload_of(arguments["payload"])
    return _under_way(context, conversations.proceed(context, arguments["conversationId"], payload))


def _under_way(context: Context, work: Coroutine[Any, Any, dict[str, Any]]) -> Response:
    """Run the work, without a task if it does not wait: a data node finds users at once, a router has to ask for
    them.
    """
    return work if context.services.access.passes_on else start_eagerly(work)


async def authenticate(context: Context, arguments: Arguments) -> Result:
    return await conversations.by_certificate(context, arguments["mechanism"], arguments["user"], context.db)


def logout(context: Context, _arguments: Arguments) -> Result:
    connection, audit = context.connection, context.services.audit
    before = _users(connection)
    log_out(connection, context.db)
    if audit is not None and before:
        reason = f"Explicit logout from {context.db}"
        audit.note(connection, "logout", logged_out(reason, before, _users(connection)))
    return {}


def _users(connection: ClientConnection) -> list[dict[str, str]]:
    identity = connection.identity
    return [] if identity is None else [identity.user.name.document()]


def getnonce(context: Context, _arguments: Arguments) -> Result:
    """Return a nonce for MONGODB-CR, which is gone; old clients still ask."""
    return {"nonce": f"{context.services.cursors.random64():016x}"}


async def connection_status(context: Context, arguments: Arguments) -> Result:
    user = await current(context.connection, context.services.access)
    information: dict[str, Any] = {
        "authenticatedUsers": [] if user is None else [user.name.document()],
        "authenticatedUserRoles": [] if user is None else [role.document() for role in user.roles],
    }
    if arguments["showPrivileges"]:
        information["authenticatedUserPrivileges"] = [] if user is None else user.privileges.documents()
    return {"authInfo": information}


COMMANDS: tuple[Command, ...] = (
    Command(
        "authenticate", authenticate, privilege=PUBLIC, role=Role.ANY, stable=True,
        parameters=(Parameter("mechanism", Type.STRING, required=True), Parameter("user", Type.STRING)),
        help="authenticate by the certificate that was shown to the server",
    ),
    Command(
        "saslStart", sasl_start, privilege=PUBLIC, role=Role.ANY, tolerant=True, stable=True,
        parameters=(
            Parameter("mechanism", Type.STRING, required=True),
            Parameter("payload", Type.ANY, required=True),
            Parameter("options", Type.OBJECT),
        ),
        sensitive=("payload",), help="begin to authenticate this connection",
    ),
    Command(
        "saslContinue", sasl_continue, privilege=PUBLIC, role=Role.ANY, tolerant=True, stable=True,
        parameters=(
            Parameter("conversationId", Type.INT, required=True), Parameter("payload", Type.ANY, required=True),
        ),
        sensitive=("payload",), help="go on with authenticating this connection",
    ),
    Command(
        "logout", logout, privilege=AUTHENTICATED, role=Role.ANY, help="end the authentication of this connection"
    ),
    Command("getnonce", getnonce, privilege=PUBLIC, role=Role.ANY, tolerant=True, help="a random number"),
    Command(
        "connectionStatus", connection_status, privilege=PUBLIC, role=Role.ANY,
        parameters=(Parameter("showPrivileges", Type.SAFE_BOOL, default=False),),
        help="the users authenticated on this connection",
    ),
)  # fmt: skip
