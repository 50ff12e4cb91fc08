"""`$fill`: replaces null and missing values by a value, the last one seen, or linear interpolation.

It is parsed into a `$setWindowFields` for the last two and an `$addFields` for the first.
"""

from __future__ import annotations

from docstore.aggregation.stage import Declaration, Stage
from docstore.aggregation.stages.project import parse_add_fields
from docstore.aggregation.stages.set_window_fields import parse_set_window_fields, partition_paths, wrong_type
from docstore.bson.build import array_value, document_from
from docstore.bson.walk import ARRAY, NULL, OBJECT, STRING, UNDEFINED, Value, elements
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import string_value, text_of, type_name

_METHODS = {"linear": "$linearFill", "locf": "$locf"}
_TYPES = {"partitionBy": ("object", OBJECT), "sortBy": ("object", OBJECT), "output": ("object", OBJECT)}

_Fields = list[tuple[str, int, bytes]]


def _parse(value: Value, query_context: QueryContext) -> list[Stage]:
    if value[0] != OBJECT:
        raise CommandError(
            Code.FailedToParse, f"The $fill stage specification must be an object, found {type_name(value)}"
        )
    options: dict[str, Value] = {}
    for name, (code, data) in option_fields("$fill", value[1]).items():
        if name not in ("partitionBy", "partitionByFields", "sortBy", "output"):
            raise CommandError(40415, f"BSON field '$fill.{name}' is an unknown field.")
        if code in (NULL, UNDEFINED) and name != "partitionByFields":
            continue
        if name == "partitionByFields":
            partition_paths("$fill", (code, data))
        expected, type_code = _TYPES.get(name, ("array", ARRAY))
        if code != type_code:
            raise wrong_type("$fill", name, (code, data), expected)
        options[name] = (code, data)
    if "output" not in options:
        raise CommandError(40414, "BSON field '$fill.output' is missing but a required field")
    if "partitionBy" in options and "partitionByFields" in options:
        raise CommandError(6050204, "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'")
    windowed, added = _outputs(options["output"])
    stages: list[Stage] = []
    if windowed:
        specification = [*_order_and_partition(options), ("output", OBJECT, document_from(windowed))]
        stages += parse_set_window_fields((OBJECT, document_from(specification)), query_context)
    if added:
        stages += parse_add_fields((OBJECT, document_from(added)), query_context)
    return stages


def _outputs(output: Value) -> tuple[_Fields, _Fields]:
    """Return (outputs of a `$setWindowFields`, fields of an `$addFields`)."""
    fields = elements(output[1])
    if not fields:
        raise CommandError(6050203, "The output field in '$fill' must contain an object with at least one element")
    windowed: _Fields = []
    added: _Fields = []
    for path, code, data in fields:
        if code != OBJECT:
            raise CommandError(6050200, "Each fill output specification must be an object with exactly one field")
        specification = {
            name: (kind, inner)
            for name, (kind, inner) in option_fields("$fill", data).items()
            if name != "method" or kind not in (NULL, UNDEFINED)
        }
        for name in specification:
            if name not in ("method", "value"):
                raise CommandError(40415, f"BSON field '$fill.{name}' is an unknown field.")
        if "method" in specification and specification["method"][0] != STRING:
            raise wrong_type("$fill", "method", specification["method"], "string")
        if len(specification) > 1:
            raise CommandError(6050201, "a fill output must have exactly one of 'method' or 'value'")
        if "method" in specification:
            function = _METHODS.get(text_of(specification["method"]))
            if function is None:
                raise CommandError(6050202, "Method must be either locf or linear")
            windowed.append((path, OBJECT, document_from([(function, *string_value("$" + path))])))
        elif "value" in specification:
            operands = array_value([string_value("$" + path), specification["value"]])
            added.append((path, OBJECT, document_from([("$ifNull", *operands)])))
    return windowed, added


def _order_and_partition(arguments: dict[str, Value]) -> _Fields:
    fields: _Fields = []
    if "sortBy" in arguments:
        fields.append(("sortBy", *arguments["sortBy"]))
    if "partitionBy" in arguments:
        fields.append(("partitionBy", *arguments["partitionBy"]))
    elif "partitionByFields" in arguments:
        paths = partition_paths("$fill", arguments["partitionByFields"])
        if "" in paths:
            raise CommandError(15998, "FieldPath field names may not be empty strings.")
        named = [(path, *string_value("$" + path)) for path in paths]
        if len(set(paths)) != len(paths):
            raise CommandError(16406, "duplicate field name specified in object literal")
        fields.append(("partitionBy", OBJECT, document_from(named)))
    return fields


DECLARATIONS = (Declaration("$fill", _parse),)
