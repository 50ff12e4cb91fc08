"""Accumulators that keep n values per group: `$firstN`, `$lastN`, `$minN`, `$maxN`, `$top`, `$topN`, `$bottom`,
`$bottomN`.

Those that sort documents add pairs `{k: sort key, v: value}`, built by `ranked`.
"""

from __future__ import annotations

from bisect import insort_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from docstore.aggregation.accumulators.accumulators import Accumulator
from docstore.aggregation.expressions.array_order import count_from, parse_counted
from docstore.aggregation.expressions.calculations import source_of
from docstore.aggregation.expressions.field_paths import walk
from docstore.aggregation.expressions.model import Expression, Parsing, Scope, is_nullish
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import ARRAY, BINARY, EMPTY_DOCUMENT, OBJECT, UNDEFINED, Value, elements, get_field, values
from docstore.errors import Code, CommandError
from docstore.kernel.group.chosen import RankedSource
from docstore.kernel.group.states import CHOOSING_STATES
from docstore.kernel.group.states import Start as KernelStart
from docstore.kernel.keys.pattern import KeyPattern
from docstore.query.sort import parse_sort_fields
from docstore.query.value.notation import display
from docstore.query.value.ordering import BINARY as BINARY_ORDER
from docstore.query.value.ordering import Ordering
from docstore.query.value.values import NULL_VALUE, int32_bytes, type_name

_PER_MEMBER = 100
_key = itemgetter(0)


class EndsState:
    """`$firstN` and `$lastN`; a missing value counts, and becomes null."""

    __slots__ = ("_count", "_last", "_members")

    def __init__(self, count: int, last: bool) -> None:
        self._count = count
        self._last = last
        self._members: deque[Value] = deque()

    def add(self, value: Value | None) -> int:
        if len(self._members) == self._count:
            if not self._last:
                return 0
            self._members.popleft()
        member = NULL_VALUE if value is None else value
        self._members.append(member)
        return len(member[1]) + _PER_MEMBER

    def partial(self) -> Value:
        return array_value(self._members)

    def merge(self, partial: Value) -> int:
        return sum(self.add(member) for member in values(partial[1]))

    def result(self) -> Value:
        return array_value(self._members)


class RankedState:
    """The first or last values by key; equal keys keep their order of arrival."""

    __slots__ = ("_count", "_last", "_members", "_single")

    def __init__(self, count: int, last: bool, single: bool) -> None:
        self._count = count
        self._last = last
        self._single = single
        self._members: list[tuple[bytes, Value]] = []

    def add(self, value: Value | None) -> int:
        assert value is not None
        key, member = get_field(value[1], "k"), get_field(value[1], "v")
        assert key is not None
        assert member is not None
        return self.keep(key[1][5:], member)

    def keep(self, key: bytes, value: Value, *, replaces: bool = True) -> int:
        """Add a value. Unless `replaces`, a full state drops a value whose key is not above its first one."""
        if not replaces and len(self._members) == self._count and key <= self._members[0][0]:
            return 0
        insort_right(self._members, (key, value), key=_key)
        if len(self._members) > self._count:
            del self._members[0 if self._last else -1]
            return 0
        return len(key) + len(value[1]) + _PER_MEMBER

    def partial(self) -> Value:
        return array_value([ranked(key, value) for key, value in self._members])

    def merge(self, partial: Value) -> int:
        return sum(self.add(member) for member in values(partial[1]))

    def result(self) -> Value:
        members = [value for _, value in self._members]
        if self._single:
            return members[0] if members else NULL_VALUE
        return array_value(members)


class ExtremesState:
    """`$minN` and `$maxN`; ignores null and missing values."""

    __slots__ = ("_greatest", "_key_of", "_ranked")

    def __init__(self, count: int, greatest: bool, ordering: Ordering) -> None:
        self._key_of = ordering.key
        self._greatest = greatest
        self._ranked = RankedState(count, greatest, single=False)

    def add(self, value: Value | None) -> int:
        if value is None or is_nullish(value):
            return 0
        return self._ranked.keep(self._key_of(value), value, replaces=not self._greatest)

    def partial(self) -> Value:
        return self.result()

    def merge(self, partial: Value) -> int:
        return sum(self.add(member) for member in values(partial[1]))

    def result(self) -> Value:
        array = self._ranked.result()
        return array_value(reversed(values(array[1]))) if self._greatest else array


def ranked(key: bytes, value: Value) -> Value:
    """Return a value with its sort key."""
    return OBJECT, document_from([("k", BINARY, int32_bytes(len(key)) + b"\0" + key), ("v", *value)])


Start = Callable[[int], Accumulator]
"""Returns a state that keeps that number of values."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A parsed accumulator of this kind. `argument`: the value to add. `count`: the expression of n; None: one
    value.
    """

    accumulator: str
    argument: Expression
    count: Expression | None
    begin: Start
    ordering: Ordering

    def start(self, key: Value) -> Accumulator:
        """Return the initial state of a group; n may depend on the group's `key`. Errors: those of `n`."""
        if self.count is None:
            return self.begin(1)
        return self.begin(count_from(self.count.evaluate(Scope(key[1] if key[0] == OBJECT else EMPTY_DOCUMENT))))

    def kernel_start(self) -> KernelStart | None:
        """Return the factory of the kernel's state; None if the kernel has none, or n is not constant."""
        if self.ordering is not BINARY_ORDER:
            return None
        count = 1
        if self.count is not None:
            if self.count.constant is None:
                return None
            try:
                count = count_from(self.count.constant)
            except CommandError:
                # The error is raised once a group exists.
                return None
        return partial(CHOOSING_STATES[self.accumulator], count)


_COUNTED: Mapping[str, tuple[int, Callable[[Ordering, int], Accumulator]]] = {
    "$firstN": (5787801, lambda _, count: EndsState(count, last=False)),
    "$lastN": (5787801, lambda _, count: EndsState(count, last=True)),
    "$maxN": (5787900, lambda ordering, count: ExtremesState(count, True, ordering)),
    "$minN": (5787900, lambda ordering, count: ExtremesState(count, False, ordering)),
}
_RANKED: Mapping[str, Start] = {
    "$bottom": lambda count: RankedState(count, last=True, single=True),
    "$bottomN": lambda count: RankedState(count, last=True, single=False),
    "$top": lambda count: RankedState(count, last=False, single=True),
    "$topN": lambda count: RankedState(count, last=False, single=False),
}
CHOOSING = frozenset((*_COUNTED, *_RANKED))


def parse_chosen(name: str, value: Value, parsing: Parsing) -> Chosen:
    """Parse an accumulator of `CHOOSING`. Errors: the codes of real servers."""
    ordering = parsing.query_context.ordering
    if name in _COUNTED:
        code, start = _COUNTED[name]
        count, source = parse_counted(name, value, code)
        begin = partial(start, ordering)
        return Chosen(name, parsing.expression(source), parsing.expression(count), begin, ordering)
    parameters = ("n", "output", "sortBy") if name.endswith("N") else ("output", "sortBy")
    if value[0] != OBJECT:
        raise CommandError(5788001, f"specification must be an object; found {name}: {display(value)}")
    arguments: dict[str, Value] = {}
    for field, kind, data in elements(value[1]):
        if field not in parameters:
            raise CommandError(5788002, f"Unknown argument to {name} '{field}'")
        arguments[field] = (kind, data)
    for field, missing in (("n", 5788003), ("output", 5788004), ("sortBy", 5788005)):
        if field in parameters and field not in arguments:
            raise CommandError(missing, f"Missing value for '{field}'")
    count_of = parsing.expression(arguments["n"]) if "n" in arguments else None
    argument = _ranked_argument(arguments["sortBy"], parsing.expression(arguments["output"]), ordering)
    return Chosen(name, argument, count_of, _RANKED[name], ordering)


def _ranked_argument(sort_by: Value, output: Expression, ordering: Ordering) -> Expression:
    if sort_by[0] not in (OBJECT, ARRAY):
        raise CommandError(10065, f"invalid parameter: expected an object (sortBy), found {type_name(sort_by)}")
    fields = parse_sort_fields(sort_by[1])
    key_of = ranking(fields, ordering)
    evaluate = output.evaluate

    def argument(scope: Scope) -> Value:
        return ranked(key_of(scope.root), evaluate(scope) or NULL_VALUE)

    if ordering is not BINARY_ORDER:
        return Expression(argument)
    rank = [Expression(partial(_at, path.split(".")), path=path) for path, _ in fields]
    sources = [(source_of(expression), direction) for expression, (_, direction) in zip(rank, fields, strict=True)]
    ranked_source = RankedSource(sources, source_of(output), lambda document: argument(Scope(document)))
    return Expression(argument, arguments=(*rank, output), calculation=ranked_source)


def _at(path: Sequence[str], scope: Scope) -> Value | None:
    return walk((OBJECT, scope.root), path)


def ranking(fields: Sequence[tuple[str, int]], ordering: Ordering) -> Callable[[bytes], bytes]:
    """Return the sort key function of an order in which arrays compare as a whole, and empty arrays sort before null.

    Errors: BadValue for two parallel arrays.
    """
    if not fields:
        return lambda document: b""
    pattern = KeyPattern(list(fields), ordering.fold)
    paths = [path.split(".") for path, _ in fields]

    def key_of(document: bytes) -> bytes:
        sort_values = [walk((OBJECT, document), path) or NULL_VALUE for path in paths]
        arrays = [position for position, (code, _) in enumerate(sort_values) if code == ARRAY]
        if len(arrays) > 1:
            raise CommandError(Code.BadValue, "cannot sort with keys that are parallel arrays")
        for position in arrays:
            if sort_values[position][1] == EMPTY_DOCUMENT:
                sort_values[position] = UNDEFINED, b""
        return pattern.encode(sort_values)

    return key_of
