"""Window functions of `$setWindowFields`: accumulators over windows, ranks, functions of neighbouring documents.

A function is opened on a partition and evaluated for its documents in order.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from docstore.aggregation.accumulators.accumulators import ACCUMULATORS, Accumulator, state_of
from docstore.aggregation.accumulators.n_values import CHOOSING, parse_chosen
from docstore.aggregation.expressions.array_order import count_from
from docstore.aggregation.expressions.calculations import source_of
from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.expressions.parse import Parser
from docstore.aggregation.expressions.quantiles import QUANTILES, parse_asked
from docstore.aggregation.stage import MEMORY_LIMIT
from docstore.aggregation.window.bounds import STEPS, Slices, Window, parse_window
from docstore.aggregation.window.partition import NOT_YET, Fields, Partition, Placed
from docstore.aggregation.window.ranked_window_functions import NEIGHBOURS, RANKS
from docstore.aggregation.window.sliding import SLIDING_SUMS, Sliding, SlidingQuantiles, sliding_choice, sliding_of
from docstore.bson.allowance import spend
from docstore.bson.walk import EMPTY_DOCUMENT, OBJECT, Value, elements
from docstore.errors import Code, CommandError
from docstore.kernel.group.accumulators import State
from docstore.kernel.group.sources import Source
from docstore.kernel.group.states import STATES
from docstore.kernel.group.windows import Growing, MovingSum
from docstore.query.context import QueryContext
from docstore.query.value.ordering import BINARY
from docstore.query.value.values import NULL_VALUE, int32_value, int_of

Open = Callable[[Partition], Placed]

_PER_WINDOW = 2048
"""Work units charged for opening a function on a partition."""
_PER_VALUE = 100
"""Bytes of memory of a value in a window besides its own."""


@dataclass(frozen=True, slots=True)
class _Accumulated:
    """An accumulator over a window."""

    argument: Source
    window: Window
    start: Callable[[], Accumulator] | None
    slide: Callable[[], Sliding]
    most_bytes: int = MEMORY_LIMIT
    """Maximum bytes of the values in a sliding window."""
    kernel_state: str | None = None
    """The equivalent accumulator of the kernel."""

    def open(self, partition: Partition) -> Placed:
        spend(_PER_WINDOW)
        slices = self.window.slices(partition.sort_value, len(partition), partition.descending)
        argument, document_at = self.argument, partition.placed().document
        in_kernel = self._in_kernel(partition)
        if in_kernel is not None:
            return in_kernel

        def at(position: int) -> Value | None:
            return argument(document_at(position))

        if self.window.lower is None and self.start is not None:
            return _growing(self.start(), at, slices)
        return _sliding(self.slide(), at, slices, self.most_bytes)

    def _in_kernel(self, partition: Partition) -> Placed | None:
        """Return the function evaluated by the kernel, if it supports the accumulator and the window's bounds."""
        window, name = self.window, self.kernel_state
        if name is None or window.ranged:
            return None
        lower = None if window.lower is None else int_of(window.lower)
        upper = None if window.upper is None else int_of(window.upper)
        placed, length = partition.placed(), len(partition)
        if lower is None:
            return Growing(placed, self.argument, STATES[name](), partial(_resumed, name), length, upper).value
        if name not in SLIDING_SUMS:
            return None
        most, too_much = self.most_bytes, partial(_too_much, most_bytes=self.most_bytes)
        resumed = SLIDING_SUMS[name].resumed
        return MovingSum(placed, self.argument, name == "$avg", resumed, length, (lower, upper), most, too_much).value


def _resumed(name: str, state: State) -> Accumulator:
    """Return an accumulator restored from a state of the kernel."""
    own = ACCUMULATORS[name]()
    own.merge(state.partial())
    for value in state.extras or ():
        own.add(value)
    return own


def _growing(state: Accumulator, at: Placed, slices: Slices) -> Placed:
    """Return the function for a window that only grows."""
    reached = 0
    latest: Value | None = None

    def result(position: int) -> Value:
        nonlocal reached, latest
        window = slices(position)
        if window is None:
            return NOT_YET
        if latest is not None and reached >= window[1]:
            return latest
        for _ in range(STEPS):
            if reached >= window[1]:
                latest = state.result()
                return latest
            state.add(at(reached))
            reached += 1
        return NOT_YET

    return result


def _size(value: Value | None) -> int:
    return _PER_VALUE + (0 if value is None else len(value[1]))


def _too_much(window_bytes: int, most_bytes: int) -> CommandError:
    return CommandError(
        5414201,
        f"Exceeded memory limit in DocumentSourceSetWindowFields, used {window_bytes} bytes but max allowed is "
        f"{most_bytes}",
    )


def _sliding(state: Sliding, at: Placed, slices: Slices, most_bytes: int) -> Placed:
    """Return the function for a window that documents leave; it holds the values in it. Errors: 5414201 for too many
    bytes.
    """
    first = reached = window_bytes = 0
    members: deque[Value | None] = deque()

    def result(position: int) -> Value | None:
        nonlocal first, reached, window_bytes
        window = slices(position)
        if window is None:
            return NOT_YET
        start, end = window
        for _ in range(STEPS):
            if reached < end:
                value = at(reached)
                window_bytes += _size(value)
                if window_bytes > most_bytes:
                    raise _too_much(window_bytes, most_bytes)
                members.append(value)
                state.add(value)
                reached += 1
            elif first < start:
                if members:
                    value = members.popleft()
                    window_bytes -= _size(value)
                    state.remove(value)
                    first += 1
                else:
                    first = reached = start
            else:
                return state.result()
        return NOT_YET

    return result


def parse_output(value: Value, sort_fields: Fields | None, query_context: QueryContext) -> Open:
    """Parse the function of one output; `sort_fields`: None if the stage has no sort. Errors: mostly FailedToParse."""
    if value[0] != OBJECT:
        raise CommandError(Code.FailedToParse, "a field of 'output' must be an object")
    function: tuple[str, Value] | None = None
    window: Value | None = None
    unknown: str | None = None
    for name, code, data in elements(value[1]):
        if name == "window":
            window = (code, data)
        elif not name.startswith("$"):
            unknown = unknown or name
        elif function is not None:
            raise CommandError(Code.FailedToParse, "Cannot specify two functions in window function spec")
        else:
            function = name, (code, data)
    if function is None:
        raise CommandError(Code.FailedToParse, "Expected a $-prefixed window function")
    name, argument = function
    if unknown is not None and name in RANKS:
        raise CommandError(5371601, "Rank style window functions take no other arguments")
    if unknown is not None:
        raise CommandError(Code.FailedToParse, f"Window function found an unknown argument: {unknown}")
    parser = Parser(query_context)
    if name in NEIGHBOURS:
        return NEIGHBOURS[name](name, argument, window, sort_fields, parser)
    return _parse_accumulated(name, argument, window, sort_fields, parser)


def _parse_accumulated(
    name: str, argument: Value, window: Value | None, sort_fields: Fields | None, parser: Parser
) -> Open:
    if name == "$count":
        if argument[0] != OBJECT or elements(argument[1]):
            raise CommandError(Code.FailedToParse, "$count only accepts an empty object as input")
        name, argument = "$sum", int32_value(1)
    ordering = parser.query_context.ordering
    if name in CHOOSING:
        chosen = parse_chosen(name, argument, parser)
        parsed = parse_window(window, sort_fields, parser)

        def state() -> Accumulator:
            return chosen.start(NULL_VALUE)

        def slide() -> Sliding:
            count = chosen.count
            member_count = 1 if count is None else count_from(count.evaluate(Scope(EMPTY_DOCUMENT)))
            return sliding_choice(name, member_count, ordering)

        return _Accumulated(source_of(chosen.argument), parsed, state, slide).open
    if name in QUANTILES:
        specification = parse_asked(name, argument, parser)
        # Exact in every window, so also if it only grows.
        window_of = parse_window(window, sort_fields, parser)
        return _Accumulated(
            source_of(specification.source), window_of, None, lambda: SlidingQuantiles(specification)
        ).open
    sliding = sliding_of(name, ordering)
    if sliding is None:
        raise CommandError(Code.FailedToParse, f"Unrecognized window function, {name}")
    parsed = parse_window(window, sort_fields, parser)
    compute = source_of(parser.expression(argument))
    # At the edge of a window a missing value stays missing, unlike in a group.
    ends = name in ("$first", "$last")
    growing = state_of(name, ordering) if name in ACCUMULATORS and not ends else None
    # A real server keeps only the ends for these, so the values in between are not limited.
    in_kernel = name if name in STATES and ordering is BINARY and not ends else None
    return _Accumulated(compute, parsed, growing, sliding, sys.maxsize if ends else MEMORY_LIMIT, in_kernel).open
