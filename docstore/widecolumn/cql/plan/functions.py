"""Functions of CQL that make a value of values: times, UUIDs, bytes.

A function is found by its name and, where it is a family such as `blobAs...`, by its type. `token` is no function of
single values and stands in `docstore.widecolumn.cql.plan.partition_keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from docstore.widecolumn.cql.errors import invalid
from docstore.widecolumn.cql.plan.bindings import ExecutionTime, Value, time_uuid_bytes
from docstore.widecolumn.cql.types.native import (
    BIGINT,
    BLOB,
    DATE,
    NATIVE_TYPES,
    TIME,
    TIMESTAMP,
    TIMEUUID,
    UUID,
    CqlType,
)
from docstore.widecolumn.model.errors import MarshalError

_DAY_MS = 86_400_000
_GREGORIAN_TICKS = 0x01B21DD213814000
_LOWEST_REST = b"\x80" * 8
_HIGHEST_REST = b"\x7f" * 8
_DATE_ZERO = 1 << 31


@dataclass(frozen=True, slots=True)
class Function:
    """`evaluate` is given the values of the arguments; null arguments give null unless the function takes none."""

    name: str
    arguments: tuple[CqlType, ...]
    result: CqlType
    body: Callable[[Sequence[bytes], ExecutionTime], bytes]

    def evaluate(self, values: Sequence[Value], time: ExecutionTime) -> Value:
        arguments = [value for value in values if value is not None]
        return self.body(arguments, time) if len(arguments) == len(values) else None


def _millis_of_uuid(data: bytes) -> int:
    ticks = int.from_bytes(bytes((data[6] & 0x0F, data[7])) + data[4:6] + data[0:4], "big")
    return (ticks - _GREGORIAN_TICKS) // 10_000


def _long(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)


def _timestamp(millis: int) -> bytes:
    return TIMESTAMP.serialise(millis)


def _date(millis: int) -> bytes:
    return DATE.serialise(millis // _DAY_MS)


def _millis_of_date(data: bytes) -> int:
    return (int.from_bytes(data, "big") - _DATE_ZERO) * _DAY_MS


def _edge(tail: bytes, last_tick: int) -> Callable[[Sequence[bytes], ExecutionTime], bytes]:
    return lambda values, time: time_uuid_bytes(_long(values[0]) * 10_000 + last_tick, tail)


def _from_millis(name: str, result: CqlType, make: Callable[[int], bytes]) -> list[Function]:
    """The conversions to a type from timeuuid, timestamp and date."""
    return [
        Function(name, (TIMEUUID,), result, lambda values, time: make(_millis_of_uuid(values[0]))),
        Function(name, (TIMESTAMP,), result, lambda values, time: make(_long(values[0]))),
        Function(name, (DATE,), result, lambda values, time: make(_millis_of_date(values[0]))),
    ]


_FUNCTIONS: list[Function] = [
    Function("now", (), TIMEUUID, lambda values, time: time.time_uuid()),
    Function("currenttimeuuid", (), TIMEUUID, lambda values, time: time.time_uuid()),
    Function("uuid", (), UUID, lambda values, time: time.random_uuid()),
    Function("currenttimestamp", (), TIMESTAMP, lambda values, time: _timestamp(time.micros // 1000)),
    Function("currentdate", (), DATE, lambda values, time: _date(time.micros // 1000)),
    Function("currenttime", (), TIME, lambda values, time: TIME.serialise(time.micros * 1000 % (86_400 * 10**9))),
    Function("mintimeuuid", (TIMESTAMP,), TIMEUUID, _edge(_LOWEST_REST, 0)),
    Function("maxtimeuuid", (TIMESTAMP,), TIMEUUID, _edge(_HIGHEST_REST, 9999)),
    *_from_millis("totimestamp", TIMESTAMP, _timestamp),
    *_from_millis("todate", DATE, _date),
    *_from_millis("tounixtimestamp", BIGINT, BIGINT.serialise),
    Function("dateof", (TIMEUUID,), TIMESTAMP, lambda values, time: _timestamp(_millis_of_uuid(values[0]))),
    Function("unixtimestampof", (TIMEUUID,), BIGINT, lambda values, time: BIGINT.serialise(_millis_of_uuid(values[0]))),
]


def _same(values: Sequence[bytes], time: ExecutionTime) -> bytes:
    return values[0]


def _as_type(name: str, result: CqlType) -> Function:
    def body(values: Sequence[bytes], time: ExecutionTime) -> bytes:
        try:
            result.validate(values[0])
        except MarshalError as error:
            raise invalid(
                f"In call to function system.{name}, value 0x{values[0].hex()} is not a valid binary representation "
                f"for type {result.name}"
            ) from error
        return values[0]

    return Function(name, (BLOB,), result, body)


for _name, _type in NATIVE_TYPES.items():
    if _type is not BLOB:
        _FUNCTIONS.append(_as_type(f"blobas{_name}", _type))
        _FUNCTIONS.append(Function(f"{_name}asblob", (_type,), BLOB, _same))

_UNDERSCORED = {
    name.replace("_", ""): name
    for name in (
        "current_timeuuid", "current_timestamp", "current_date", "current_time", "min_timeuuid", "max_timeuuid",
        "to_timestamp", "to_date", "to_unix_timestamp",
    )
}  # fmt: skip
"""The later spelling of some names."""

_BY_NAME: dict[str, list[Function]] = {}
for _function in _FUNCTIONS:
    for _spelling in (_function.name, _UNDERSCORED.get(_function.name, _function.name)):
        if _function not in _BY_NAME.setdefault(_spelling, []):
            _BY_NAME[_spelling].append(_function)


def find_function(name: str, arguments: Sequence[CqlType | None], result: CqlType | None = None) -> Function | None:
    """The function of that name that takes those types (None: not known), preferably with that result."""
    family = _BY_NAME.get(name, [])
    fitting = [function for function in family if _fits(function, arguments)]
    for function in fitting:
        if function.result is result:
            return function
    return next(iter(fitting or family), None)


def _fits(function: Function, arguments: Sequence[CqlType | None]) -> bool:
    return len(function.arguments) == len(arguments) and all(
        argument is None or argument is parameter
        for argument, parameter in zip(arguments, function.arguments, strict=True)
    )
