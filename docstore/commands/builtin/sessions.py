"""Commands of logical sessions: start, refresh, end, kill. A session owns cursors and operations."""

from __future__ import annotations

from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import AUTHENTICATED, Command, Privilege, Resource, Result, Role, Type
from docstore.commands.sessions.fields import lsid_document
from docstore.commands.sessions.lists import kill, kill_own, lsids_of
from docstore.commands.sessions.patterns import Pattern, of_patterns, of_users
from docstore.commands.sessions.registry import TIMEOUT_MINUTES
from docstore.query.pausing import PAUSED, allowing
from docstore.query.value.long_lists import paced

MAX_SESSIONS_AT_ONCE = 10_000
_KILL_ANY = Privilege("killAnySession", Resource.CLUSTER)


def start_session(context: Context, _arguments: Arguments) -> Result:
    """Return a new session id, for shells; drivers create their own."""
    lsid = context.services.sessions.start(context.session_owner)
    return {"id": lsid_document(lsid), "timeoutMinutes": TIMEOUT_MINUTES}


def refresh_sessions(context: Context, arguments: Arguments) -> Result:
    lsids = list(lsids_of(context, arguments.value))

    def refresh() -> None:
        for lsid in paced(lsids):
            context.services.sessions.touch(lsid)

    allowing(PAUSED, refresh)
    return {}


def end_sessions(context: Context, arguments: Arguments) -> Result:
    lsids = lsids_of(context, arguments.value, most=MAX_SESSIONS_AT_ONCE)
    context.services.sessions.end(lsids)
    context.services.cursors.kill_sessions(lsids)
    if lsids and context.services.transactions is not None:
        context.services.transactions.end_sessions(lsids)
    return {}


def kill_sessions(context: Context, arguments: Arguments) -> Result:
    """Kill the named sessions; without names, all of the user's."""
    lsids = lsids_of(context, arguments.value)
    if lsids:
        kill(context, lsids)
    else:
        kill_own(context)
    return {}


async def kill_all_sessions(context: Context, arguments: Arguments) -> Result:
    """Kill the sessions of the named users; without names, everyone's."""
    return _kill_matching(context, await of_users(context, arguments.value or []))


def kill_all_sessions_by_pattern(context: Context, arguments: Arguments) -> Result:
    """Kill the sessions that match one of the patterns; without patterns, all."""
    return _kill_matching(context, allowing(PAUSED, of_patterns, context, arguments.value or []))


def _kill_matching(context: Context, patterns: list[Pattern]) -> Result:
    if not patterns or any(pattern.everything for pattern in patterns):
        kill(context, set())
        return {}
    lsids = {lsid for lsid in context.services.sessions if any(pattern.matches(lsid) for pattern in patterns)}
    if lsids:
        kill(context, lsids)
    return {}


COMMANDS: tuple[Command, ...] = (
    Command(
        "startSession", start_session, privilege=AUTHENTICATED, role=Role.ANY, tolerant=True,
        help="begin a logical session",
    ),
    Command(
        "refreshSessions", refresh_sessions, privilege=AUTHENTICATED, role=Role.ANY, value=Type.DOCUMENTS, stable=True,
        pausable=True, help="renew the time-out of sessions",
    ),
    Command(
        "endSessions", end_sessions, privilege=AUTHENTICATED, role=Role.ANY, value=Type.DOCUMENTS, stable=True,
        pausable=True, help="end sessions",
    ),
    Command(
        "killSessions", kill_sessions, privilege=AUTHENTICATED, role=Role.ANY, value=Type.DOCUMENTS,
        pausable=True, help="end what runs in sessions",
    ),
    Command(
        "killAllSessions", kill_all_sessions, privilege=_KILL_ANY, role=Role.ANY, user_first=True, value=Type.DOCUMENTS,
        pausable=True, help="end what runs in any session",
    ),
    Command(
        "killAllSessionsByPattern", kill_all_sessions_by_pattern, privilege=_KILL_ANY, role=Role.ANY, user_first=True,
        value=Type.DOCUMENTS, pausable=True, help="end what runs in sessions that match",
    ),
)  # fmt: skip
