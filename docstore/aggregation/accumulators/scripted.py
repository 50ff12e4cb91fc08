"""`$accumulator`: an accumulator of `$group` whose steps are JavaScript functions.

A group's values are gathered and passed to the functions in batches. Between two calls the state is a plain value, so
it can be merged with another process's state like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from docstore.aggregation.expressions.model import Expression, Parsing, Scope
from docstore.bson.build import array_from
from docstore.bson.walk import ARRAY, CODE, EMPTY_DOCUMENT, OBJECT, STRING, Value, elements
from docstore.errors import CommandError
from docstore.query.scripts import Scripts
from docstore.query.value.notation import display
from docstore.query.value.values import type_name

GATHERED = 1000
"""Calls of `accumulate` per batch of a group."""
_PER_CALL = 100
_NAMES = ("accumulate", "accumulateArgs", "finalize", "init", "initArgs", "lang", "merge")
_FUNCTIONS = ("init", "accumulate", "merge", "finalize")
_MISSING = {"init": 4544707, "accumulate": 4544708, "merge": 4544709, "accumulateArgs": 4544710}


@dataclass(frozen=True, slots=True)
class ScriptedAccumulator:
    """The functions; `init_arguments` are evaluated on the group key."""

    init: Value
    accumulate: Value
    merge: Value
    finalize: Value | None
    init_arguments: Expression | None
    scripts: Scripts

    def begin(self, key: Value) -> ScriptedState:
        """Return the initial state of a key's group."""
        return ScriptedState(self, key)

    def call(self, function: Value, arguments: bytes) -> Value:
        (result,) = self.scripts.call(function, [arguments])
        if isinstance(result, CommandError):
            raise result
        return result


class ScriptedState:
    """The state of one field of one group."""

    __slots__ = ("_accumulator", "_key", "_pending", "_state")

    def __init__(self, accumulator: ScriptedAccumulator, key: Value) -> None:
        self._accumulator = accumulator
        self._key = key
        self._state: Value | None = None
        self._pending: list[bytes] = []

    def add(self, value: Value | None) -> int:
        if value is None or value[0] != ARRAY:
            text = "missing" if value is None else display(value)
            raise CommandError(4544712, f"$accumulator accumulateArgs must evaluate to an array: {text}")
        self._pending.append(value[1])
        if len(self._pending) >= GATHERED:
            before = len(self._pending) * _PER_CALL + sum(map(len, self._pending)) - len(value[1]) - _PER_CALL
            return len(self._current()[1]) - before
        return len(value[1]) + _PER_CALL

    def partial(self) -> Value:
        return self._current()

    def merge(self, partial: Value) -> int:
        if self._state is None:
            self._state = partial
        else:
            accumulator = self._accumulator
            self._state = accumulator.scripts.fold(accumulator.merge, self._state, [array_from([partial])])
        return len(partial[1])

    def result(self) -> Value:
        state = self._current()
        finalize = self._accumulator.finalize
        return state if finalize is None else self._accumulator.call(finalize, array_from([state]))

    def _current(self) -> Value:
        accumulator = self._accumulator
        if self._state is None:
            self._state = accumulator.call(accumulator.init, self._init_arguments())
        if self._pending:
            pending, self._pending = self._pending, []
            self._state = accumulator.scripts.fold(accumulator.accumulate, self._state, pending)
        return self._state

    def _init_arguments(self) -> bytes:
        expression = self._accumulator.init_arguments
        if expression is None:
            return EMPTY_DOCUMENT
        value = expression.evaluate(Scope(self._key[1] if self._key[0] == OBJECT else EMPTY_DOCUMENT))
        if value is None or value[0] != ARRAY:
            text = "missing" if value is None else display(value)
            raise CommandError(4544711, f"$accumulator initArgs must evaluate to an array: {text}")
        return value[1]


def parse_scripted(value: Value, parsing: Parsing) -> tuple[Expression, ScriptedAccumulator]:
    """Parse to (the value to add, the functions)."""
    scripts = parsing.query_context.scripts
    if scripts is None:
        raise CommandError(4660800, "$accumulator cannot be used here.")
    if value[0] != OBJECT:
        raise CommandError(4544703, f"$accumulator expects an object as an argument; found: {type_name(value)}")
    functions: dict[str, Value] = {}
    expressions: dict[str, Expression] = {}
    for name, code, data in elements(value[1]):
        if name not in _NAMES:
            raise CommandError(4544706, f"$accumulator got an unexpected field: {name}")
        if name in _FUNCTIONS:
            functions[name] = _constant(name, parsing.expression((code, data)))
        elif name == "lang":
            if code != STRING:
                raise CommandError(4544704, "$accumulator lang must be a string")
            if data != b"\x03\0\0\0js\0":
                raise CommandError(4544705, "$accumulator only supports lang: 'js'")
        else:
            expressions[name] = parsing.expression((code, data))
    for name, missing in _MISSING.items():
        if name not in functions and name not in expressions:
            raise CommandError(missing, f"$accumulator missing required argument '{name}'")
    scripts.enter()
    return expressions["accumulateArgs"], ScriptedAccumulator(
        functions["init"],
        functions["accumulate"],
        functions["merge"],
        functions.get("finalize"),
        expressions.get("initArgs"),
        scripts,
    )


def _constant(name: str, expression: Expression) -> Value:
    if not expression.is_constant:
        raise CommandError(4544701, f"$accumulator '{name}' must be a constant expression")
    if expression.constant is None or expression.constant[0] not in (STRING, CODE):
        raise CommandError(4544702, f"$accumulator '{name}' must be a String or Code")
    return expression.constant
