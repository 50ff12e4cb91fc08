"""The refusals of the wide-column mode, each with the exception name that its clients know."""

from __future__ import annotations

from docstore.errors import Code, CommandError


class MarshalError(Exception):
    """Bytes that are no value of a comparator's type; the text is for the client."""


def invalid_request(why: str) -> CommandError:
    """InvalidRequestException: the request cannot be right, whatever the data."""
    return CommandError(Code.BadValue, why, extra={"wcException": "InvalidRequestException", "why": why})


def not_found() -> CommandError:
    """NotFoundException: what was asked for by name is not there."""
    return CommandError(Code.NoMatchingDocument, "nothing live is there", extra={"wcException": "NotFoundException"})


def configuration(why: str, code: Code = Code.BadValue) -> CommandError:
    """ConfigurationException: a definition that cannot be."""
    return CommandError(code, why, extra={"wcException": "ConfigurationException", "why": why})
