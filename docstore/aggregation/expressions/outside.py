"""Values that do not come from the document: `$rand`, `$meta`; and `$toHashedIndexKey`."""

from __future__ import annotations

from docstore.aggregation.expressions.model import Expression, Parsing, Table, folded
from docstore.bson.walk import ARRAY, OBJECT, STRING, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.kernel.keys.hashing import hashed_key
from docstore.query.metadata import KINDS
from docstore.query.unsupported import not_supported
from docstore.query.value.values import double_value, int64_value, text_of

_METADATA = frozenset(
    (
        "geoNearDistance",
        "geoNearPoint",
        "indexKey",
        "randVal",
        "recordId",
        "searchHighlights",
        "searchScore",
        "searchScoreDetails",
        "sortKey",
        "textScore",
        "timeseriesBucketMaxTime",
        "timeseriesBucketMinTime",
    )
)


def _parse_rand(name: str, value: Value, parsing: Parsing) -> Expression:
    if value[0] not in (ARRAY, OBJECT):
        raise CommandError(10065, f"invalid parameter: expected an object ({name})")
    if (values if value[0] == ARRAY else elements)(value[1]):
        raise CommandError(3040501, f"{name} does not currently accept arguments")
    rng = parsing.query_context.rng
    if rng is None:
        raise not_supported("expression in this place", name)
    return Expression(lambda scope: double_value(rng()))


def _parse_meta(name: str, value: Value, parsing: Parsing) -> Expression:
    if value[0] != STRING:
        raise CommandError(17307, f"{name} only supports string arguments")
    if text_of(value) not in _METADATA:
        raise CommandError(17308, f"Unsupported argument to {name}: {text_of(value)}")
    measure = parsing.query_context.measures.get(text_of(value))
    if measure is not None:
        return Expression(lambda scope: measure(scope.root))
    if text_of(value) in KINDS:
        raise CommandError(40218, f"query requires {text_of(value)} metadata, but it is not available")
    raise CommandError(Code.NotImplemented, f"{name}: the server keeps no {text_of(value)} with documents")


def _parse_hash(name: str, value: Value, parsing: Parsing) -> Expression:
    argument = parsing.expression(value)
    evaluate = argument.evaluate
    return folded(lambda scope: int64_value(hashed_key(evaluate(scope))), [argument])


OPERATORS: Table = {
    "$meta": _parse_meta,
    "$rand": _parse_rand,
    "$toHashedIndexKey": _parse_hash,
}
