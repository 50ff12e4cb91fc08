# cython: annotation_typing=False
"""Parsing of a command's parameters from its raw document, by its declaration.

- `parse_fields` serves commands and their sub-documents (the statements of update and delete), with one set of error
  texts. Envelope fields, common to all commands, are parsed in `docstore.commands.envelope`.
- A duplicate field is refused, so that no two readers use different values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from docstore.bson import array_documents, elements
from docstore.bson.walk import (
    ARRAY,
    BINARY,
    BOOL,
    INT64,
    NULL,
    OBJECT,
    OBJECT_ID,
    STRING,
    TIMESTAMP,
    UNDEFINED,
)
from docstore.commands.declaration import Parameter, Type
from docstore.commands.values import (
    NUMBERS,
    integer_of,
    number_of,
    text_of,
    truth_of,
    value_of,
    wrong_type,
)
from docstore.errors import Code, CommandError
from docstore.namespace import check_collection_name, check_database_name, split_namespace
from docstore.query.value.option_fields import refuse_duplicate, refuse_nested_duplicates

_NUMERIC = frozenset(NUMBERS)
_ABSENT = frozenset((NULL, UNDEFINED))
_NEVER_ABSENT = (Type.ANY, Type.HINT, Type.STRICT_BOOL, Type.STRICT_OBJECT, Type.WHOLE)
_ACCEPTED: dict[Type, frozenset[int]] = {
    Type.STRING: frozenset((STRING,)),
    Type.HINT: frozenset((STRING, OBJECT)),
    Type.COLLECTION: frozenset((STRING,)),
    Type.NAMESPACE: frozenset((STRING,)),
    Type.BOOL: frozenset((BOOL,)),
    Type.STRICT_BOOL: frozenset((BOOL,)),
    Type.SAFE_BOOL: _NUMERIC | {BOOL},
    Type.INT: _NUMERIC,
    Type.WHOLE: _NUMERIC,
    Type.LONG: frozenset((INT64,)),
    Type.NUMBER: _NUMERIC,
    Type.OBJECT: frozenset((OBJECT,)),
    Type.STRICT_OBJECT: frozenset((OBJECT,)),
    Type.ARRAY: frozenset((ARRAY,)),
    Type.DOCUMENTS: frozenset((ARRAY,)),
    Type.STRINGS: frozenset((ARRAY,)),
    Type.LONGS: frozenset((ARRAY,)),
    Type.OBJECT_ID: frozenset((OBJECT_ID,)),
    Type.UUID: frozenset((BINARY,)),
    Type.TIMESTAMP: frozenset((TIMESTAMP,)),
}
_EXPECTED_NAMES: dict[Type, tuple[str, ...]] = {
    Type.STRING: ("string",),
    Type.COLLECTION: ("string",),
    Type.NAMESPACE: ("string",),
    Type.BOOL: ("bool",),
    Type.STRICT_BOOL: ("bool",),
    Type.SAFE_BOOL: ("bool", "long", "int", "decimal", "double"),
    Type.INT: ("long", "int", "decimal", "double"),
    Type.WHOLE: ("long", "int", "decimal", "double"),
    Type.LONG: ("long",),
    Type.NUMBER: ("long", "int", "decimal", "double"),
    Type.OBJECT: ("object",),
    Type.STRICT_OBJECT: ("object",),
    Type.ARRAY: ("array",),
    Type.DOCUMENTS: ("array",),
    Type.STRINGS: ("array",),
    Type.LONGS: ("array",),
    Type.OBJECT_ID: ("objectId",),
    Type.UUID: ("binData",),
    Type.TIMESTAMP: ("timestamp",),
}


_NOT_GIVEN = object()


class Arguments:
    """A command's parameters by name, as Python values of their types; absent ones have their default.

    `value`: the value of the field named like the command. `values`: the parameters that were given. Do not modify
    values: they are cached for repeated requests.
    """

    __slots__ = ("_declared", "value", "values")

    def __init__(self, declared: Mapping[str, Parameter], values: dict[str, Any], value: Any = None) -> None:
        self._declared = declared
        self.values = values
        self.value = value

    def __getitem__(self, name: str) -> Any:
        value = self.values.get(name, _NOT_GIVEN)
        return self._declared[name].default if value is _NOT_GIVEN else value

    def __contains__(self, name: str) -> bool:
        """True if the client sent the parameter, and not as null."""
        return name in self.values

    def set(self, name: str, value: Any) -> None:
        """Set a parameter that did not come in the document."""
        self.values[name] = value

    def sent_values(self) -> Mapping[str, Any]:
        """Return only the parameters that the client sent."""
        return self.values


def declared(*parameters: Parameter) -> dict[str, Parameter]:
    """Return parameters of a sub-document by name, for `parse_fields`."""
    by_name = {parameter.name: parameter for parameter in parameters}
    assert len(by_name) == len(parameters), "a parameter is declared twice"
    return by_name


def parse_fields(where: str, raw: bytes, parameters: Mapping[str, Parameter]) -> Arguments:
    """Parse a sub-document, such as one statement of an update; `where` is its dotted name in error texts.

    Errors: Location40415 unknown field, Location40414 missing field, Location40413 duplicate field, TypeMismatch,
    Location51024 out of bounds.
    """
    values: dict[str, Any] = {}
    fields = elements(raw)
    for name, code, data in fields:
        parameter = parameters.get(name)
        if parameter is None:
            raise unknown_field(where, name)
        take(where, parameter, code, data, "", values)
    refuse_duplicate(where, [name for name, _, _ in fields])
    check_required(where, parameters, values)
    return Arguments(parameters, values)


def unknown_field(where: str, name: str) -> CommandError:
    """Return the error for an undeclared field."""
    return CommandError(40415, f"BSON field '{where}.{name}' is an unknown field.")


def check_required(where: str, parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> None:
    """Errors: Location40414 if a required parameter is absent."""
    for parameter in parameters.values():
        if parameter.required and parameter.name not in values:
            raise CommandError(40414, f"BSON field '{where}.{parameter.name}' is missing but a required field")


def take(where: str, parameter: Parameter, code: int, data: bytes, db: str, values: dict[str, Any]) -> None:
    """Check one field against its declaration and store its value; null counts as absent."""
    name = parameter.name
    kind = parameter.type
    if code in _ABSENT and kind not in _NEVER_ABSENT:
        values.pop(name, None)
        return
    value = convert(f"{where}.{name}", kind, code, data, db)
    if parameter.distinct:
        refuse_nested_duplicates(f"{where}.{name}", (code, data))
    if parameter.unsupported is not None and _asks(value):
        raise CommandError(Code.NotImplemented, parameter.unsupported)
    if parameter.minimum is not None and value < parameter.minimum:
        raise CommandError(51024, f"BSON field '{name}' value must be >= {parameter.minimum}, actual value '{value}'")
    if parameter.maximum is not None and value > parameter.maximum:
        raise CommandError(51024, f"BSON field '{name}' value must be <= {parameter.maximum}, actual value '{value}'")
    values[name] = value


def _asks(value: Any) -> bool:
    """True if the value of an unsupported parameter has an effect: it is not false, zero or empty."""
    return bool(value) and value != b"\x05\0\0\0\0"


def convert(field: str, kind: Type | tuple[Type, ...], code: int, data: bytes, db: str) -> Any:
    """Return the value converted to its type. Errors: TypeMismatch, and those of the type."""
    if not isinstance(kind, tuple):
        if kind is Type.ANY:
            return code, data
        if code not in _ACCEPTED[kind]:
            if kind is Type.HINT:
                raise CommandError(Code.FailedToParse, "Hint must be a string or an object")
            if kind is Type.WHOLE:
                raise CommandError(Code.BadValue, f"{field} is not a valid number")
            raise wrong_type(field, code, _expected((kind,)))
        return _CONVERTERS[kind](field, code, data, db)
    for member_type in kind:
        if member_type is Type.ANY or code in _ACCEPTED[member_type]:
            return convert(field, member_type, code, data, db)
    raise wrong_type(field, code, _expected(kind))


def _expected(kinds: tuple[Type, ...]) -> str:
    names = [name for kind in kinds for name in _EXPECTED_NAMES[kind]]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _collection(_field: str, _code: int, data: bytes, db: str) -> str:
    name = text_of(data)
    check_collection_name(db, name)
    return name


def _namespace(_field: str, _code: int, data: bytes, _db: str) -> str:
    name = text_of(data)
    database, collection = split_namespace(name)
    check_database_name(database)
    return check_collection_name(database, collection)


def _to_integral(field: str, code: int, data: bytes, _db: str) -> int:
    number = integer_of(code, data)
    if number_of(code, data) != number:
        raise CommandError(Code.FailedToParse, f"Expected an integer: {field}")
    return number


def _strings(field: str, _code: int, data: bytes, _db: str) -> list[str]:
    texts = []
    for index, code, value in elements(data):
        if code != STRING:
            raise wrong_type(f"{field}.{index}", code, "string")
        texts.append(text_of(value))
    return texts


def _longs(field: str, _code: int, data: bytes, _db: str) -> list[int]:
    numbers = []
    for index, code, value in elements(data):
        if code in _ABSENT:
            continue
        if code != INT64:
            raise wrong_type(f"{field}.{index}", code, "long")
        numbers.append(integer_of(code, value))
    return numbers


def _documents(field: str, _code: int, data: bytes, _db: str) -> list[bytes]:
    for index, code, _ in elements(data):
        if code != OBJECT:
            raise wrong_type(f"{field}.{index}", code, "object")
    return array_documents(data)


def _uuid(field: str, _code: int, data: bytes, _db: str) -> bytes:
    if data[4] != 4 or len(data) != 21:
        raise CommandError(Code.InvalidUUID, f"'{field}' must be a 16-byte binary field with UUID (4) subtype")
    return data[5:]


def _raw(_field: str, _code: int, data: bytes, _db: str) -> bytes:
    return data


def _decoded(_field: str, code: int, data: bytes, _db: str) -> Any:
    return value_of(code, data)


_CONVERTERS: dict[Type, Callable[[str, int, bytes, str], Any]] = {
    Type.STRING: lambda _field, _code, data, _db: text_of(data),
    Type.HINT: lambda _field, code, data, _db: (code, data),
    Type.COLLECTION: _collection,
    Type.NAMESPACE: _namespace,
    Type.BOOL: lambda _field, _code, data, _db: data != b"\0",
    Type.STRICT_BOOL: lambda _field, _code, data, _db: data != b"\0",
    Type.SAFE_BOOL: lambda _field, code, data, _db: truth_of(code, data),
    Type.INT: lambda _field, code, data, _db: integer_of(code, data),
    Type.WHOLE: _to_integral,
    Type.LONG: lambda _field, code, data, _db: integer_of(code, data),
    Type.NUMBER: lambda _field, code, data, _db: number_of(code, data),
    Type.OBJECT: _raw,
    Type.STRICT_OBJECT: _raw,
    Type.ARRAY: _raw,
    Type.DOCUMENTS: _documents,
    Type.STRINGS: _strings,
    Type.LONGS: _longs,
    Type.OBJECT_ID: _decoded,
    Type.UUID: _uuid,
    Type.TIMESTAMP: _decoded,
}
