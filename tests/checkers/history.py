"""What clients asked for and what they were told: the one record that every checker reads.

A history is a list of operations. Times are those of one clock (virtual or real), in seconds. A process runs one
operation at a time. An operation that nobody ended is unknown: it may take effect at any time after it was invoked, or
never. A failed one has had no effect and will have none; whoever records must be sure of that, or say unknown.

Written values are unique within their key, so that a read tells which write it saw.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any


class Kind(StrEnum):
    """What an operation does; `value` is what it was asked with, `result` what it was told.

    | kind | value | result |
    |---|---|---|
    | read | - | the register's value, None where there is no document |
    | write | the new value | - |
    | cas | [expected, new] | whether it matched |
    | append | the element | - |
    | read list | - | the elements in order, [] where there is no document |
    | add | the increment | - |
    | read counter | - | the number |
    | insert | the namespace, where that may be dropped | - |
    | delete | - | how many were deleted |
    | update by id | a tag that the document gets | how many matched |
    | update many | a tag that each document gets once | how many matched |
    | find all | - | the ids that came, as they came |
    | drop | - | - |
    | transaction | its steps, as they were carried out: ["append", list, element], ["read", list, elements] | - |
    | transfer | [account, account, amount] | see `tests.checkers.bank` |
    | read bank | - | what one snapshot shows: see `tests.checkers.bank` |
    """

    READ = "read"
    WRITE = "write"
    CAS = "cas"
    APPEND = "append"
    READ_LIST = "read list"
    ADD = "add"
    READ_COUNTER = "read counter"
    INSERT = "insert"
    DELETE = "delete"
    UPDATE_BY_ID = "update by id"
    UPDATE_MANY = "update many"
    FIND_ALL = "find all"
    DROP = "drop"
    TRANSACTION = "transaction"
    TRANSFER = "transfer"
    READ_BANK = "read bank"

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self in (Kind.READ, Kind.READ_LIST, Kind.READ_COUNTER, Kind.FIND_ALL, Kind.READ_BANK)


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class Operation:
    """`key`: the document (register, list, counter, id), or the collection for what concerns many documents.

    `session`: the causal session, None for none. `retryable`: the transaction number of a retryable write; every
    attempt at it is this one operation. `w`: the write concern, 1 or "majority". `read_concern`: "local", "majority",
    "linearizable", "snapshot".
    """

    process: int
    kind: Kind
    key: Hashable
    invoked: float
    value: Any = None
    result: Any = None
    ended: float = math.inf
    outcome: Outcome = Outcome.UNKNOWN
    session: str | None = None
    retryable: int | None = None
    w: int | str | None = None
    read_concern: str | None = None

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def majority(self) -> bool:
        """Acknowledged by a majority, or read what a majority has."""
        if self.kind.reads:
            return self.ok and self.read_concern in ("majority", "linearizable", "snapshot")
        return self.ok and self.w == "majority"

    @property
    def may_have_happened(self) -> bool:
        return self.outcome is not Outcome.FAILED

    def __str__(self) -> str:
        end = "" if self.ended == math.inf else f"{self.ended:.3f}"
        parts = [f"{self.invoked:.3f}-{end}", f"process {self.process}", f"{self.kind} {self.key}"]
        parts += [f"({self.value})"] if self.value is not None else []
        parts += [f"-> {self.outcome}"] + ([f"{self.result}"] if self.result is not None else [])
        for name, value in (("w", self.w), ("rc", self.read_concern), ("session", self.session)):
            parts += [f"{name}={value}"] if value is not None else []
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What no correct cluster does: its kind in the words of the literature, the story, and the operations in it."""

    kind: str
    text: str
    operations: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        return "\n    ".join([f"{self.kind}: {self.text}", *map(str, self.operations)])


@dataclass(slots=True)
class History:
    """A recorder. `clock` gives the time; appending is atomic, so threads may share one."""

    clock: Callable[[], float]
    operations: list[Operation] = field(default_factory=list)

    def invoke(self, process: int, kind: Kind, key: Hashable, value: Any = None, **fields: Any) -> Operation:
        """An operation that begins now. Unknown until it is ended. `fields`: see `Operation`."""
        operation = Operation(process=process, kind=kind, key=key, value=value, invoked=self.clock(), **fields)
        self.operations.append(operation)
        return operation

    def ok(self, operation: Operation, result: Any = None) -> None:
        operation.result = result
        self._end(operation, Outcome.OK)

    def failed(self, operation: Operation) -> None:
        self._end(operation, Outcome.FAILED)

    def unknown(self, operation: Operation) -> None:
        """The caller gave up. `ended` stays infinite: the operation may still take effect."""
        assert operation.outcome is Outcome.UNKNOWN, f"ended twice: {operation}"

    def _end(self, operation: Operation, outcome: Outcome) -> None:
        assert operation.outcome is Outcome.UNKNOWN, f"ended twice: {operation}"
        operation.ended = self.clock()
        operation.outcome = outcome

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def save(self, path: Path) -> None:
        """One JSON object a line; values must be what JSON has."""
        path.write_text("".join(json.dumps(_row(operation)) + "\n" for operation in self.operations))


def load(path: Path) -> list[Operation]:
    """What `History.save` wrote."""
    return [_operation(json.loads(line)) for line in path.read_text().splitlines()]


def _row(operation: Operation) -> dict[str, Any]:
    row = asdict(operation)
    if operation.ended == math.inf:
        del row["ended"]
    return row


def _operation(row: dict[str, Any]) -> Operation:
    return Operation(**{**row, "kind": Kind(row["kind"]), "outcome": Outcome(row["outcome"])})


def by_key(operations: Iterable[Operation], *kinds: Kind) -> dict[Hashable, list[Operation]]:
    """The operations of these kinds by key, in the order of their invocation."""
    found: dict[Hashable, list[Operation]] = defaultdict(list)
    for operation in sorted(operations, key=lambda operation: operation.invoked):
        if operation.kind in kinds:
            found[operation.key].append(operation)
    return dict(found)


def of_majority(operations: Iterable[Operation]) -> list[Operation]:
    """The history as far as majorities vouch for it, which is the part that must be linearizable.

    Writes acknowledged by less are unknown, since they may be rolled back; reads that are not linearizable are left
    out.
    """
    found = []
    for operation in operations:
        if operation.kind.reads:
            if operation.ok and operation.read_concern == "linearizable":
                found.append(operation)
        elif operation.ok and not operation.majority:
            found.append(replace(operation, outcome=Outcome.UNKNOWN, ended=math.inf, result=None))
        else:
            found.append(operation)
    return found
