"""Linearizability of registers: is there one order of the operations that agrees with real time and with every answer?

The search is just-in-time linearization: walk through calls and returns in the order of time and keep every
configuration that is still possible, which is the register's value and which of the open operations have taken effect.
An operation must have taken effect when it returns; only then others are put before it. Keys are independent and
searched one by one (linearizability is local).

Three rules keep the configurations few. A read that agrees with the value takes effect at once: it changes nothing, so
waiting could not help it. Of two configurations that differ only in which unknown writes were used up the one with
fewer stands for both. An unknown write leaves the search when nobody will observe its value any more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from tests.checkers.history import Anomaly, Kind, Operation, Outcome, by_key

LIMIT = 2_000_000
"""So many configurations of one key before the search gives up."""


class Undecided(Exception):
    """The search met its limit."""


class Configuration(NamedTuple):
    """A register's value, and bits for the open operations that have taken effect: `done` return, `used` may not."""

    value: Any
    done: int
    used: int


class _What(IntEnum):
    """In the order in which events of one instant are taken: what merely touches in time counts as concurrent."""

    CALL = 0
    RETURN = 1
    LEAVE = 2


class _Event(NamedTuple):
    time: float
    what: _What
    number: int


def check_registers(operations: Iterable[Operation], *, initial: Any = None, limit: int = LIMIT) -> list[Anomaly]:
    """Every key whose reads, writes and compare-and-sets are not linearizable. Undecided beyond `limit`.

    Failed operations are left out, unknown writes may have happened or not. See `history.of_majority` for histories
    with several concerns.
    """
    return [
        anomaly
        for key, found in by_key(operations, Kind.READ, Kind.WRITE, Kind.CAS).items()
        if (anomaly := _Search(key, _relevant(found), initial, limit).run()) is not None
    ]


def _relevant(operations: list[Operation]) -> list[Operation]:
    return [
        operation
        for operation in operations
        if operation.ok or (operation.outcome is Outcome.UNKNOWN and operation.kind is not Kind.READ)
    ]


@dataclass
class _Search:
    key: Hashable
    operations: list[Operation]
    initial: Any
    limit: int
    seen: int = 0
    open: dict[int, tuple[int, Operation]] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    slots: int = 0
    bits: dict[int, int] = field(default_factory=dict)

    def run(self) -> Anomaly | None:
        """The first return that no order explains."""
        possible = {Configuration(self.initial, 0, 0)}
        for event in self._events():
            operation = self.operations[event.number]
            if event.what is _What.CALL:
                self._enter(event.number, operation)
                possible = {self._read_now(each) for each in possible} if operation.kind is Kind.READ else possible
                continue
            bit = self.bits[event.number]
            before = possible
            if event.what is _What.RETURN:
                possible = self._returned(possible, bit)
                if not possible:
                    return self._anomaly(operation, before)
                possible = {each._replace(done=each.done & ~bit) for each in possible}
            else:
                possible = {each._replace(used=each.used & ~bit) for each in possible}
            self._leave(event.number)
            possible = _fewest(possible)
        return None

    def _events(self) -> list[_Event]:
        last_seen = _last_observations(self.operations)
        events = []
        for number, operation in enumerate(self.operations):
            if operation.ok:
                leaves = _Event(operation.ended, _What.RETURN, number)
            else:
                end = last_seen.observed(operation)
                if end is None:
                    continue
                leaves = _Event(end, _What.LEAVE, number)
            events += [_Event(operation.invoked, _What.CALL, number), leaves]
        return sorted(events)

    def _enter(self, number: int, operation: Operation) -> None:
        if not self.free:
            self.free.append(self.slots)
            self.slots += 1
        self.bits[number] = 1 << self.free.pop()
        self.open[number] = (self.bits[number], operation)

    def _leave(self, number: int) -> None:
        bit, _ = self.open.pop(number)
        self.free.append(bit.bit_length() - 1)

    def _returned(self, possible: set[Configuration], bit: int) -> set[Configuration]:
        """Put open operations in front until the one of `bit` has taken effect, in every way."""
        reached = {each for each in possible if each.done & bit}
        level = possible - reached
        visited = _Antichain()
        while level:
            following: set[Configuration] = set()
            for configuration in level:
                for found in self._steps(configuration):
                    if not visited.add(found):
                        continue
                    self.seen += 1
                    if self.seen > self.limit:
                        raise Undecided(f"{self.key}: more than {self.limit} configurations")
                    (reached if found.done & bit else following).add(found)
            level = following
        return reached

    def _steps(self, configuration: Configuration) -> list[Configuration]:
        value, done, used = configuration
        found = []
        for bit, operation in self.open.values():
            if (done | used) & bit or operation.kind is Kind.READ:
                continue
            changed = _effect(operation, value)
            if changed is None:
                continue
            if operation.ok:
                found.append(self._read_now(Configuration(changed[0], done | bit, used)))
            else:
                found.append(self._read_now(Configuration(changed[0], done, used | bit)))
        return found

    def _read_now(self, configuration: Configuration) -> Configuration:
        value, done, used = configuration
        for bit, operation in self.open.values():
            if operation.kind is Kind.READ and operation.result == value:
                done |= bit
        return Configuration(value, done, used)

    def _anomaly(self, operation: Operation, before: set[Configuration]) -> Anomaly:
        values = sorted({repr(each.value) for each in before})
        open_now = sorted((each for _, each in self.open.values()), key=lambda each: each.invoked)
        text = (
            f"{self.key}: no order explains the answer of the first operation below; the value before it could only be "
            f"{', '.join(values)}, and the others were open or unknown then"
        )
        others = [each for each in open_now if each is not operation]
        return Anomaly("not linearizable", text, (operation, *others, *self._writers(operation)))

    def _writers(self, operation: Operation) -> list[Operation]:
        """Who wrote what was read, if that has returned already."""
        open_now = [each for _, each in self.open.values()]
        return [
            each
            for each in self.operations
            if each.kind is Kind.WRITE and each.value == operation.result and each not in open_now
        ]


class _Antichain:
    """Configurations of which none uses more unknown writes than another that is otherwise equal."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, int], list[int]] = {}

    def add(self, configuration: Configuration) -> bool:
        """False where one with the same or fewer unknown writes was there."""
        kept = self._found.setdefault((configuration.value, configuration.done), [])
        used = configuration.used
        if any(other & ~used == 0 for other in kept):
            return False
        kept[:] = [other for other in kept if used & ~other]
        kept.append(used)
        return True

    def all(self) -> set[Configuration]:
        return {Configuration(value, done, used) for (value, done), kept in self._found.items() for used in kept}


def _fewest(configurations: set[Configuration]) -> set[Configuration]:
    if len(configurations) == 1:
        return configurations
    chain = _Antichain()
    for configuration in configurations:
        chain.add(configuration)
    return chain.all()


def _effect(operation: Operation, value: Any) -> tuple[Any] | None:
    """The value after a write or compare-and-set; None where its answer cannot be had now."""
    if operation.kind is Kind.WRITE:
        return (operation.value,)
    expected, new = operation.value
    if value != expected:
        return (value,) if operation.ok and not operation.result else None
    return None if operation.ok and not operation.result else (new,)


@dataclass
class _LastObservations:
    """When each value was observed last; `always` where an answer says no more than what a value was not."""

    ends: dict[Any, float]
    always: float

    def observed(self, operation: Operation) -> float | None:
        """Until when the value of an unknown write matters; None if it never does."""
        value = operation.value if operation.kind is Kind.WRITE else operation.value[1]
        end = max(self.ends.get(value, -math.inf), self.always)
        return None if end < operation.invoked else end


def _last_observations(operations: list[Operation]) -> _LastObservations:
    ends: dict[Any, float] = {}
    always = -math.inf
    for operation in operations:
        if operation.kind is Kind.READ:
            value = operation.result
        elif operation.kind is Kind.CAS:
            value = operation.value[0]
            if operation.ok and not operation.result:
                always = max(always, operation.ended)
        else:
            continue
        ends[value] = max(ends.get(value, operation.ended), operation.ended)
    return _LastObservations(ends, always)
