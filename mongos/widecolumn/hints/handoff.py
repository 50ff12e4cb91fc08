"""Hinted handoff: writes at ANY that had no primary are kept on this router, and carried out when there is one.

A hint is the client's command with the timestamp that the write got here and its origin
(`docstore.widecolumn.model.hint_origin`), so carrying it out late, twice, or after newer ones changes nothing that it
should not. Invariants:

* a hint is forgotten when a majority of its shard has the write, when it is outdated or no valid request, or when it
  has waited for longer than `max_age_seconds`;
* hints wait for their own column families and shards alone: one whose family is being dropped, which needs all shards,
  holds back no hint of another family. Their order is free, since timestamps decide;
* a hint is never an acknowledgement of ONE.
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
from docstore.widecolumn.model.hint_origin import OUTDATED
from mongos.widecolumn.hints.log import Hint, HintLog, HintRef

LOG = component("WIDE")
_LOOK_SECONDS = 0.5
_LOOK_SECONDS_PER_HINT = 1e-4
"""Looking at one takes about a fifth of that, so the router has time for others however many are pending."""
MAX_PASS_HINTS = 1000
_BACKOFF_SECONDS = 2.0
"""Targets of a hint that could not be carried out are left alone for so long."""
_REFUSALS = ("InvalidRequestException", "ConfigurationException")
_REFUSED = (
    Code.NamespaceNotFound, Code.CommandNotSupported, Code.TypeMismatch, Code.BadValue, Code.BSONObjectTooLarge,
    Code.Unauthorized,
)  # fmt: skip

Ask = Callable[[str, bytes], Awaitable[object]]
"""Runs a command on a database. Errors: CommandError, NetworkError."""
Targets = frozenset[tuple[str, str]]
"""(namespace, shard) of the rows that a command writes."""
FindTargets = Callable[[str, bytes], Awaitable[Targets]]
"""Returns the targets of a keyspace's command. Errors: CommandError, NetworkError."""


@dataclass(slots=True)
class HintMetrics:
    """Counted since the start, for serverStatus."""

    kept: int = 0
    replayed: int = 0
    expired: int = 0
    refused: int = 0
    outdated: int = 0
    overflowed: int = 0


class Hints:
    """`clock` gives seconds since 1970, `monotonic` those since any moment."""

    def __init__(
        self,
        log: HintLog,
        ask: Ask,
        find_targets: FindTargets,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        self.max_bytes = 64 * 1024 * 1024
        self.max_age_seconds = 3 * 3600
        self.metrics = HintMetrics()
        self._log = log
        self._ask = ask
        self._find_targets = find_targets
        self._clock = clock
        self._monotonic = monotonic
        self._next_trials: dict[Targets, float] = {}
        """The times of the next attempts, by targets whose hints could not be replayed."""
        self._trials: dict[Targets, asyncio.Future[None]] = {}
        """The tasks that carry hints out, by the targets that those wait for."""
        self._tried: set[HintRef] = set()
        """The hints that are being carried out, so that they neither expire nor are tried twice."""

    def parameters(self) -> Iterable[ServerParameter]:
        """Yield the parameters for getParameter and setParameter."""
        for name, attribute in (("hintsMaxBytes", "max_bytes"), ("hintsMaxAgeSecs", "max_age_seconds")):
            yield ServerParameter(
                name=f"wideColumn.{name}",
                get=partial(getattr, self, attribute),
                assign=partial(self._put, f"wideColumn.{name}", attribute),
            )

    def _put(self, name: str, attribute: str, value: Any) -> None:
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 62:
            raise CommandError(Code.BadValue, f"{name} must be a whole number from 0 to {(1 << 62) - 1}")
        setattr(self, attribute, value)

    def status(self) -> dict[str, int]:
        """Return the section of serverStatus."""
        metrics = self.metrics
        return {
            "pending": len(self._log),
            "pendingBytes": self._log.size,
            "kept": metrics.kept,
            "replayed": metrics.replayed,
            "expired": metrics.expired,
            "refused": metrics.refused,
            "outdated": metrics.outdated,
            "overflowed": metrics.overflowed,
        }

    async def keep(self, keyspace: str, command: bytes) -> None:
        """Store a write durably as a hint. Errors: Unavailable if there is no room for it."""
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
        """Replay hints as long as the router runs."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(_LOOK_SECONDS + len(self._log) * _LOOK_SECONDS_PER_HINT)
        finally:
            for trial in self._trials.values():
                trial.cancel()

    async def replay(self) -> None:
        """Try every pending hint once, except those of targets that have just failed."""
        await self.look()
        await asyncio.gather(*self._trials.values())

    async def look(self) -> None:
        """Drop the expired hints and start replaying the others, except those of targets that are being tried or have
        just failed. Targets do not wait for each other.
        """
        refs = self._log.pending()
        for start in range(0, len(refs), MAX_PASS_HINTS):
            groups: dict[Targets, list[HintRef]] = {}
            for ref in refs[start : start + MAX_PASS_HINTS]:
                hint = None if ref in self._tried else await self._unexpired(ref)
                if hint is not None:
                    groups.setdefault(await self._targets_of(ref.keyspace, hint), []).append(ref)
            for targets, group in groups.items():
                if targets not in self._trials and self._monotonic() >= self._next_trials.get(targets, 0.0):
                    self._trials[targets] = asyncio.ensure_future(self._try(targets, group))
            await asyncio.sleep(0)

    async def _unexpired(self, ref: HintRef) -> Hint | None:
        """Return the hint; None if it is gone. Removes it if it has expired."""
        hint = self._log.read(ref)
        if hint is None or self._age(hint) <= self.max_age_seconds:
            return hint
        self.metrics.expired += 1
        await self._log.forget(ref)
        return None

    def _age(self, hint: Hint) -> int:
        return max(int(self._clock()) - hint.at, 0)

    async def _targets_of(self, keyspace: str, hint: Hint) -> Targets:
        """Return the targets for which a hint waits; none if they are unknown at present."""
        try:
            return await self._find_targets(keyspace, hint.command)
        except (CommandError, NetworkError):
            return frozenset()

    async def _try(self, targets: Targets, refs: list[HintRef]) -> None:
        """Replay hints of the same targets until one has to wait."""
        try:
            for ref in refs:
                hint = await self._unexpired(ref)
                if hint is None:
                    continue
                self._tried.add(ref)
                try:
                    done = await self._carry_out(ref.keyspace, aged(hint.command, self._age(hint)))
                finally:
                    self._tried.discard(ref)
                if not done:
                    self._next_trials[targets] = self._monotonic() + _BACKOFF_SECONDS
                    return
                await self._log.forget(ref)
            self._next_trials.pop(targets, None)
        finally:
            del self._trials[targets]

    async def _carry_out(self, keyspace: str, command: bytes) -> bool:
        """Execute a hint; return whether it is finished, that is, needs no further attempt."""
        try:
            await self._ask(keyspace, command)
        except NetworkError:
            return False
        except CommandError as error:
            if OUTDATED in error.extra:
                self.metrics.outdated += 1
                LOG.info("A hint is outdated", keyspace=keyspace, reason=error.message)
                return True
            if error.extra.get("wcException") not in _REFUSALS and error.code not in _REFUSED:
                return False
            self.metrics.refused += 1
            LOG.warning("A hint is refused", keyspace=keyspace, reason=error.message)
            return True
        self.metrics.replayed += 1
        return True


def aged(command: bytes, seconds: int) -> bytes:
    """Return the write with its TTLs reduced by `seconds`, the age of the hint.

    A value whose TTL has run out is sent with a TTL of one second, because it hides older values.
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
