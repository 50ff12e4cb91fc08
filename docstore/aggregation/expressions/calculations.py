"""Expressions evaluated by the kernel: operators whose common cases need no interpreter.

Results are identical: the kernel calls the expression itself for values of uncommon types
(`docstore.kernel.compute.expressions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from docstore.aggregation.expressions.model import Expression, Scope
from docstore.bson.walk import BOOL, DATE, DOUBLE, INT32, INT64, STRING, Value
from docstore.kernel.compute.arrays import (
    Accumulated,
    IsArray,
    Joined,
    Members,
    MergedDocuments,
    Pairs,
    Reversed,
    Slice,
)
from docstore.kernel.compute.bindings import Bindings
from docstore.kernel.compute.dates import DateBin, DateDistance, DatePart, DateSum, DateText
from docstore.kernel.compute.expressions import (
    Calculation,
    Choice,
    Comparison,
    Concatenation,
    Connective,
    Difference,
    FirstPresent,
    Member,
    Membership,
    Negation,
    Product,
    Quotient,
    Remainder,
    Size,
    Sum,
)
from docstore.kernel.compute.numbers import FUNCTIONS, Converted, Function, Power, Rounded, TypeName
from docstore.kernel.compute.ordered import MemberSet, Sorted
from docstore.kernel.compute.texts import (
    Case,
    CaseOrder,
    Index,
    Length,
    Parts,
    Replaced,
    Substring,
    Text,
    Trimmed,
)
from docstore.kernel.group.sources import CallSource, ConstantSource, DocumentSource, PathSource, Source, Variable
from docstore.kernel.group.states import STATES
from docstore.query.value.values import TYPE_NAMES, boolean, int32_value, string_value

Compute = Callable[[bytes], Value | None]
Make = Callable[[Sequence[Source], Compute], Calculation]


def _comparing(answer: Callable[[int], Value]) -> Make:
    return partial(Comparison, answers=[answer(order) for order in (-1, 0, 1)])


_TYPE_NAMES = {code: string_value(name) for code, name in {0: "missing", **TYPE_NAMES}.items()}

_CONVERSIONS: Mapping[int, tuple[str, Make]] = {
    BOOL: ("$toBool", partial(Converted, code=BOOL)),
    DATE: ("$toDate", partial(Converted, code=DATE)),
    DOUBLE: ("$toDouble", partial(Converted, code=DOUBLE)),
    INT32: ("$toInt", partial(Converted, code=INT32)),
    INT64: ("$toLong", partial(Converted, code=INT64)),
    STRING: ("$toString", Text),
}
"""Type conversions by target type, with their short names."""

ARRAY_OF = "["
"""The name of the array constructor, which is no operator."""

_MADE: Mapping[str, Make] = {
    ARRAY_OF: Members,
    "$add": Sum,
    "$and": partial(Connective, stop=False),
    "$arrayElemAt": Member,
    "$concat": Concatenation,
    "$concatArrays": Joined,
    "$cond": Choice,
    "$divide": Quotient,
    "$first": partial(Member, index=0),
    "$ifNull": FirstPresent,
    "$indexOfBytes": partial(Index, characters=False),
    "$indexOfCP": partial(Index, characters=True),
    "$isArray": IsArray,
    "$last": partial(Member, index=-1),
    "$ltrim": partial(Trimmed, trims_left=True, trims_right=False),
    "$mergeObjects": MergedDocuments,
    "$mod": Remainder,
    "$multiply": Product,
    "$not": Negation,
    "$objectToArray": Pairs,
    "$or": partial(Connective, stop=True),
    "$pow": Power,
    "$replaceAll": partial(Replaced, count=-1),
    "$replaceOne": partial(Replaced, count=1),
    "$reverseArray": Reversed,
    "$round": partial(Rounded, cut=False),
    "$rtrim": partial(Trimmed, trims_left=False, trims_right=True),
    "$size": Size,
    "$slice": Slice,
    "$split": Parts,
    "$strLenBytes": partial(Length, characters=False),
    "$strLenCP": partial(Length, characters=True),
    "$strcasecmp": CaseOrder,
    "$substr": partial(Substring, characters=False),
    "$substrBytes": partial(Substring, characters=False),
    "$substrCP": partial(Substring, characters=True),
    "$subtract": Difference,
    "$switch": Choice,
    "$toLower": partial(Case, upper=False),
    "$toUpper": partial(Case, upper=True),
    "$trim": partial(Trimmed, trims_left=True, trims_right=True),
    "$trunc": partial(Rounded, cut=True),
    "$type": partial(TypeName, names=_TYPE_NAMES),
    **dict(_CONVERSIONS.values()),
    **{name: partial(Accumulated, start=STATES[name]) for name in ("$avg", "$stdDevPop", "$stdDevSamp", "$sum")},
    **{name: partial(Function, function=number) for name, number in FUNCTIONS.items()},
}

_KERNEL_ARITIES: Mapping[str, int] = {"$indexOfBytes": 2, "$indexOfCP": 2, "$ltrim": 1, "$rtrim": 1, "$trim": 1}
"""The number of arguments up to which the kernel supports an operator."""

_PARTS = {
    "$dayOfMonth": "d",
    "$dayOfWeek": "w",
    "$dayOfYear": "j",
    "$hour": "H",
    "$isoDayOfWeek": "u",
    "$isoWeek": "V",
    "$isoWeekYear": "G",
    "$millisecond": "L",
    "$minute": "M",
    "$month": "m",
    "$second": "S",
    "$week": "U",
    "$year": "Y",
}
"""The format letters of date parts."""

Clock = Callable[[int], int]
"""Converts an instant to a zone's local time, or back, in milliseconds."""

_BY_ORDER: Mapping[str, Make] = {
    "$cmp": _comparing(int32_value),
    "$eq": _comparing(lambda found: boolean(found == 0)),
    "$gt": _comparing(lambda found: boolean(found > 0)),
    "$gte": _comparing(lambda found: boolean(found >= 0)),
    "$in": Membership,
    "$lt": _comparing(lambda found: boolean(found < 0)),
    "$lte": _comparing(lambda found: boolean(found <= 0)),
    "$max": partial(Accumulated, start=STATES["$max"]),
    "$min": partial(Accumulated, start=STATES["$min"]),
    "$ne": _comparing(lambda found: boolean(found != 0)),
    "$setIntersection": partial(MemberSet, shared=True),
    "$setUnion": partial(MemberSet, shared=False),
}
"""Operators that compare values by their bytes, and so ignore a collation."""


def calculated(name: str, expression: Expression, *, binary: bool) -> Expression:
    """Return the expression of the operator `name`, evaluated by the kernel if possible.

    `binary`: values are compared without a collation.
    """
    count = len(expression.arguments)
    make = _MADE.get(name) or (_BY_ORDER.get(name) if binary else None)
    if make is None or not count or count > _KERNEL_ARITIES.get(name, count):
        return expression
    return _by(make, expression)


def converted(expression: Expression, code: int) -> Expression:
    """Return the conversion of the only argument to another type; null stays null."""
    return _by(_CONVERSIONS[code][1], expression) if code in _CONVERSIONS else expression


def sorted_array(expression: Expression, fields: Sequence[tuple[str, int]], direction: int) -> Expression:
    """Return the sort of the only argument, see `Sorted`."""
    return _by(partial(Sorted, fields=fields, direction=direction), expression)


def binding(
    kind: type[Bindings], expression: Expression, variables: Sequence[Variable], arguments: Sequence[Expression]
) -> Expression:
    """Return the expression of an operator that binds variables to its arguments, evaluated by the kernel."""
    return _by(partial(kind, variables=variables), replace(expression, arguments=tuple(arguments)))


def date_part(name: str, expression: Expression, local: Clock | None) -> Expression:
    """Return the date part `name` of the only argument; `local`: as in `OfDate`."""
    return _by(partial(DatePart, letter=_PARTS[name], local=local), expression)


def date_text(expression: Expression, pieces: Sequence[tuple[str | None, bytes]], local: Clock | None) -> Expression:
    """Return the text of a date, the only argument. `pieces`: those of a `DateText`; `local`: as in `OfDate`."""
    return _by(partial(DateText, pieces=pieces, local=local), expression)


def date_bin(
    expression: Expression, *, months: int, length: int, begin: int, clocks: tuple[Clock, Clock] | None = None
) -> Expression:
    """Return the start of the only argument's bin; see `DateBin`."""
    return _by(partial(DateBin, months=months, length=length, begin=begin, clocks=clocks), expression)


def date_distance(expression: Expression, *, months: int, length: int, begin: int) -> Expression:
    """Return the number of bin starts between the two arguments, in UTC."""
    return _by(partial(DateDistance, months=months, length=length, begin=begin), expression)


def date_sum(expression: Expression, *, months: int, length: int) -> Expression:
    """Return the first argument plus the second one's number of units, in UTC."""
    return _by(partial(DateSum, months=months, length=length), expression)


def _by(make: Make, expression: Expression) -> Expression:
    evaluate, scope_of = expression.evaluate, expression.scope_of
    calculation = make(
        [source_of(argument) for argument in expression.arguments], lambda document: evaluate(scope_of(document))
    )
    if scope_of is not Scope:
        # The interpreter and the kernel hold different variable values.
        return replace(expression, calculation=calculation)
    return replace(expression, evaluate=lambda scope: calculation(scope.root), calculation=calculation)


def paths_of(expression: Expression) -> frozenset[str] | None:
    """Return the document paths that the value depends on; None if they are not evident."""
    if expression.is_constant:
        return frozenset()
    if expression.path is not None:
        return frozenset((expression.path,))
    parts = [field for _, field in expression.fields or ()]
    if expression.calculation is not None:
        # The arguments of a binding operator depend on more than the document.
        parts = [] if isinstance(expression.calculation, Bindings) else list(expression.arguments)
    part_paths = [paths_of(part) for part in parts]
    path_sets = [paths for paths in part_paths if paths is not None]
    return frozenset[str]().union(*path_sets) if parts and len(path_sets) == len(part_paths) else None


def source_of(expression: Expression) -> Source:
    """Return the kernel's source for the values of an expression: a function of a document."""
    if expression.constant is not None:
        return ConstantSource(expression.constant)
    if expression.calculation is not None:
        return expression.calculation
    if expression.path is not None:
        return PathSource(expression.path)
    if expression.fields is not None:
        return DocumentSource([(name, source_of(field)) for name, field in expression.fields])
    evaluate, scope_of = expression.evaluate, expression.scope_of
    return CallSource(lambda document: evaluate(scope_of(document)))
