"""`$count` and `$sortByCount`: shorthands, parsed into other stages."""

from __future__ import annotations

from docstore.aggregation.expressions.parse import parse_expression
from docstore.aggregation.stage import Declaration, Stage
from docstore.aggregation.stages import group, project, sort
from docstore.bson.build import document_from
from docstore.bson.walk import OBJECT, STRING, Value, elements
from docstore.errors import CommandError
from docstore.query.context import QueryContext
from docstore.query.value.values import FALSE, NULL_VALUE, int32_value, text_of

_ONE = document_from([("$sum", *int32_value(1))])


def _parse_count(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != STRING:
        raise CommandError(40156, "the count field must be a non-empty string")
    name = text_of(value)
    if not name:
        raise CommandError(40157, "the count field must be a non-empty string")
    if name.startswith("$"):
        raise CommandError(40158, "the count field cannot be a $-prefixed path")
    if "\0" in name:
        raise CommandError(40159, "the count field cannot contain a null byte")
    if "." in name:
        raise CommandError(40160, "the count field cannot contain '.'")
    counted = document_from([("_id", *NULL_VALUE), (name, OBJECT, _ONE)])
    bare = document_from([("_id", *FALSE)])
    return [group.parse_group((OBJECT, counted), query_context), *project.parse_project((OBJECT, bare), query_context)]


def _parse_sort_by_count(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] == OBJECT:
        fields = elements(value[1])
        if len(fields) > 1 and fields[0][0].startswith("$"):
            parse_expression(value, query_context=query_context)
        if len(fields) != 1 or not fields[0][0].startswith("$"):
            raise CommandError(
                40147, "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
            )
    elif value[0] != STRING:
        raise CommandError(40149, "the sortByCount field must be specified as a string or as an object")
    elif not text_of(value).startswith("$"):
        raise CommandError(
            40148, "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
        )
    counted = document_from([("_id", *value), ("count", OBJECT, _ONE)])
    falling = document_from([("count", *int32_value(-1))])
    return [group.parse_group((OBJECT, counted), query_context), sort.parse_sort((OBJECT, falling), query_context)]


DECLARATIONS = (Declaration("$count", _parse_count), Declaration("$sortByCount", _parse_sort_by_count))
