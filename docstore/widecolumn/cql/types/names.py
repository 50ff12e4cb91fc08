"""Types by their names in statements and in stored definitions."""

from __future__ import annotations

import re

from docstore.widecolumn.cql.errors import CqlError, invalid, unsupported
from docstore.widecolumn.cql.statements import TypeName
from docstore.widecolumn.cql.types.collections import ListType, MapType, SetType, TupleType
from docstore.widecolumn.cql.types.native import NATIVE_TYPES, CqlType

_PARTS = re.compile(r"\w+|[<>]|'[^']*'")
_PARAMETERS = {"list": 1, "set": 1, "map": 2}
_FREEZABLE = (*_PARAMETERS, "tuple")


def type_of(name: TypeName, keyspace: str) -> CqlType:
    """The type of a column that is being defined. CqlError for one that is unknown or not served."""
    if name.name in _PARAMETERS:
        for parameter in name.parameters:
            if parameter.name in _PARAMETERS and parameter.parameters:
                raise invalid(f"Non-frozen collections are not allowed inside collections: {notation_of(name)}")
    return _resolved(name, keyspace, frozen=False)


def stored_type(text: str, keyspace: str) -> CqlType:
    """The type of a stored column, or of a system table, where a collection need not be frozen. CqlError."""
    native_type = NATIVE_TYPES.get(text)
    return native_type or _resolved(_read(_PARTS.findall(text)[::-1]), keyspace, frozen=False)


def _read(parts: list[str]) -> TypeName:
    """Take a type from the end of the parts, which stand in reverse."""
    name, parameters = parts.pop() if parts else "", []
    if parts and parts[-1] == "<":
        parts.pop()
        while parts and parts[-1] != ">":
            parameters.append(_read(parts))
        del parts[-1:]
    return TypeName(name, tuple(parameters))


def _resolved(name: TypeName, keyspace: str, *, frozen: bool) -> CqlType:
    """`frozen`: inside of a frozen type."""
    parameters, kind = name.parameters, name.name
    native_type = NATIVE_TYPES.get(kind)
    if native_type is not None and not parameters:
        if native_type.name == "counter":
            raise (
                invalid("Counters are not allowed inside collections") if frozen else unsupported("Counter columns are")
            )
        return native_type
    if kind == "frozen" and len(parameters) == 1:
        if parameters[0].name not in _FREEZABLE or not parameters[0].parameters:
            raise invalid(
                "frozen<> is only allowed on collections, tuples, and user-defined types "
                f"(got {notation_of(parameters[0])})"
            )
        return _resolved(parameters[0], keyspace, frozen=True)
    if kind == "tuple" and parameters:
        return TupleType(tuple(_resolved(element, keyspace, frozen=True) for element in parameters), frozen=True)
    if parameters and _PARAMETERS.get(kind) == len(parameters):
        elements = [_resolved(element, keyspace, frozen=True) for element in parameters]
        if kind == "list":
            return ListType(elements[0], frozen)
        if elements[0].name == "duration":
            position = "inside sets" if kind == "set" else "as map keys"
            raise invalid(f"Durations are not allowed {position}: {notation_of(name)}")
        return SetType(elements[0], frozen) if kind == "set" else MapType(elements[0], elements[1], frozen)
    raise _refusal(name, keyspace)


def _refusal(name: TypeName, keyspace: str) -> CqlError:
    if name.name == "vector" and name.parameters:
        return unsupported(f"The type {notation_of(name)} is")
    if name.name.startswith("'"):
        return unsupported(f"Custom types ({name.name}) are")
    return invalid(f"Unknown type {keyspace}.{name.name}")


def notation_of(name: TypeName) -> str:
    """Return the type's notation."""
    if not name.parameters:
        return name.name
    return f"{name.name}<{', '.join(notation_of(parameter) for parameter in name.parameters)}>"
