"""The sessions that are in use on a process, as `$listLocalSessions` and `$listSessions` show them."""

from __future__ import annotations

from typing import Any

from bson.binary import Binary
from bson.datetime_ms import DatetimeMS

from docstore.bson import get_field
from docstore.commands.context import Services

_EMPTY_ARRAY_BYTES = 5


def sessions_in_use(services: Services, options: bytes) -> list[dict[str, Any]]:
    """All sessions. `options` are the stage's: there are no users, so the sessions of named users are none."""
    users = get_field(options, "users")
    if users is not None and len(users[1]) > _EMPTY_ARRAY_BYTES:
        return []
    sessions, now = services.sessions, services.wall_clock()
    return [
        {
            "_id": {"id": Binary(lsid[:16], 4), "uid": lsid[16:]},
            "lastUse": DatetimeMS(int((now - (sessions.idle_seconds(lsid) or 0.0)) * 1000)),
        }
        for lsid in sessions
    ]
