"""Lists of sessions as endSessions, refreshSessions and killSessions carry them."""

from __future__ import annotations

from docstore.bson.walk import OBJECT
from docstore.commands.access.logins import check_owner
from docstore.commands.context import Context
from docstore.commands.sessions.fields import NO_USER_DIGEST, parse_lsid
from docstore.errors import Code, CommandError


def lsids_of(context: Context, documents: list[bytes] | None, *, most: int | None = None) -> set[bytes]:
    """The sessions in a command's array of `{id: UUID}`. Errors: FailedToParse past `most` of them, Unauthorized for
    one of another user.
    """
    command, owner = context.command.name, context.connection.session_owner
    documents = documents or []
    if most is not None and len(documents) > most:
        raise CommandError(Code.FailedToParse, f"{command} takes at most {most} sessions, not {len(documents)}")
    found = {parse_lsid(OBJECT, raw, field=f"{command}.{command}", owner=owner) for raw in documents}
    for lsid in found:
        check_owner(context.connection, lsid)
    return found


def kill_own(context: Context) -> None:
    """End what runs in the sessions of the asking user; in all where nobody is told apart."""
    owner = context.connection.session_owner
    everyone = owner == NO_USER_DIGEST
    own = {lsid for lsid in context.services.sessions if lsid[16:] == owner}
    if everyone or own:
        kill(context, set() if everyone else own)


def kill(context: Context, lsids: set[bytes]) -> None:
    """End the operations and cursors of those sessions, of every session when the set is empty; not the caller
    itself.
    """
    services = context.services
    if services.transactions is not None:
        services.transactions.end_sessions(lsids)
    services.cursors.kill_where(lambda cursor: cursor.lsid is not None and (not lsids or cursor.lsid in lsids))
    services.operations.kill_where(
        lambda operation: (
            operation.context is not context
            and operation.context.session is not None
            and (not lsids or operation.context.session.lsid in lsids)
        )
    )
