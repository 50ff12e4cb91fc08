"""Lists of sessions as endSessions, refreshSessions and killSessions carry them."""

from __future__ import annotations

from docstore.bson.walk import OBJECT
from docstore.commands.context import Context
from docstore.commands.sessions.fields import parse_lsid
from docstore.errors import Code, CommandError


def lsids_of(command: str, documents: list[bytes] | None, *, most: int | None = None) -> set[bytes]:
    """The sessions in a command's array of `{id: UUID}`; FailedToParse past `most` of them."""
    documents = documents or []
    if most is not None and len(documents) > most:
        raise CommandError(Code.FailedToParse, f"{command} takes at most {most} sessions, not {len(documents)}")
    return {parse_lsid(OBJECT, raw, field=f"{command}.{command}") for raw in documents}


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
