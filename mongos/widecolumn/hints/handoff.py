"""Writes at ANY that had no primary: kept on this router, and carried out when there is one.

A hint is the client's command with the timestamp that the write got here, so carrying it out late, twice, or after
newer ones changes nothing that it should not. The hints of a keyspace are carried out in the order in which they came,
through this router's own listener, as writes at ONE; what has waited for longer than `max_age_seconds` is dropped, and
so is what turns out to be no valid request. A hint is never an acknowledgement of ONE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import bson

from docstore.bson import document_to_python
from docstore.commands.parameters import ServerParameter
from docstore.errors import Code, CommandError
from docstore.log import component
from docstore.net import NetworkError
from docstore.widecolumn.model.errors import unavailable
from mongos.widecolumn.hints.log import Hint, HintLog

LOG = component("WIDE")
_LOOK_SECONDS = 0.5
_REFUSALS = ("InvalidRequestException", "ConfigurationException")
_REFUSED = (
    Code.NamespaceNotFound, Code.CommandNotSupported, Code.TypeMismatch, Code.BadValue, Code.BSONObjectTooLarge,
    Code.Unauthorized,
)  # fmt: skip

Ask = Callable[[str, bytes], Awaitable[object]]
"""Carry out a command on a database. Errors: CommandError, NetworkError."""


@dataclass(slots=True)
class HintMetrics:
    """Counted since the start, for serverStatus."""

    kept: int = 0
    replayed: int = 0
    expired: int = 0
    refused: int = 0
    overflowed: int = 0


class Hints:
    """`clock` gives seconds since 1970."""

    def __init__(self, log: HintLog, ask: Ask, clock: Callable[[], float]) -> None:
        self.max_bytes = 64 * 1024 * 1024
        self.max_age_seconds = 3 * 3600
        self.metrics = HintMetrics()
        self._log = log
        self._ask = ask
        self._clock = clock

    def parameters(self) -> Iterable[ServerParameter]:
        """As getParameter and setParameter know them."""
        for name, attribute in (("hintsMaxBytes", "max_bytes"), ("hintsMaxAgeSecs", "max_age_seconds")):
            yield ServerParameter(
                name=f"wideColumn.{name}",
                get=partial(getattr, self, attribute),
                put=partial(self._put, f"wideColumn.{name}", attribute),
            )

    def _put(self, name: str, attribute: str, value: Any) -> None:
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
            raise CommandError(Code.BadValue, f"{name} must be a whole number from 0 to {(1 << 62) - 1}")
        setattr(self, attribute, value)

    def status(self) -> dict[str, int]:
        """For serverStatus."""
        metrics = self.metrics
        return {
            "pending": len(self._log),
            "pendingBytes": self._log.size,
            "kept": metrics.kept,
            "replayed": metrics.replayed,
            "expired": metrics.expired,
            "refused": metrics.refused,
            "overflowed": metrics.overflowed,
        }

    async def keep(self, keyspace: str, command: bytes) -> None:
        """Keep a write, durably. Errors: Unavailable when there is no room for it."""
        if self._log.size + len(command) > self.max_bytes:
            self.metrics.overflowed += 1
            raise unavailable("ANY", 1, 0, write=True, why="this router keeps as many hints as it may")
        try:
            await self._log.append(keyspace, int(self._clock()), command)
        except OSError as error:
            LOG.warning("A hint cannot be kept", reason=str(error))
            raise unavailable("ANY", 1, 0, write=True, why=f"the hint cannot be kept: {error}") from None
        self.metrics.kept += 1

    async def run(self) -> None:
        """Carry hints out as long as the router runs."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await asyncio.gather(*(self.replay(keyspace) for keyspace in self._log.keyspaces()))

    async def replay(self, keyspace: str) -> None:
        """Carry out the hints of a keyspace in their order, until one has to wait."""
        while (hint := self._log.first(keyspace)) is not None:
            age = int(self._clock()) - hint.at
            if age > self.max_age_seconds:
                self.metrics.expired += 1
            elif not await self._carry_out(keyspace, hint, max(age, 0)):
                return
            self._log.done(keyspace, hint)

    async def _carry_out(self, keyspace: str, hint: Hint, age: int) -> bool:
        """Whether it need not be tried again."""
        try:
            await self._ask(keyspace, aged(hint.command, age))
        except NetworkError:
            return False
        except CommandError as error:
            if error.extra.get("wcException") not in _REFUSALS and error.code not in _REFUSED:
                return False
            self.metrics.refused += 1
            LOG.warning("A hint is refused", keyspace=keyspace, reason=error.message)
            return True
        self.metrics.replayed += 1
        return True


def aged(command: bytes, seconds: int) -> bytes:
    """The write as it is so many seconds later: what is to live for a while has less of it left.

    What has nothing left goes as a value that lives for one more second, since it hides what is older.
    """
    if not seconds or b"ttl\0" not in command:
        return command
    fields = document_to_python(command)
    columns = [fields]
    for mutation in fields.get("mutations", ()):
        columns.append(mutation.get("insert", {}))
        columns += mutation.get("insertSuper", {}).get("columns", ())
    for column in columns:
        ttl = column.get("ttl")
        if isinstance(ttl, int | float) and ttl > 0:
            column["ttl"] = max(int(ttl) - seconds, 1)
    return bson.encode(fields)
