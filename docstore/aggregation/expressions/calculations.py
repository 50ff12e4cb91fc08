"""Expressions that the kernel calculates: operators whose common cases need no interpreter.

What comes out is the same: the kernel asks the expression itself wherever a value is not of the common types
(`docstore.kernel.compute.expressions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from docstore.aggregation.expressions.model import Expression, Scope
from docstore.bson.walk import Value
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
from docstore.kernel.group.sources import CallSource, ConstantSource, DocumentSource, PathSource, Source
from docstore.query.value.values import boolean, int32_value

Compute = Callable[[bytes], Value | None]
Make = Callable[[Sequence[Source], Compute], Calculation]


def _comparing(answer: Callable[[int], Value]) -> Make:
    return partial(Comparison, answers=[answer(order) for order in (-1, 0, 1)])


_MADE: Mapping[str, Make] = {
    "$add": Sum,
    "$and": partial(Connective, stop=False),
    "$arrayElemAt": Member,
    "$concat": Concatenation,
    "$cond": Choice,
    "$divide": Quotient,
    "$ifNull": FirstPresent,
    "$mod": Remainder,
    "$multiply": Product,
    "$not": Negation,
    "$or": partial(Connective, stop=True),
    "$size": Size,
    "$subtract": Difference,
    "$switch": Choice,
}

_PARTS = {
    "$dayOfMonth": "d",
    "$dayOfWeek": "w",
    "$dayOfYear": "j",
    "$hour": "H",
    "$millisecond": "L",
    "$minute": "M",
    "$month": "m",
    "$second": "S",
    "$year": "Y",
}
"""Parts of dates by their letters, in UTC: where no time zone is a second argument."""

_BY_ORDER: Mapping[str, Make] = {
    "$cmp": _comparing(int32_value),
    "$eq": _comparing(lambda found: boolean(found == 0)),
    "$gt": _comparing(lambda found: boolean(found > 0)),
    "$gte": _comparing(lambda found: boolean(found >= 0)),
    "$in": Membership,
    "$lt": _comparing(lambda found: boolean(found < 0)),
    "$lte": _comparing(lambda found: boolean(found <= 0)),
    "$ne": _comparing(lambda found: boolean(found != 0)),
}
"""Those that compare values by their bytes, which is not what a collation says."""


def calculated(name: str, expression: Expression, *, binary: bool) -> Expression:
    """The expression of the operator `name`, calculated by the kernel where that is possible.

    It must not depend on bound variables. `binary`: values are compared without a collation.
    """
    make = _MADE.get(name) or (_BY_ORDER.get(name) if binary else None)
    if name in _PARTS and len(expression.arguments) == 1:
        make = partial(DatePart, letter=_PARTS[name])
    return _by(make, expression) if make is not None and expression.arguments else expression


def date_text(expression: Expression, pieces: Sequence[tuple[str | None, bytes]]) -> Expression:
    """The text of the date that is the only argument, in UTC. `pieces` are those of a `DateText`."""
    return _by(partial(DateText, pieces=pieces), expression)


def date_bin(expression: Expression, *, months: int, length: int, begin: int) -> Expression:
    """The beginning of the bin that the only argument is in, in UTC; see `OfUnit`."""
    return _by(partial(DateBin, months=months, length=length, begin=begin), expression)


def date_distance(expression: Expression, *, months: int, length: int, begin: int) -> Expression:
    """How many beginnings of bins lie between the two arguments, in UTC."""
    return _by(partial(DateDistance, months=months, length=length, begin=begin), expression)


def date_sum(expression: Expression, *, months: int, length: int) -> Expression:
    """The first argument so many units later as the second says, in UTC."""
    return _by(partial(DateSum, months=months, length=length), expression)


def _by(make: Make, expression: Expression) -> Expression:
    evaluate = expression.evaluate
    calculation = make([source_of(each) for each in expression.arguments], lambda document: evaluate(Scope(document)))
    return replace(expression, evaluate=lambda scope: calculation(scope.root), calculation=calculation)


def paths_of(expression: Expression) -> frozenset[str] | None:
    """The paths of the document that the value depends on; None where that is not plain to see."""
    if expression.is_constant:
        return frozenset()
    if expression.path is not None:
        return frozenset((expression.path,))
    parts = [field for _, field in expression.fields or ()]
    if expression.calculation is not None:
        parts = list(expression.arguments)
    found = [paths_of(part) for part in parts]
    known = [paths for paths in found if paths is not None]
    return frozenset[str]().union(*known) if parts and len(known) == len(found) else None


def source_of(expression: Expression) -> Source:
    """Where the kernel gets the values of an expression from; the function of a document that the expression is."""
    if expression.constant is not None:
        return ConstantSource(expression.constant)
    if expression.calculation is not None:
        return expression.calculation
    evaluate = expression.evaluate
    if expression.path is not None:
        return PathSource(expression.path, lambda document: evaluate(Scope(document)))
    if expression.fields is not None:
        return DocumentSource([(name, source_of(field)) for name, field in expression.fields])
    return CallSource(lambda document: evaluate(Scope(document)))
