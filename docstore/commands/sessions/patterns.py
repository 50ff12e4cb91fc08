"""Session patterns of killAllSessions and killAllSessionsByPattern."""

from __future__ import annotations

from typing import NamedTuple

from docstore.bson.walk import BINARY, OBJECT
from docstore.commands.arguments import declared, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Type
from docstore.commands.sessions.fields import parse_lsid, user_digest
from docstore.commands.values import wrong_type
from docstore.errors import Code, CommandError
from docstore.query.value.long_lists import paced
from docstore.security.names import UserName
from docstore.security.privileges import CLUSTER

_USER = declared(Parameter("user", Type.STRING, required=True), Parameter("db", Type.STRING, required=True))
_ROLE = declared(Parameter("role", Type.STRING, required=True), Parameter("db", Type.STRING, required=True))
_PATTERN = declared(
    Parameter("lsid", Type.OBJECT),
    Parameter("uid", Type.ANY),
    Parameter("users", Type.DOCUMENTS),
    Parameter("roles", Type.DOCUMENTS),
)
_LSID = declared(Parameter("id", Type.ANY, required=True), Parameter("uid", Type.ANY, required=True))
_ALL_SESSIONS = "KillAllSessionsCmd.killAllSessions"
_BY_PATTERN = "KillAllSessionsByPatternCmd.killAllSessionsByPattern"
_DIGEST_BYTES = 32


class Pattern(NamedTuple):
    """Matches one session, or all sessions of a user digest, or without either every session."""

    lsid: bytes | None = None
    owner: bytes | None = None

    @property
    def everything(self) -> bool:
        return self.lsid is None and self.owner is None

    def matches(self, lsid: bytes) -> bool:
        return self.lsid in (None, lsid) and self.owner in (None, lsid[16:])


async def of_users(context: Context, documents: list[bytes]) -> list[Pattern]:
    """Return patterns of existing users' sessions. Errors: UserNotFound, and those of the fields."""
    patterns = []
    for raw in paced(documents):
        fields = parse_fields(_ALL_SESSIONS, raw, _USER)
        name = UserName(fields["user"], fields["db"])
        if await context.services.access.find(name) is None:
            raise CommandError(Code.UserNotFound, f'Could not find user "{name.user}" for db "{name.db}"')
        patterns.append(Pattern(owner=user_digest(name.user, name.db)))
    return patterns


def of_patterns(context: Context, documents: list[bytes]) -> list[Pattern]:
    """Return the patterns of a command. Errors: Unauthorized, and those of the fields.

    `users` and `roles` of a pattern name the user on whose behalf another process asks. They select nothing, and only
    that process may send them.
    """
    patterns = []
    for raw in paced(documents):
        fields = parse_fields(_BY_PATTERN, raw, _PATTERN)
        for name, shape in (("users", _USER), ("roles", _ROLE)):
            for entry in fields[name] or ():
                parse_fields(f"{_BY_PATTERN}.{name}", entry, shape)
        if fields["users"] or fields["roles"]:
            _check_may_impersonate(context)
        lsid = fields["lsid"]
        if lsid is not None:
            lsid_fields = parse_fields(f"{_BY_PATTERN}.lsid", lsid, _LSID)
            _digest(f"{_BY_PATTERN}.lsid.uid", *lsid_fields["uid"])
            lsid = parse_lsid(OBJECT, lsid, field=f"{_BY_PATTERN}.lsid")
        owner = None if fields["uid"] is None else _digest(f"{_BY_PATTERN}.uid", *fields["uid"])
        patterns.append(Pattern(lsid, owner))
    return patterns


def _check_may_impersonate(context: Context) -> None:
    identity = context.identity
    if context.services.access.enabled and (
        identity is None or not identity.user.privileges.allow(CLUSTER, "impersonate")
    ):
        raise CommandError(Code.Unauthorized, "Not authorized to impersonate in killAllSessionsByPattern")


def _digest(field: str, code: int, data: bytes) -> bytes:
    if code != BINARY:
        raise wrong_type(field, code, "binData")
    digest = data[5:]
    if len(digest) != _DIGEST_BYTES:
        raise CommandError(Code.UnsupportedFormat, f"Unsupported SHA256Block hash length: {len(digest)}")
    return digest
