"""Failures of the transport."""

from __future__ import annotations

from docstore.errors import Code, CommandError


class NetworkError(Exception):
    """No reply came. Never confused with a reply that says no (`CommandError`).

    `sent` says whether the request may have reached the other side: when it is False nothing can have happened there,
    when it is True the outcome is unknown. `code`: HostUnreachable, HostNotFound, NetworkTimeout, or
    AuthenticationFailed where the other side is none of this cluster. `refused`: the other side's system said that
    nobody takes what is sent: the port refused, or the connection was closed or reset.
    """

    def __init__(
        self,
        address: str,
        reason: str,
        *,
        sent: bool,
        code: Code = Code.HostUnreachable,
        refused: bool = False,
    ) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason
        self.sent = sent
        self.code = code
        self.refused = refused


def as_command_error(error: Exception) -> CommandError | None:
    """The error that our client gets for a transport failure; None for any other exception (`Dispatcher.translate`)."""
    if isinstance(error, NetworkError):
        return CommandError(error.code, str(error))
    return None
