"""Lists of sessions in endSessions, refreshSessions and killSessions."""

from __future__ import annotations

from docstore.bson.walk import OBJECT
from docstore.commands.access.logins import check_owner
from docstore.commands.context import Context
from docstore.commands.sessions.fields import NO_USER_DIGEST, parse_lsid
from docstore.errors import Code, CommandError
from docstore.query.pausing import PAUSED, allowing
from docstore.query.value.long_lists import paced


def lsids_of(context: Context, documents: list[bytes] | None, *, most: int | None = None) -> set[bytes]:
    """Return the sessions of a command's array of `{id: UUID}`.

    Errors: FailedToParse above `most` of them, Unauthorized for a session of another user.
    """
    command, owner = context.command.name, context.session_owner
    documents = documents or []
    if most is not None and len(documents) > most:
        raise CommandError(Code.FailedToParse, f"{command} takes at most {most} sessions, not {len(documents)}")

    def read() -> set[bytes]:
        lsids = set()
        for raw in paced(documents):
            lsid = parse_lsid(OBJECT, raw, field=f"{command}.{command}", owner=owner)
            check_owner(context, lsid)
            lsids.add(lsid)
        return lsids

    return allowing(PAUSED, read)


def kill_own(context: Context) -> None:
    """Kill the operations and cursors of the client's user's sessions; of all sessions without access control."""
    owner = context.session_owner
    everyone = owner == NO_USER_DIGEST
    own = {lsid for lsid in context.services.sessions if lsid[16:] == owner}
    if everyone or own:
        kill(context, set() if everyone else own)


def kill(context: Context, lsids: set[bytes]) -> None:
    """Kill the operations and cursors of those sessions, of every session if the set is empty; but not the caller."""
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
