"""How long transactions may take, and how many there have been."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docstore.commands.parameters import ServerParameter, whole_number
from docstore.errors import Code, CommandError


@dataclass(slots=True)
class TransactionSettings:
    """`lifetime_seconds`: how long one may stay open. `patience_ms`: how long it waits for who wants to change its
    collection. `started`, `committed` and `aborted` count since the start of the process.
    """

    lifetime_seconds: int = 60
    patience_ms: int = 5
    started: int = 0
    committed: int = 0
    aborted: int = 0

    def parameters(self) -> tuple[ServerParameter, ...]:
        """As getParameter and setParameter know them."""
        return (
            ServerParameter(
                name="transactionLifetimeLimitSeconds", get=lambda: self.lifetime_seconds, put=self._put_lifetime
            ),
            ServerParameter(
                name="maxTransactionLockRequestTimeoutMillis", get=lambda: self.patience_ms, put=self._put_patience
            ),
        )

    def _put_lifetime(self, value: Any) -> None:
        seconds = whole_number("transactionLifetimeLimitSeconds", value)
        if seconds < 1:
            raise CommandError(
                Code.BadValue,
                f"Invalid value for parameter transactionLifetimeLimitSeconds: {seconds} is not greater than or equal "
                "to 1",
            )
        self.lifetime_seconds = seconds

    def _put_patience(self, value: Any) -> None:
        self.patience_ms = whole_number("maxTransactionLockRequestTimeoutMillis", value)
