"""The refusals of the wide-column mode, each with the exception name that its clients know."""

from __future__ import annotations

from docstore.errors import Code, CommandError


class MarshalError(Exception):
    """Bytes that are no value of a comparator's type; the text is for the client."""


STALE_SCHEMA = "staleSchema"
"""The field by which `stale_schema` is known."""


def invalid_request(why: str) -> CommandError:
    """InvalidRequestException: the request is invalid for any data."""
    return CommandError(Code.BadValue, why, extra={"wcException": "InvalidRequestException", "why": why})


def not_found() -> CommandError:
    """NotFoundException: the named element does not exist."""
    return CommandError(Code.NoMatchingDocument, "nothing live is there", extra={"wcException": "NotFoundException"})


def configuration(why: str, code: Code = Code.BadValue) -> CommandError:
    """ConfigurationException: a definition that cannot be."""
    return CommandError(code, why, extra={"wcException": "ConfigurationException", "why": why})


def keyspace_absent(name: str) -> CommandError:
    """Return the error for a missing keyspace."""
    why = f"Keyspace {name} does not exist in this schema."
    return CommandError(Code.NamespaceNotFound, why, extra={"wcException": "InvalidRequestException", "why": why})


def family_absent(name: str) -> CommandError:
    """The keyspace has no such column family."""
    why = f"unconfigured columnfamily {name}"
    return CommandError(Code.NamespaceNotFound, why, extra={"wcException": "InvalidRequestException", "why": why})


def already_exists(kind: str, name: str) -> CommandError:
    """A keyspace or a column family has the name already."""
    why = f"{kind} {name} already exists"
    return CommandError(Code.NamespaceExists, why, extra={"wcException": "InvalidRequestException", "why": why})


def unavailable(level: str, needed: int, alive: int, *, write: bool, why: str = "") -> CommandError:
    """UnavailableException: too few members are reachable for the level; nothing has been done."""
    return CommandError(
        Code.UnsatisfiableWriteConcern if write else Code.FailedToSatisfyReadPreference,
        f"consistency level {level} needs {needed} members, and {alive} can be reached{why and f'; {why}'}",
        extra={"wcException": "UnavailableException", "consistency": level, "required": needed, "alive": alive},
    )


def write_timed_out(level: str, needed: int, received: int, reason: str) -> CommandError:
    """TimedOutException: the write stands on the primary, and whether it will survive is not known."""
    return CommandError(
        Code.WriteConcernFailed,
        f"the write has not been acknowledged at consistency level {level}: {reason}",
        extra={"wcException": "TimedOutException", "consistency": level, "required": needed, "received": received},
    )


def change_timed_out(reason: str) -> CommandError:
    """TimedOutException: the schema has been changed on the primary, and whether that will survive is not known."""
    return write_timed_out("QUORUM", 2, 1, reason)


def read_timed_out(level: str, needed: int, received: int) -> CommandError:
    """TimedOutException: too few members have answered in time."""
    return CommandError(
        Code.MaxTimeMSExpired,
        f"{received} of the {needed} members that consistency level {level} needs have answered in time",
        extra={"wcException": "TimedOutException", "consistency": level, "required": needed, "received": received},
    )


def stale_schema(namespace: str) -> CommandError:
    """The sender works by another definition of the column family than the one that stands here."""
    return CommandError(
        Code.StaleConfig, f"the definition of {namespace} is another one", extra={STALE_SCHEMA: namespace}
    )
