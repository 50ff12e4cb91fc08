"""killAllSessionsByPattern: end what runs in the sessions that one of the patterns picks; in all for no pattern."""

from __future__ import annotations

from docstore.bson import elements, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Privilege, Resource, Result, Role, Type
from docstore.commands.sessions.fields import parse_lsid
from docstore.commands.sessions.lists import kill
from docstore.errors import Code, CommandError


def run(context: Context, arguments: Arguments) -> Result:
    lsids: set[bytes] = set()
    everything = not arguments.value
    for pattern in arguments.value or ():
        lsid = get_field(pattern, "lsid")
        if any(name != "lsid" for name, _, _ in elements(pattern)):
            raise CommandError(Code.NotImplemented, "sessions cannot be chosen by user: there are no users")
        if lsid is None:
            everything = True
        else:
            lsids.add(parse_lsid(*lsid, field="killAllSessionsByPattern.lsid"))
    kill(context, set() if everything else lsids)
    return {}


COMMAND = Command(
    "killAllSessionsByPattern", run, privilege=Privilege("killAnySession", Resource.CLUSTER), role=Role.ANY,
    value=Type.DOCUMENTS, help="end what runs in sessions that match",
)  # fmt: skip
