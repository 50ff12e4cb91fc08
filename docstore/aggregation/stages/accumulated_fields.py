"""Accumulated fields of `$group` and `$bucketAuto`: parsing, states and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from docstore.aggregation.accumulators.accumulators import ACCUMULATORS, Accumulator, AverageState, SumState, state_of
from docstore.aggregation.accumulators.n_values import CHOOSING, parse_chosen
from docstore.aggregation.accumulators.quantiles import QuantileState
from docstore.aggregation.accumulators.scripted import ScriptedAccumulator, parse_scripted
from docstore.aggregation.expressions.model import Expression
from docstore.aggregation.expressions.parse import Parser, parse_expression
from docstore.aggregation.expressions.quantiles import QUANTILES, parse_asked
from docstore.bson.walk import ARRAY, OBJECT, Value, elements
from docstore.errors import Code, CommandError
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.states import STATES, Start
from docstore.query.context import QueryContext
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.values import NULL_VALUE, int32_value


@dataclass(frozen=True, slots=True)
class Field:
    """A field of groups, and its accumulator."""

    name: str
    accumulator: str
    argument: Expression
    start: Callable[[Value], Accumulator] | None = None
    """Returns the state for a group key, for accumulators with several arguments."""
    kernel_start: Start | None = None
    """Returns a state of the kernel, if it has one for the accumulator."""
    ordering: Ordering = BINARY
    script: ScriptedAccumulator | None = None

    def state(self, key: Value, *, last_extremes: bool = False) -> Accumulator:
        """Return the initial state of a group."""
        if self.script is not None:
            return self.script.begin(key)
        if self.start is None:
            return state_of(self.accumulator, self.ordering, last=last_extremes)()
        return self.start(key)

    def row_state(self) -> State | Accumulator:
        """Return the state for a group of sorted rows: the kernel's, if it has one."""
        return self.state(NULL_VALUE) if self.kernel_start is None else self.kernel_start()


def result_of(accumulator: str, state: State | Accumulator) -> Value:
    """Return the result of an accumulator's state."""
    if isinstance(state, State) and state.extras is not None:
        return finished_state(accumulator, state, partly=False)
    return state.result()


def finished_state(accumulator: str, state: State, *, partly: bool) -> Value:
    """Return the result, or with `partly` the mergeable state, of a kernel state that has set values aside."""
    own = ACCUMULATORS[accumulator]()
    (own.resume if isinstance(own, SumState | AverageState) else own.merge)(state.partial())
    for value in state.extras or ():
        own.add(value)
    return own.partial() if partly else own.result()


def parse_field(name: str, value: Value, query_context: QueryContext) -> Field:
    """Parse a field specification such as `{$sum: "$a"}`. Errors: 15952, 40234 to 40238, those of accumulators."""
    operators = elements(value[1]) if value[0] == OBJECT else []
    if not operators or not operators[0][0].startswith("$"):
        raise CommandError(40234, f"The field '{name}' must be an accumulator object")
    if "." in name:
        raise CommandError(40235, f"The field name '{name}' cannot contain '.'")
    if name.startswith("$"):
        raise CommandError(40236, f"The field name '{name}' cannot be an operator name")
    if len(operators) > 1:
        raise CommandError(40238, f"The field '{name}' must specify one accumulator")
    accumulator, code, data = operators[0]
    if code == ARRAY:
        raise CommandError(40237, f"The {accumulator} accumulator is a unary operator")
    if accumulator == "$count":
        if code != OBJECT or elements(data):
            raise CommandError(Code.TypeMismatch, "$count takes no arguments, i.e. $count:{}")
        return Field(name, "$sum", parse_expression(int32_value(1)), kernel_start=STATES["$sum"])
    if accumulator == "$accumulator":
        added, script = parse_scripted((code, data), Parser(query_context))
        return Field(name, accumulator, added, script=script)
    if accumulator not in ACCUMULATORS and accumulator not in CHOOSING | QUANTILES:
        raise CommandError(15952, f"unknown group operator '{accumulator}'")
    if accumulator in CHOOSING:
        chosen = parse_chosen(accumulator, (code, data), Parser(query_context))
        return Field(name, accumulator, chosen.argument, chosen.start, chosen.kernel_start())
    if accumulator in QUANTILES:
        specification = parse_asked(accumulator, (code, data), Parser(query_context))
        return Field(name, accumulator, specification.source, start=lambda _: QuantileState(specification))
    argument = parse_expression((code, data), query_context=query_context)
    ordering = query_context.ordering
    in_kernel = STATES.get(accumulator) if ordering is BINARY else None
    return Field(name, accumulator, argument, kernel_start=in_kernel, ordering=ordering)
