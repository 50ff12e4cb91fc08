"""Time limits of transactions, and their counters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docstore.commands.parameters import ServerParameter, whole_number
from docstore.errors import Code, CommandError


@dataclass(slots=True)
class TransactionSettings:
    """Limits and counters of the transactions of a process.

    `lifetime_seconds`: maximum time open. `patience_ms`: how long a transaction waits for a pending change of its
    collection. `started`, `committed`, `aborted`: counts since the start of the process.
    """

    lifetime_seconds: int = 60
    patience_ms: int = 5
    started: int = 0
    committed: int = 0
    aborted: int = 0

    def parameters(self) -> tuple[ServerParameter, ...]:
        """Return the server parameters of these limits."""
        return (
            ServerParameter(
                name="transactionLifetimeLimitSeconds", get=lambda: self.lifetime_seconds, assign=self._put_lifetime
            ),
            ServerParameter(
                name="maxTransactionLockRequestTimeoutMillis", get=lambda: self.patience_ms, assign=self._put_patience
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
