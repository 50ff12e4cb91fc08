"""Transport failures."""

from __future__ import annotations

from docstore.errors import Code, CommandError


class NetworkError(Exception):
    """No reply arrived; distinct from an error reply (`CommandError`).

    `sent`: the request may have reached the peer. If False, it had no effect; if True, its outcome is unknown. `code`:
    HostUnreachable, HostNotFound, NetworkTimeout, or AuthenticationFailed if the peer is not of this cluster.
    `refused`: the peer's system reported that nobody listens: the connection was refused, closed or reset.
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
    """Return the client's error for a transport failure; None for another exception (`Dispatcher.translate`)."""
    if isinstance(error, NetworkError):
        return CommandError(error.code, str(error))
    return None
