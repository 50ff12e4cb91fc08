"""Array operators that reorder or reshape: `$sortArray`, `$zip`, `$firstN`, `$lastN`, `$maxN`, `$minN`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key, partial
from typing import Any

from docstore.aggregation.expressions.calculations import sorted_array
from docstore.aggregation.expressions.model import (
    Expression,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    folded,
    is_nullish,
)
from docstore.bson.build import array_value
from docstore.bson.limits import LONG_MAX, LONG_MIN
from docstore.bson.walk import ARRAY, BOOL, NULL, OBJECT, UNDEFINED, Value, elements, get_path, values
from docstore.errors import CommandError
from docstore.query.sort import parse_sort_fields
from docstore.query.value.notation import display
from docstore.query.value.ordering import BINARY, Ordering
from docstore.query.value.values import NULL_VALUE, NUMBERS, integral_of, is_true, truncated_of, type_name


class Sorting:
    """Sorting under the request's ordering: ascending and descending keys of values."""

    __slots__ = ("falling", "rising")

    def __init__(self, ordering: Ordering) -> None:
        compare = ordering.compare
        self.rising: Callable[[Value], Any] = cmp_to_key(compare)
        self.falling: Callable[[Value], Any] = cmp_to_key(lambda a, b: compare(b, a))

    def by_fields(self, members: list[Value], fields: Sequence[tuple[str, int]]) -> list[Value]:
        """Return the elements sorted by fields: arrays compare as a whole, and paths do not traverse them."""
        sorted_members = members
        for path, direction in reversed(fields):
            sorted_members = sorted(
                sorted_members, key=partial(_field_key, path, self.rising if direction > 0 else self.falling)
            )
        return sorted_members


def _parse_sort(name: str, value: Value, parsing: Parsing) -> Expression:
    if value[0] != OBJECT:
        raise CommandError(2942500, f"{name} requires an object as an argument, found: {type_name(value)}")
    arguments: dict[str, Value] = {}
    for field, code, data in elements(value[1]):
        if field not in ("input", "sortBy"):
            raise CommandError(2942501, f"{name} found an unknown argument: {field}")
        arguments[field] = (code, data)
    for field, missing in (("input", 2942502), ("sortBy", 2942503)):
        if field not in arguments:
            raise CommandError(missing, f"{name} requires '{field}' to be specified")
    source = parsing.expression(arguments["input"])
    direction, fields = _parse_sort_by(arguments["sortBy"])
    sorting = Sorting(parsing.query_context.ordering)
    evaluate = source.evaluate

    def sort(scope: Scope) -> Value:
        array = evaluate(scope)
        if array is None or is_nullish(array):
            return NULL_VALUE
        if array[0] != ARRAY:
            raise CommandError(
                2942504, f"The input argument to $sortArray must be an array, but was of type: {type_name(array)}"
            )
        members = values(array[1])
        if fields:
            return array_value(sorting.by_fields(members, fields))
        return array_value(sorted(members, key=sorting.rising if direction > 0 else sorting.falling))

    operation = folded(sort, [source])
    if operation.is_constant or parsing.query_context.ordering is not BINARY:
        return operation
    return sorted_array(parsing.scoped(operation), fields, direction)


def _parse_sort_by(sort_by: Value) -> tuple[int, Sequence[tuple[str, int]]]:
    """Return (1 or -1, no fields) for a sort by whole elements, else (1, sort fields)."""
    if sort_by[0] in NUMBERS:
        direction = integral_of(sort_by)
        if direction not in (1, -1):
            raise CommandError(2942506, "The $sort element value must be either 1 or -1")
        return direction, ()
    if sort_by[0] != OBJECT:
        raise CommandError(
            2942507, "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields"
        )
    try:
        fields = parse_sort_fields(sort_by[1])
    except CommandError as error:
        raise CommandError(2942505, error.message) from None
    if not fields:
        raise CommandError(2942505, "The sort pattern is empty when it should be a set of fields.")
    return 1, fields


def _field_key(path: str, order: Callable[[Value], Any], member: Value) -> Any:
    field_value = get_path(member[1], path) if member[0] == OBJECT else None
    return order(NULL_VALUE if field_value is None else field_value)


def _expressions(value: Value, parsing: Parsing, code: int, name: str) -> list[Expression]:
    if value[0] != ARRAY:
        raise CommandError(code, f"{name} must be an array of expressions, found {type_name(value)}")
    return [parsing.expression(item) for item in values(value[1])]


def _parse_zip(name: str, value: Value, parsing: Parsing) -> Expression:
    if value[0] != OBJECT:
        raise CommandError(34460, f"{name} only supports an object as an argument, found {type_name(value)}")
    inputs: list[Expression] = []
    defaults: list[Expression] = []
    longest = False
    for field, code, data in elements(value[1]):
        if field == "inputs":
            inputs = _expressions((code, data), parsing, 34461, field)
        elif field == "defaults":
            defaults = _expressions((code, data), parsing, 34462, field)
        elif field == "useLongestLength":
            if code != BOOL:
                raise CommandError(34463, f"useLongestLength must be a bool, found {type_name((code, data))}")
            longest = is_true((code, data))
        else:
            raise CommandError(34464, f"{name} found an unknown argument: {field}")
    if not inputs:
        raise CommandError(34465, f"{name} requires at least one input array")
    if defaults and not longest:
        raise CommandError(34466, "cannot specify defaults unless useLongestLength is true")
    if defaults and len(defaults) != len(inputs):
        raise CommandError(34467, "defaults and inputs must have the same length")
    sources = [expression.evaluate for expression in inputs]
    fillers = [expression.evaluate for expression in defaults]

    def evaluate(scope: Scope) -> Value:
        arrays: list[list[Value]] = []
        for source in sources:
            operand = source(scope)
            if operand is None or is_nullish(operand):
                return NULL_VALUE
            if operand[0] != ARRAY:
                raise CommandError(34468, f"{name} found a non-array expression in input: {display(operand)}")
            arrays.append(values(operand[1]))
        length = (max if longest else min)(map(len, arrays))
        if not length or not any(len(array) < length for array in arrays):
            fill_values: list[Value | None] = [None] * len(arrays)
        else:
            fill_values = [filler(scope) for filler in fillers] if fillers else [NULL_VALUE] * len(arrays)
        return array_value(_row(arrays, fill_values, position) for position in range(length))

    return folded(evaluate, [*inputs, *defaults])


def _row(arrays: list[list[Value]], fillers: list[Value | None], position: int) -> Value:
    row = [array[position] if position < len(array) else filler for array, filler in zip(arrays, fillers, strict=True)]
    return array_value([member for member in row if member is not None])


def count_from(value: Value | None) -> int:
    """Return the `n` of an operator or accumulator as an int. Errors: 5787902, 5787903, 5787908, 31109."""
    if value is None or value[0] not in NUMBERS:
        text = "MISSING" if value is None else display(value)
        raise CommandError(5787902, f"Value for 'n' must be of integral type, but found {text}")
    count = integral_of(value)
    if count is None:
        integer = truncated_of(value)
        if integer in (LONG_MAX, LONG_MIN) or display(value) == "nan" or display(value) == "NaN":
            raise CommandError(31109, f"Can't coerce out of range value {display(value)} to long")
        raise CommandError(5787903, f"Value for 'n' must be of integral type, but found {display(value)}")
    if not LONG_MIN <= count <= LONG_MAX:
        raise CommandError(31109, f"Can't coerce out of range value {display(value)} to long")
    if count <= 0:
        raise CommandError(5787908, f"'n' must be greater than 0, found {count}")
    return count


def parse_counted(name: str, value: Value, not_an_object: int) -> tuple[Value, Value]:
    """Return (n, input) of an operator or accumulator that takes both."""
    if value[0] != OBJECT:
        raise CommandError(not_an_object, f"specification must be an object; found {name}: {display(value)}")
    arguments: dict[str, Value] = {}
    for field, code, data in elements(value[1]):
        if field not in ("n", "input"):
            raise CommandError(5787901, f"Unknown argument for 'n' operator: {field}")
        arguments[field] = (code, data)
    if "n" not in arguments:
        raise CommandError(5787906, "Missing value for 'n'")
    if "input" not in arguments:
        raise CommandError(5787907, "Missing value for 'input'")
    return arguments["n"], arguments["input"]


def _ascending(members: list[Value], sorting: Sorting) -> list[Value]:
    """Return the members that are not null or missing, sorted."""
    return sorted((member for member in members if member[0] not in (NULL, UNDEFINED)), key=sorting.rising)


def _counted(not_an_object: int, choose: Callable[[list[Value], int, Sorting], list[Value]]) -> OperatorParser:
    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        count, array = (parsing.expression(item) for item in parse_counted(name, value, not_an_object))
        count_of, array_of = count.evaluate, array.evaluate
        sorting = Sorting(parsing.query_context.ordering)

        def evaluate(scope: Scope) -> Value:
            member_count = count_from(count_of(scope))
            operand = array_of(scope)
            if operand is None or operand[0] != ARRAY:
                raise CommandError(5788200, "Input must be an array")
            return array_value(choose(values(operand[1]), member_count, sorting))

        return folded(evaluate, [count, array])

    return parse


OPERATORS: Table = {
    "$firstN": _counted(5787801, lambda members, count, _: members[:count]),
    "$lastN": _counted(5787801, lambda members, count, _: members[-count:]),
    "$maxN": _counted(5787900, lambda members, count, sorting: _ascending(members, sorting)[::-1][:count]),
    "$minN": _counted(5787900, lambda members, count, sorting: _ascending(members, sorting)[:count]),
    "$sortArray": _parse_sort,
    "$zip": _parse_zip,
}
