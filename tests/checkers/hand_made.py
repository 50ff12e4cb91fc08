"""Histories written by hand: `at` lists operations with their times, as the tests of checkers need them."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from tests.checkers.history import Anomaly, Kind, Operation, Outcome


def done(kind: Kind, invoked: float, ended: float, value: Any = None, result: Any = None, **fields: Any) -> Operation:
    """An operation that was answered. By default on key "x" by process 0, of a majority."""
    return _operation(kind, invoked, ended, value, result, Outcome.OK, fields)


def failed(kind: Kind, invoked: float, ended: float, value: Any = None, **fields: Any) -> Operation:
    return _operation(kind, invoked, ended, value, None, Outcome.FAILED, fields)


def unknown(kind: Kind, invoked: float, value: Any = None, **fields: Any) -> Operation:
    return _operation(kind, invoked, math.inf, value, None, Outcome.UNKNOWN, fields)


def _operation(
    kind: Kind, invoked: float, ended: float, value: Any, result: Any, outcome: Outcome, fields: dict[str, Any]
) -> Operation:
    concerns: dict[str, Any] = {"read_concern": "linearizable"} if kind.reads else {"w": "majority"}
    defaults: dict[str, Any] = {"process": 0, "key": "x", **concerns}
    return Operation(
        kind=kind,
        invoked=invoked,
        ended=ended,
        value=value,
        result=result,
        outcome=outcome,
        **{**defaults, **fields},
    )


def kinds(anomalies: list[Anomaly]) -> list[str]:
    """What was found, each kind once."""
    return sorted({anomaly.kind for anomaly in anomalies})


def write(invoked: float, ended: float, value: Any, **fields: Any) -> Operation:
    return done(Kind.WRITE, invoked, ended, value, **fields)


def read(invoked: float, ended: float, result: Any, **fields: Any) -> Operation:
    return done(Kind.READ, invoked, ended, None, result, **fields)


def cas(invoked: float, ended: float, expected: Any, new: Any, matched: bool, **fields: Any) -> Operation:
    return done(Kind.CAS, invoked, ended, [expected, new], matched, **fields)


def append(invoked: float, ended: float, element: Hashable, **fields: Any) -> Operation:
    return done(Kind.APPEND, invoked, ended, element, **fields)


def read_list(invoked: float, ended: float, elements: list[Any], **fields: Any) -> Operation:
    return done(Kind.READ_LIST, invoked, ended, None, elements, **fields)
