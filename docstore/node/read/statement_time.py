"""The time of a statement that a router sends to several shards: `$$NOW` and `$$CLUSTER_TIME` are the same on all.

A router whose statement names one of them sends both with it: `runtimeConstants: {localNow, clusterTime}`.
"""

from __future__ import annotations

from collections.abc import Mapping

from docstore.bson.walk import DATE, TIMESTAMP, Value
from docstore.commands.declaration import Exceptional, Parameter, Type
from docstore.commands.values import wrong_type
from docstore.errors import CommandError
from docstore.query.value.option_fields import option_fields

NAME = "runtimeConstants"
PARAMETER = Parameter(NAME, Type.OBJECT, internal=True)
STATEMENT_TIME = Exceptional("a router says what time a statement has on all shards", PARAMETER)
_TYPES = {"localNow": (DATE, "date"), "clusterTime": (TIMESTAMP, "timestamp")}
_VARIABLES = {"localNow": "NOW", "clusterTime": "CLUSTER_TIME"}


def sent_variables(raw: bytes) -> Mapping[str, Value | None]:
    """Return the values of NOW and CLUSTER_TIME in a router's `runtimeConstants`.

    Errors: Location40413 to 40415, TypeMismatch.
    """
    fields = option_fields(NAME, raw)
    variables: dict[str, Value | None] = {}
    for name, (kind, expected) in _TYPES.items():
        value = fields.pop(name, None)
        if value is None:
            raise CommandError(40414, f"BSON field '{NAME}.{name}' is missing but a required field")
        if value[0] != kind:
            raise wrong_type(f"{NAME}.{name}", value[0], expected)
        variables[_VARIABLES[name]] = value
    for name in fields:
        raise CommandError(40415, f"BSON field '{NAME}.{name}' is an unknown field.")
    return variables
