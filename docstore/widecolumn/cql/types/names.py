"""Types by their names in statements and in stored definitions."""

from __future__ import annotations

import re

from docstore.widecolumn.cql.errors import CqlError, invalid, unsupported
from docstore.widecolumn.cql.statements import TypeName
from docstore.widecolumn.cql.types.collections import ListType, MapType, SetType
from docstore.widecolumn.cql.types.native import NATIVE_TYPES, CqlType

_STORED = re.compile(r"(?P<kind>list|set|map)<(?P<first>\w+)(?:, (?P<second>\w+))?>")
_COLLECTIONS = ("list", "set", "map")


def type_of(name: TypeName, keyspace: str) -> CqlType:
    """The type of a column that is being defined. CqlError for one that is unknown or not served."""
    native_type = NATIVE_TYPES.get(name.name)
    if native_type is not None and not name.parameters:
        if native_type.name == "counter":
            raise unsupported("Counter columns are")
        return native_type
    raise _refusal(name, keyspace)


def stored_type(text: str, keyspace: str) -> CqlType:
    """The type of a stored column; a collection of native types is one value, as in system tables. CqlError."""
    match = _STORED.fullmatch(text)
    if match is None:
        return type_of(TypeName(text), keyspace)
    first = type_of(TypeName(match["first"]), keyspace)
    if match["kind"] == "map":
        return MapType(first, type_of(TypeName(match["second"]), keyspace))
    return ListType(first) if match["kind"] == "list" else SetType(first)


def _refusal(name: TypeName, keyspace: str) -> CqlError:
    if name.name in _COLLECTIONS and name.parameters:
        return unsupported(f"Collection types ({shown(name)}) are")
    if name.name in ("frozen", "tuple", "vector") and name.parameters:
        return unsupported(f"The type {shown(name)} is")
    if name.name.startswith("'"):
        return unsupported(f"Custom types ({name.name}) are")
    return invalid(f"Unknown type {keyspace}.{name.name}")


def shown(name: TypeName) -> str:
    """Return the type's notation."""
    if not name.parameters:
        return name.name
    return f"{name.name}<{', '.join(shown(parameter) for parameter in name.parameters)}>"
