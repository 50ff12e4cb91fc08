"""Settings and counters of the TTL monitor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from docstore.commands.parameters import ServerParameter, truth, whole_number
from docstore.errors import Code, CommandError


@dataclass(slots=True)
class TtlSettings:
    """Settings of the TTL monitor; `passes` and `deleted` count since the start of the process."""

    enabled: bool = True
    sleep_seconds: int = 60
    passes: int = 0
    deleted: int = 0

    def parameters(self) -> tuple[ServerParameter, ...]:
        """Return the server parameters of these settings."""
        return (
            ServerParameter(
                name="ttlMonitorEnabled",
                get=lambda: self.enabled,
                assign=lambda value: setattr(self, "enabled", truth(value)),
            ),
            ServerParameter(name="ttlMonitorSleepSecs", get=lambda: self.sleep_seconds, assign=self._set_sleep),
        )

    def _set_sleep(self, value: Any) -> None:
        seconds = whole_number("ttlMonitorSleepSecs", value)
        if seconds <= 0:
            raise CommandError(
                Code.BadValue, f"Invalid value for parameter ttlMonitorSleepSecs: {seconds} is not greater than 0"
            )
        self.sleep_seconds = seconds
