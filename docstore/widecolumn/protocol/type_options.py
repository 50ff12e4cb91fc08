"""Types as the [option] of a column."""

from __future__ import annotations

from docstore.widecolumn.cql.types.collections import ListType, MapType, SetType, TupleType
from docstore.widecolumn.cql.types.native import CqlType
from docstore.widecolumn.protocol.notation import short


def type_option(kind: CqlType) -> bytes:
    """The type's code, then the options of its parameters."""
    code = short(kind.code)
    if isinstance(kind, ListType | SetType):
        return code + type_option(kind.element)
    if isinstance(kind, MapType):
        return code + type_option(kind.key) + type_option(kind.value)
    if isinstance(kind, TupleType):
        return code + short(len(kind.elements)) + b"".join(map(type_option, kind.elements))
    return code
