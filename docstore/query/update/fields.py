"""Operators that set, remove, rename and compare whole values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from docstore.bson.walk import ARRAY, BOOL, DATE, OBJECT, STRING, TIMESTAMP, Value, elements, get_field
from docstore.errors import Code, CommandError
from docstore.query.update.modifier import Blocked, Situation
from docstore.query.value.notation import display
from docstore.query.value.values import int64_bytes, text_of, timestamp_bytes, type_name


@dataclass(frozen=True, slots=True)
class Set:
    """`$set` and, while inserting, `$setOnInsert`."""

    value: Value
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_CREATE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        return self.value


@dataclass(frozen=True, slots=True)
class Unset:
    """`$unset`. In an array, a null replaces the removed element."""

    blocked: ClassVar[Blocked] = Blocked.NOTHING

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        return None


@dataclass(frozen=True, slots=True)
class Extreme:
    """`$min` (`order` -1) and `$max` (1): the value replaces one that compares to the other side of it."""

    value: Value
    order: int
    compare: Callable[[Value, Value], int]
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_CREATE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        if current is None or self.compare(self.value, current) == self.order:
            return self.value
        return current


@dataclass(frozen=True, slots=True)
class CurrentDate:
    """`$currentDate`, as a date or as a timestamp."""

    timestamp: bool
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_CREATE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        if self.timestamp:
            return TIMESTAMP, timestamp_bytes(situation.timestamp)
        return DATE, int64_bytes(situation.now)


def parse_current_date(value: Value) -> CurrentDate:
    """Parse `true`, or `{$type: "date" | "timestamp"}`."""
    if value[0] == BOOL:
        return CurrentDate(timestamp=False)
    if value[0] != OBJECT:
        raise CommandError(
            Code.BadValue,
            f"{type_name(value)} is not valid type for $currentDate. Please use a boolean ('true') or a $type"
            " expression ({$type: 'timestamp/date'}).",
        )
    kind = None
    for name, code, data in elements(value[1]):
        if name != "$type":
            raise CommandError(Code.BadValue, f"Unrecognized $currentDate option: {name}")
        kind = text_of((code, data)) if code == STRING else None
    if kind not in ("date", "timestamp"):
        raise CommandError(
            Code.BadValue,
            "The '$type' string field is required to be 'date' or 'timestamp':"
            " {$currentDate: {field : {$type: 'date'}}}",
        )
    return CurrentDate(timestamp=kind == "timestamp")


@dataclass(frozen=True, slots=True)
class RenameSource:
    """The end of `$rename` that loses its field. The other end checks that it may."""

    blocked: ClassVar[Blocked] = Blocked.NOTHING

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        return None


@dataclass(frozen=True, slots=True)
class RenameTarget:
    """The end of `$rename` that gets the value; without a source nothing happens."""

    source: str
    blocked: ClassVar[Blocked] = Blocked.REFUSE_TO_MOVE

    def apply(self, path: str, current: Value | None, situation: Situation) -> Value | None:
        moved = _source_value(situation, self.source)
        if moved is None:
            return current
        _check_target(situation, path)
        return moved


def _source_value(situation: Situation, path: str) -> Value | None:
    """Return the value to be moved, in the document before the update. An element of an array is an error."""
    value: Value = (OBJECT, situation.document)
    in_array = False
    name = ""
    for part in path.split("."):
        if value[0] not in (ARRAY, OBJECT) or (value[0] == ARRAY and not part.isdigit()):
            raise CommandError(
                Code.PathNotViable,
                f"cannot use the part ({name} of {path}) to traverse the element ({{{name}: {display(value)}}})",
            )
        name = part
        in_array = in_array or value[0] == ARRAY
        child = get_field(value[1], part)
        if child is None:
            return None
        value = child
    if in_array:
        raise _array_element("source", path, situation)
    return value


def _check_target(situation: Situation, path: str) -> None:
    """Raise an error for a target inside an array."""
    value: Value | None = (OBJECT, situation.document)
    for part in path.split("."):
        if value is None or value[0] not in (ARRAY, OBJECT):
            return
        if value[0] == ARRAY:
            raise _array_element("destination", path, situation)
        value = get_field(value[1], part)


def _array_element(role: str, path: str, situation: Situation) -> CommandError:
    return CommandError(
        Code.BadValue, f"The {role} field cannot be an array element, '{path}' in doc with {situation.identity()}"
    )


def parse_rename(source: str, value: Value) -> str:
    """Return the target of a `$rename`."""
    if value[0] != STRING:
        raise CommandError(Code.BadValue, f"The 'to' field for $rename must be a string: {source}: {display(value)}")
    target = text_of(value)
    if target == source:
        raise CommandError(Code.BadValue, f'The source and target field for $rename must differ: {source}: "{target}"')
    if target.startswith(source + ".") or source.startswith(target + "."):
        raise CommandError(
            Code.BadValue,
            f'The source and target field for $rename must not be on the same path: {source}: "{target}"',
        )
    return target
