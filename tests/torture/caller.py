"""How a client of a run asks one of several processes, and what it takes from an answer.

It talks to one process at a time for its writes and stays with it until it is refused or left without an answer, so
that a primary which has been cut off keeps its clients for a while. Nothing is sent twice.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import bson
from bson.timestamp import Timestamp

from tests.checkers.history import History, Kind, Operation, Outcome
from tests.torture.wire import Link, Lost, NotSent

DATABASE = "torture"
REPLY_SECONDS = 5.0
MAJORITY_MILLIS = 2500
KEY_SECONDS = 10.0
"""Registers and lists are left for new ones after this time, which keeps them short."""

_NOT_EXECUTED = frozenset([10107, 13435, 13436, 11000])
"""Errors that are given before anything was done: not primary, and a duplicate key."""


@dataclass
class Tokens:
    """What a session knows of time."""

    operation: Timestamp | None = None
    cluster: dict[str, Any] | None = None

    def learn(self, reply: dict[str, Any]) -> None:
        operation = reply.get("operationTime")
        if operation is not None and (self.operation is None or operation > self.operation):
            self.operation = operation
        cluster = reply.get("$clusterTime")
        if cluster and (self.cluster is None or cluster["clusterTime"] > self.cluster["clusterTime"]):
            self.cluster = cluster


@dataclass
class World:
    """What the clients of one run share. `started`: on the history's clock. `seen`: what any of them knows of time.

    `errors` are those that clients met, with an example of the words of each; `acts` what else was done, by outcome.
    """

    history: History
    addresses: Sequence[str]
    seed: int
    started: float
    errors: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    acts: Counter[str] = field(default_factory=Counter)
    seen: Tokens = field(default_factory=Tokens)
    routed: bool = False
    stopped: bool = False

    def notes(self) -> list[str]:
        """For the report."""
        acts = ["acts: " + ", ".join(f"{name} {count}" for name, count in sorted(self.acts.items()))]
        return [
            *(acts if self.acts else []),
            *[f"e.g. {name.partition(':')[0]}: {text}" for name, text in sorted(self.examples.items())],
        ]

    def generation(self) -> int:
        return int((self.history.clock() - self.started) / KEY_SECONDS)


class Caller:
    """The process `number` of the history."""

    def __init__(self, number: int, world: World) -> None:
        self.number = number
        self.world = world
        self.random = random.Random(f"{world.seed}/client/{number}")
        self.lsid = {"id": bson.Binary.from_uuid(uuid.uuid4())}
        self.causal = Tokens()
        self._links = [Link(address) for address in world.addresses]
        self._favourite = self.random.randrange(len(self._links))
        self._values = 0

    def value(self) -> int:
        """A number that nobody else writes."""
        self._values += 1
        return self._values * 1000 + self.number

    async def write(
        self, command: dict[str, Any], *, w: int | str | None, causal: bool = False, timeout: float = REPLY_SECONDS
    ) -> tuple[Outcome, dict[str, Any]]:
        """One attempt at whom we take for the primary."""
        concern = {"w": w, "wtimeout": MAJORITY_MILLIS}
        return await self.favourite({**command, "writeConcern": concern}, causal=causal, timeout=timeout)

    async def favourite(
        self, command: dict[str, Any], *, causal: bool = False, timeout: float = REPLY_SECONDS
    ) -> tuple[Outcome, dict[str, Any]]:
        """Ask the one that we stay with, and leave it if it has nothing good to say."""
        number = self._favourite
        outcome, reply = await self.ask(number, command, causal=causal, timeout=timeout)
        if outcome is not Outcome.OK:
            self.leave(number)
        return outcome, reply

    def whom(self) -> int:
        """The number of the one that we stay with."""
        return self._favourite

    def leave(self, number: int) -> None:
        """It has nothing good to say: turn to another one, unless that has happened already."""
        if self._favourite == number:
            self._favourite = self.random.randrange(len(self._links))

    async def anyone(self, command: dict[str, Any], *, causal: bool = False) -> tuple[Outcome, dict[str, Any]]:
        return await self.ask(self.random.randrange(len(self._links)), command, causal=causal)

    async def ask(
        self, number: int, command: dict[str, Any], *, causal: bool = False, timeout: float = REPLY_SECONDS
    ) -> tuple[Outcome, dict[str, Any]]:
        message = {**command, "$db": command.get("$db", DATABASE)}
        if causal:
            message["lsid"] = self.lsid
        tokens = self.causal if causal else self.world.seen
        if tokens.cluster is not None:
            message["$clusterTime"] = tokens.cluster
        try:
            reply = await self._links[number].command(message, timeout=timeout)
        except NotSent:
            return Outcome.FAILED, {}
        except Lost:
            self.world.errors["no answer"] += 1
            return Outcome.UNKNOWN, {}
        tokens.learn(reply)
        return self._judged(reply), reply

    def _judged(self, reply: dict[str, Any]) -> Outcome:
        errors = [] if reply.get("ok") else [reply]
        errors += reply.get("writeErrors", [])
        if errors:
            name = str(errors[0].get("codeName", errors[0].get("code")))
            self.world.errors[name] += 1
            text = str(errors[0].get("errmsg"))
            self.world.examples.setdefault(f"{name}: {text[:25]}", text[:200])
            return Outcome.FAILED if errors[0].get("code") in _NOT_EXECUTED else Outcome.UNKNOWN
        if "writeConcernError" in reply:
            self.world.errors["write concern"] += 1
            return Outcome.UNKNOWN
        return Outcome.OK

    def invoke(self, kind: Kind, key: str, value: Any = None, **fields: Any) -> Operation:
        return self.world.history.invoke(self.number, kind, key, value, **fields)

    def end(self, operation: Operation, outcome: Outcome, result: Any = None) -> None:
        if outcome is Outcome.OK:
            self.world.history.ok(operation, result)
        elif outcome is Outcome.FAILED:
            self.world.history.failed(operation)
        else:
            self.world.history.unknown(operation)

    def close(self) -> None:
        for link in self._links:
            link.close()
