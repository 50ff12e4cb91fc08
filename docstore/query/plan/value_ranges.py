"""The ranges of keys of the values that satisfy one condition."""

from __future__ import annotations

from docstore.bson.order import type_class
from docstore.bson.walk import (
    ARRAY,
    BINARY,
    BOOL,
    CODE_WITH_SCOPE,
    DATE,
    DB_POINTER,
    DECIMAL,
    DOUBLE,
    INT32,
    INT64,
    MAX_KEY,
    MIN_KEY,
    NULL,
    OBJECT,
    OBJECT_ID,
    REGEX,
    STRING,
    SYMBOL,
    TIMESTAMP,
    UNDEFINED,
    Value,
    values,
)
from docstore.kernel.keys.bounds import prefix_end
from docstore.kernel.keys.encoding import KEY_OF_NULL, KEY_OF_UNDEFINED, encode_key
from docstore.query.filter.expr_bounds import Computed
from docstore.query.filter.regex import literal_prefix
from docstore.query.filter.tree import Comparison, Exists, Filter, In, Mod, Not, Op, RegexMatch, TypeIs
from docstore.query.plan.intervals import (
    EVERYTHING,
    HIGHEST,
    LOWEST,
    Range,
    Ranges,
    complement,
    point,
    points_of,
    union,
)
from docstore.query.value.values import string_value

Condition = Filter | Computed
"""A condition on one path."""

NUMBER_CLASS = type_class(DOUBLE)
NUMBERS_WITHOUT_NAN = Range(b"\x2c", b"\x40")
_NUMBERS = Range(b"\x28", b"\x40")
_CLASS_WIDTH = 8

NULL_RANGES: Ranges = (
    Range(KEY_OF_UNDEFINED, prefix_end(KEY_OF_UNDEFINED), True),
    Range(KEY_OF_NULL, prefix_end(KEY_OF_NULL), True),
)
"""The keys of a missing or null field: undefined is the key of an empty array on the way."""


def class_range(code: int) -> Range:
    """Return the range of all values that compare with values of this type."""
    start = type_class(code)
    if start == NUMBER_CLASS:
        return _NUMBERS
    if code in (MIN_KEY, MAX_KEY):
        return Range(bytes([start]), bytes([start + 1]), True)
    return Range(bytes([start]), bytes([start + _CLASS_WIDTH]))


def value_ranges(condition: Condition) -> tuple[Ranges, bool] | None:
    """Return (ranges, exact) of a condition on one path, or None if it bounds nothing.

    `exact`: without arrays on the path, a value satisfies the condition exactly if its key is in the ranges. Keys
    compare strings by bytes, so a comparison under a collation bounds nothing.
    """
    match condition:
        case Comparison() if condition.collation is None:
            return _comparison(condition.op, condition.value)
        case In() if condition.collation is None:
            return _in(condition)
        case RegexMatch():
            return _regex(condition)
        case Mod():
            return (_NUMBERS,), False
        case TypeIs():
            return _types(condition.codes)
        case Exists():
            return EVERYTHING, False
        case Not(Exists()):
            return (NULL_RANGES[1],), False
        case Not(child):
            return _negated(child)
        case Computed():
            return _computed(condition.op, condition.value), False
        case _:
            return None


def _negated(child: Filter) -> tuple[Ranges, bool] | None:
    """Return the ranges of all values but those that satisfy the child; None unless its ranges are exact."""
    if isinstance(child, Not):
        return value_ranges(child.child)
    if isinstance(child, Comparison | In):
        bounded = value_ranges(child)
        if bounded is not None and (bounded[1] or _is_exact_but_for_null(child)):
            return complement(bounded[0]), bounded[1]
    return None


def _is_exact_but_for_null(condition: Comparison | In) -> bool:
    """True if the ranges hold every value that satisfies the condition, and no other value but undefined."""
    if isinstance(condition, Comparison):
        return condition.op is Op.EQ and condition.value[0] == NULL
    return not condition.patterns and all(value[0] not in (ARRAY, UNDEFINED) for value in condition.values)


def _computed(op: Op, value: Value) -> Ranges:
    """Return the ranges of the values for which an expression's comparison holds: it compares all types with each
    other.
    """
    here = point(value)
    if op is Op.EQ:
        return NULL_RANGES if value[0] == NULL else (here,)
    if op in (Op.LT, Op.LTE):
        # A missing field has the key of null and is less than it.
        return (Range(LOWEST, here.hi if op is Op.LTE or value[0] == NULL else here.lo),)
    return (Range(here.lo if op is Op.GTE else here.hi, HIGHEST),)


def _comparison(op: Op, value: Value) -> tuple[Ranges, bool] | None:
    code = value[0]
    if op is Op.EQ:
        return _equality(value)
    if code in (ARRAY, MIN_KEY, MAX_KEY):
        return None
    if code in (NULL, UNDEFINED):
        return (NULL_RANGES, False) if op in (Op.LTE, Op.GTE) else ((), False)
    class_bounds = class_range(code)
    here = point(value)
    if class_bounds is _NUMBERS:
        if here.lo == class_bounds.lo:
            return ((here,), True) if op in (Op.LTE, Op.GTE) else ((), True)
        class_bounds = NUMBERS_WITHOUT_NAN
    if op is Op.LT:
        bounded = Range(class_bounds.lo, here.lo)
    elif op is Op.LTE:
        bounded = Range(class_bounds.lo, here.hi)
    elif op is Op.GT:
        bounded = Range(here.hi, class_bounds.hi)
    else:
        bounded = Range(here.lo, class_bounds.hi)
    return ((bounded,) if bounded.lo < bounded.hi else ()), True


def _equality(value: Value) -> tuple[Ranges, bool]:
    if value[0] in (NULL, UNDEFINED):
        return NULL_RANGES, False
    if value[0] == ARRAY:
        members = values(value[1])
        first = point(members[0]) if members else NULL_RANGES[0]
        return union([first, point(value)]), False
    return (point(value),), True


_NOT_ONE_POINT = frozenset((NULL, UNDEFINED, ARRAY))


def _in(condition: In) -> tuple[Ranges, bool]:
    special: list[Range] = []
    keys: list[bytes] = []
    exact = not condition.patterns
    for value in condition.values:
        if value[0] in _NOT_ONE_POINT:
            special.extend(_equality(value)[0])
            exact = False
        else:
            keys.append(encode_key(value))
    for pattern in condition.patterns:
        special.extend(_regex(pattern)[0])
    points = points_of(keys)
    return (union([*points, *special]) if special else points), exact


def _regex(condition: RegexMatch) -> tuple[Ranges, bool]:
    """Return the ranges of strings, by their literal prefix if there is one, and of equal regexes, which also match."""
    prefix, is_whole = literal_prefix(condition.pattern, condition.options)
    strings = class_range(STRING)
    if prefix:
        start = encode_key(string_value(prefix))[:-1]
        strings = Range(start, prefix_end(start))
    options = "".join(sorted(condition.options))
    same = point((REGEX, f"{condition.pattern}\0{options}\0".encode()))
    return union([strings, same]), is_whole


_WHOLE_CLASSES = (
    frozenset((DOUBLE, INT32, INT64, DECIMAL)),
    frozenset((STRING, SYMBOL)),
    *(
        frozenset((code,))
        for code in (OBJECT, BINARY, OBJECT_ID, BOOL, DATE, TIMESTAMP, REGEX, DB_POINTER, CODE_WITH_SCOPE)
    ),
)
"""The types that have a range of keys for themselves."""


def _types(codes: frozenset[int]) -> tuple[Ranges, bool] | None:
    if ARRAY in codes:
        return None
    exact_codes: frozenset[int] = frozenset().union(*(kinds for kinds in _WHOLE_CLASSES if kinds <= codes))
    ranges = union(_NULL_POINTS.get(code) or class_range(code) for code in codes)
    return ranges, exact_codes == codes


_NULL_POINTS = {UNDEFINED: NULL_RANGES[0], NULL: NULL_RANGES[1]}
