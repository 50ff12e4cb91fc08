"""Array operators, including `$map`, `$filter` and `$reduce`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

from docstore.aggregation.expressions.calculations import binding
from docstore.aggregation.expressions.model import (
    MEMORY_LIMIT,
    Evaluate,
    Expression,
    Named,
    OperatorParser,
    Parsing,
    Scope,
    Table,
    arguments_of,
    check_variable_name,
    folded,
    is_nullish,
    nary,
    ordered,
    stepwise,
    unary,
)
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import (
    ARRAY,
    EMPTY_DOCUMENT,
    OBJECT,
    STRING,
    Value,
    each_value,
    elements,
    get_field,
    value_count,
    values,
)
from docstore.errors import Code, CommandError
from docstore.kernel.compute.bindings import Filtered, Mapped, Reduced
from docstore.query.value.notation import display
from docstore.query.value.ordering import Ordering
from docstore.query.value.values import (
    INT_MAX,
    INT_MIN,
    NULL_VALUE,
    NUMBERS,
    boolean,
    int32_value,
    integral_of,
    is_true,
    string_value,
    text_of,
    type_name,
)

_RANGE_MEMBER, _RANGE_ITSELF = 16, 40
"""Bytes that a real server charges for a `$range`, per member and for the array itself."""
MAX_FOLDED_MEMBERS = 1000
"""Longer ranges of constants are not evaluated while parsing."""

Operands = list[Value | None]
Steps = Iterator[Value | None]
Compare = Callable[[Value, Value], int]


def _size(operand: Value | None) -> Value:
    if operand is None or operand[0] != ARRAY:
        raise CommandError(17124, f"The argument to $size must be an array, but was of type: {type_name(operand)}")
    return int32_value(value_count(operand[1]))


def whole_number(value: Value) -> int | None:
    """Return the number as a 32-bit integer; None if it is not one."""
    number = integral_of(value)
    return number if number is not None and INT_MIN <= number <= INT_MAX else None


def _array_elem_at(operands: Operands) -> Value | None:
    array, position = operands
    if array is None or position is None or is_nullish(array) or is_nullish(position):
        return NULL_VALUE
    if array[0] != ARRAY:
        raise CommandError(28689, f"$arrayElemAt's first argument must be an array, but is {type_name(array)}")
    if position[0] not in NUMBERS:
        raise CommandError(
            28690, f"$arrayElemAt's second argument must be a numeric value, but is {type_name(position)}"
        )
    index = whole_number(position)
    if index is None:
        raise CommandError(
            28691,
            f"$arrayElemAt's second argument must be representable as a 32-bit integer: {display(position)}",
        )
    return _element(array[1], index)


def _element(array: bytes, index: int) -> Value | None:
    if index < 0:
        index += value_count(array)
    return None if index < 0 else next(islice(each_value(array), index, None), None)


def _end(name: str, index: int) -> OperatorParser:
    def calculate(operand: Value | None) -> Value | None:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] != ARRAY:
            raise CommandError(28689, f"{name}'s argument must be an array, but is {type_name(operand)}")
        return _element(operand[1], index)

    return unary(calculate)


def _in(compare: Compare, operands: Operands) -> Value:
    sought, array = operands
    if array is None or array[0] != ARRAY:
        raise CommandError(40081, f"$in requires an array as a second argument, found: {type_name(array)}")
    return boolean(sought is not None and any(compare(sought, member) == 0 for member in each_value(array[1])))


def _concat_arrays(operands: Steps) -> Value:
    arrays: list[bytes] = []
    for operand in operands:
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] != ARRAY:
            raise CommandError(28664, f"$concatArrays only supports arrays, not {type_name(operand)}")
        arrays.append(operand[1])
    return array_value(chain.from_iterable(map(each_value, arrays)))


def _slice(operands: Steps) -> Value:
    array, second = next(operands), next(operands)
    if array is None or is_nullish(array) or second is None or is_nullish(second):
        return NULL_VALUE
    if array[0] != ARRAY:
        raise CommandError(28724, f"First argument to $slice must be an array, but is of type: {type_name(array)}")
    numbers: list[int] = []
    for operand, role, code in zip(chain((second,), operands), ("Second", "Third"), (28725, 28727), strict=False):
        if operand is None or is_nullish(operand):
            return NULL_VALUE
        if operand[0] not in NUMBERS:
            raise CommandError(
                code, f"{role} argument to $slice must be a numeric value, but is of type: {type_name(operand)}"
            )
        number = whole_number(operand)
        if number is None:
            raise CommandError(
                code + 1,
                f"{role} argument to $slice can't be represented as a 32-bit integer: {display(operand)}",
            )
        numbers.append(number)
    if len(numbers) == 1:
        count = numbers[0]
        if count >= 0:
            return array_value(islice(each_value(array[1]), count))
        return array_value(islice(each_value(array[1]), max(0, value_count(array[1]) + count), None))
    start, count = numbers
    if count <= 0:
        raise CommandError(28729, f"Third argument to $slice must be positive: {count}")
    start = max(0, value_count(array[1]) + start) if start < 0 else start
    return array_value(islice(each_value(array[1]), start, start + count))


def _reverse(operand: Value | None) -> Value:
    if operand is None or is_nullish(operand):
        return NULL_VALUE
    if operand[0] != ARRAY:
        raise CommandError(
            34435, f"The argument to $reverseArray must be an array, but was of type: {type_name(operand)}"
        )
    return array_value(reversed(values(operand[1])))


def _parse_range(name: str, value: Value, parsing: Parsing) -> Expression:
    """Return a range, which is folded only if it is short: a request of a few bytes may ask for millions of numbers,
    and parsers do not let other tasks run. Its errors are found at once.
    """
    arguments = arguments_of(name, value, parsing, 2, 3)
    functions = [argument.evaluate for argument in arguments]

    def integers(scope: Scope) -> range:
        return _integers(evaluate(scope) for evaluate in functions)

    def evaluate(scope: Scope) -> Value:
        return array_value(map(int32_value, integers(scope)))

    constant = all(argument.is_constant for argument in arguments)
    if constant and len(integers(Scope(EMPTY_DOCUMENT))) > MAX_FOLDED_MEMBERS:
        return Expression(evaluate, arguments=tuple(arguments))
    return folded(evaluate, arguments)


def _integers(operands: Steps) -> range:
    """Return the members of a range. Errors: those of its operands; ExceededMemoryLimit."""
    numbers: list[int] = []
    arguments = chain((next(operands), next(operands)), operands)
    for operand, role, code in zip(arguments, ("starting", "ending", "step"), (34443, 34445, 34447), strict=False):
        if operand is None or operand[0] not in NUMBERS:
            raise CommandError(
                code, f"$range requires a numeric {role} value, found value of type: {type_name(operand)}"
            )
        number = whole_number(operand)
        if number is None:
            article = "an" if role == "ending" else "a"
            raise CommandError(
                code + 1,
                f"$range requires {article} {role} value that can be represented as a 32-bit integer, found value:"
                f" {display(operand)}",
            )
        numbers.append(number)
    start, end, step = numbers if len(numbers) == 3 else (*numbers, 1)
    if step == 0:
        raise CommandError(34449, "$range requires a non-zero step value")
    integers = range(start, end, step)
    size = len(integers) * _RANGE_MEMBER + _RANGE_ITSELF
    if size > MEMORY_LIMIT:
        raise CommandError(
            Code.ExceededMemoryLimit,
            f"$range would use too much memory ({size} bytes) and cannot spill to disk. Memory limit:"
            f" {MEMORY_LIMIT} bytes",
        )
    return integers


def _index_of_array(ordering: Ordering) -> OperatorParser:
    """Return `$indexOfArray`, which evaluates the bounds before the value sought."""

    def parse(name: str, value: Value, parsing: Parsing) -> Expression:
        arguments = arguments_of(name, value, parsing, 2, 4)
        array, sought, *bounds = [argument.evaluate for argument in arguments]

        def evaluate(scope: Scope) -> Value:
            operand = array(scope)
            return _found_index(ordering.compare, operand, (bound(scope) for bound in bounds), lambda: sought(scope))

        return folded(evaluate, arguments)

    return parse


def _found_index(compare: Compare, array: Value | None, bounds: Steps, sought_in: Callable[[], Value | None]) -> Value:
    if array is None or is_nullish(array):
        return NULL_VALUE
    if array[0] != ARRAY:
        raise CommandError(40090, f"$indexOfArray requires an array as a first argument, found: {type_name(array)}")
    limits: list[int] = []
    for bound in bounds:
        number = None if bound is None or bound[0] not in NUMBERS else whole_number(bound)
        if number is None:
            raise CommandError(40096, f"$indexOfArray requires an integral position, found: {type_name(bound)}")
        if number < 0:
            raise CommandError(40097, f"$indexOfArray requires a nonnegative position, found: {number}")
        limits.append(number)
    sought = sought_in()
    start = limits[0] if limits else 0
    end = limits[1] if len(limits) > 1 else None
    if sought is not None and (end is None or start < end):
        for position, member in enumerate(islice(each_value(array[1]), start, end), start):
            if compare(member, sought) == 0:
                return int32_value(position)
    return int32_value(-1)


_MAP = Named(16878, 16879, {"input": 16880, "in": 16882}, ("as",))
_FILTER = Named(28646, 28647, {"input": 28648, "cond": 28650}, ("as", "limit"))
_REDUCE = Named(40075, 40076, {"input": 40077, "initialValue": 40078, "in": 40079})


def _element_name(named: dict[str, Value]) -> str:
    """Return the name of the element variable."""
    if "as" not in named:
        return "this"
    name = text_of(named["as"]) if named["as"][0] == STRING else ""
    check_variable_name(name)
    return name


def _parse_map(name: str, value: Value, parsing: Parsing) -> Expression:
    named = _MAP.parameters(name, value)
    variable = _element_name(named)
    array_of, inner = parsing.expression(named["input"]), parsing.with_variables(variable)
    body_of = inner.expression(named["in"])
    source, body = array_of.evaluate, body_of.evaluate

    def evaluate(scope: Scope) -> Value:
        array = source(scope)
        if array is None or is_nullish(array):
            return NULL_VALUE
        if array[0] != ARRAY:
            raise CommandError(16883, f"input to $map must be an array not {type_name(array)}")
        return array_value(body(scope.bind_one(variable, member)) or NULL_VALUE for member in each_value(array[1]))

    return binding(Mapped, parsing.scoped(Expression(evaluate)), [inner.variable(variable)], [array_of, body_of])


def _parse_filter(name: str, value: Value, parsing: Parsing) -> Expression:
    named = _FILTER.parameters(name, value)
    variable = _element_name(named)
    array_of, inner = parsing.expression(named["input"]), parsing.with_variables(variable)
    condition_of = inner.expression(named["cond"])
    source, condition = array_of.evaluate, condition_of.evaluate
    limit = parsing.expression(named["limit"]).evaluate if "limit" in named else None

    def evaluate(scope: Scope) -> Value:
        array = source(scope)
        if array is None or is_nullish(array):
            return NULL_VALUE
        if array[0] != ARRAY:
            raise CommandError(28651, f"input to $filter must be an array not {type_name(array)}")
        if array[1] == EMPTY_DOCUMENT:
            return array
        most = _filter_limit(limit, scope)
        matches = (member for member in each_value(array[1]) if is_true(condition(scope.bind_one(variable, member))))
        return array_value(islice(matches, most))

    expression = Expression(evaluate)
    if limit is not None:
        return expression
    return binding(Filtered, parsing.scoped(expression), [inner.variable(variable)], [array_of, condition_of])


def _filter_limit(limit: Evaluate | None, scope: Scope) -> int | None:
    limit_value = None if limit is None else limit(scope)
    if limit_value is None or is_nullish(limit_value):
        return None
    number = whole_number(limit_value) if limit_value[0] in NUMBERS else None
    if number is None:
        raise CommandError(
            327391, f"$filter: limit must be represented as a 32-bit integral value: {display(limit_value)}"
        )
    if number <= 0:
        raise CommandError(327392, f"$filter: limit must be greater than 0: {number}")
    return number


def _parse_reduce(name: str, value: Value, parsing: Parsing) -> Expression:
    named = _REDUCE.parameters(name, value)
    inner = parsing.with_variables("this", "value")
    arguments = [parsing.expression(named[parameter]) for parameter in ("input", "initialValue")]
    arguments.append(inner.expression(named["in"]))
    source, initial, body = [argument.evaluate for argument in arguments]

    def evaluate(scope: Scope) -> Value | None:
        array = source(scope)
        if array is None or is_nullish(array):
            return NULL_VALUE
        if array[0] != ARRAY:
            raise CommandError(40080, f"$reduce requires that 'input' be an array, found: {display(array)}")
        accumulator = initial(scope)
        for member in each_value(array[1]):
            accumulator = body(scope.bind(this=member, value=accumulator))
        return accumulator

    variables = [inner.variable("this"), inner.variable("value")]
    return binding(Reduced, parsing.scoped(Expression(evaluate)), variables, arguments)


def _parse_is_array(name: str, value: Value, parsing: Parsing) -> Expression:
    (argument,) = arguments_of(name, value, parsing, 1, 1)
    evaluate = argument.evaluate

    def test(scope: Scope) -> Value:
        operand = evaluate(scope)
        return boolean(operand is not None and operand[0] == ARRAY)

    return folded(test, [argument])


def _object_to_array(operand: Value | None) -> Value:
    if operand is None or is_nullish(operand):
        return NULL_VALUE
    if operand[0] != OBJECT:
        raise CommandError(40390, f"$objectToArray requires a document input, found: {type_name(operand)}")
    return array_value(
        [
            (OBJECT, document_from([("k", *string_value(name)), ("v", code, data)]))
            for name, code, data in elements(operand[1])
        ]
    )


def _array_to_object(operand: Value | None) -> Value:
    if operand is None or is_nullish(operand):
        return NULL_VALUE
    if operand[0] != ARRAY:
        raise CommandError(40386, f"$arrayToObject requires an array input, found: {type_name(operand)}")
    fields: dict[str, Value] = {}
    members = values(operand[1])
    for member in members:
        if member[0] in (ARRAY, OBJECT) and members[0][0] in (ARRAY, OBJECT) and member[0] != members[0][0]:
            raise CommandError(
                40396 if member[0] == OBJECT else 40391,
                "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects.",
            )
        name, value = _pair(member)
        fields[name] = value
    return OBJECT, document_from((name, *value) for name, value in fields.items())


def _pair(member: Value) -> tuple[str, Value]:
    """Return (name, value) of `[name, value]` or `{k: name, v: value}`."""
    if member[0] == ARRAY:
        parts = values(member[1])
        if len(parts) != 2:
            raise CommandError(40397, f"$arrayToObject requires an array of size 2 arrays, found: {len(parts)}")
        name, value = parts
        if name[0] != STRING:
            raise CommandError(40395, f"$arrayToObject requires string keys, found: {type_name(name)}")
        return text_of(name), value
    if member[0] != OBJECT:
        raise CommandError(40398, f"Unrecognised input type format for $arrayToObject: {type_name(member)}")
    if len(elements(member[1])) != 2:
        raise CommandError(40392, "$arrayToObject requires an object keys of 'k' and 'v'")
    key, value_found = get_field(member[1], "k"), get_field(member[1], "v")
    if key is None or value_found is None:
        raise CommandError(40393, "$arrayToObject requires an object with keys 'k' and 'v'")
    if key[0] != STRING:
        raise CommandError(40394, f"$arrayToObject requires the key 'k' to be a string, found: {type_name(key)}")
    return text_of(key), value_found


OPERATORS: Table = {
    "$arrayElemAt": nary(_array_elem_at, 2, 2),
    "$arrayToObject": unary(_array_to_object),
    "$concatArrays": stepwise(_concat_arrays),
    "$filter": _parse_filter,
    "$first": _end("$first", 0),
    "$in": ordered(lambda ordering: nary(partial(_in, ordering.compare), 2, 2)),
    "$indexOfArray": ordered(_index_of_array),
    "$isArray": _parse_is_array,
    "$last": _end("$last", -1),
    "$map": _parse_map,
    "$objectToArray": unary(_object_to_array),
    "$range": _parse_range,
    "$reduce": _parse_reduce,
    "$reverseArray": unary(_reverse),
    "$size": unary(_size),
    "$slice": stepwise(_slice, 2, 3),
}
