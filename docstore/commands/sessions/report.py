"""Sessions in use on a process, for `$listLocalSessions` and `$listSessions`."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary
from bson.datetime_ms import DatetimeMS

from docstore.bson import document_to_python
from docstore.commands.context import Context
from docstore.commands.sessions.fields import NO_USER_DIGEST, user_digest


def sessions_in_use(context: Context, options: bytes) -> list[dict[str, Any]]:
    """Return the sessions selected by the stage's `options`, by default those of the client's user.

    `users` names other users; `allUsers`, or no access control, selects all sessions.
    """
    services, owner = context.services, context.session_owner
    selection = document_to_python(options)
    named = [user_digest(str(user.get("user")), str(user.get("db"))) for user in selection.get("users") or ()]
    everyone = bool(selection.get("allUsers")) or owner == NO_USER_DIGEST
    digests = set(named) if named or everyone else {owner}
    sessions, now = services.sessions, services.wall_clock()
    return [
        {
            "_id": {"id": Binary(lsid[:16], 4), "uid": lsid[16:]},
            "lastUse": DatetimeMS(int((now - (sessions.idle_seconds(lsid) or 0.0)) * 1000)),
        }
        for lsid in sessions
        if not digests or lsid[16:] in digests
    ]
