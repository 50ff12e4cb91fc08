"""What an index is to be: a specification parsed from the `createIndexes` form, with the reference's refusals.

Supported: ascending and descending keys over dotted paths, `unique`, `sparse`, `hidden`, and `background`, which has
had no meaning since 4.2 and is only kept. What MongoDB has and this server lacks is refused by name; what neither
has is refused as MongoDB does.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from docstore.bson import (
    BOOL,
    DECIMAL,
    DOUBLE,
    INT32,
    INT64,
    OBJECT,
    STRING,
    Value,
    document_from,
    elements,
    from_python,
)
from docstore.errors import Code, CommandError
from docstore.query.values import NUMBERS, TYPE_NAMES, display, text_of

ID_INDEX_NAME = "_id_"
MAX_INDEXES = 64

_INVALID_OPTION = 197  # InvalidIndexSpecificationOption
_FLAGS = frozenset(("unique", "sparse", "hidden", "background"))
_LACKING = frozenset(
    (
        "expireAfterSeconds",
        "partialFilterExpression",
        "collation",
        "wildcardProjection",
        "weights",
        "default_language",
        "language_override",
        "textIndexVersion",
        "2dsphereIndexVersion",
        "bits",
        "min",
        "max",
        "storageEngine",
        "prepareUnique",
        "clustered",
    )
)
_LACKING_KINDS = frozenset(("hashed", "text", "2d", "2dsphere", "columnstore"))


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """A checked specification.

    `raw` is the document as `listIndexes` shows it and the oplog carries it; `key` the key pattern in it, with the
    directions as they were given; `fields` the same as (dotted path, 1 or -1).
    """

    name: str
    raw: bytes
    key: bytes
    fields: tuple[tuple[str, int], ...]
    unique: bool = False
    sparse: bool = False
    hidden: bool = False

    def same_index(self, other: IndexSpec) -> bool:
        """Whether both would hold the same entries: same key and same options that matter for them."""
        return self.fields == other.fields and self.unique == other.unique and self.sparse == other.sparse

    def with_hidden(self, hidden: bool) -> IndexSpec:
        """The same index, hidden from the planner or not."""
        fields = [field for field in elements(self.raw) if field[0] != "hidden"]
        if hidden:
            fields.append(("hidden", BOOL, b"\1"))
        return IndexSpec(self.name, document_from(fields), self.key, self.fields, self.unique, self.sparse, hidden)


def parse_index_spec(raw: bytes) -> IndexSpec:
    """A specification from `{key, name, ...}`; CommandError with the reference's code and wording when it is
    refused.
    """
    found: dict[str, Value] = {}
    for name, code, data in elements(raw):
        if name in _LACKING:
            raise CommandError(Code.NotImplemented, f"indexes with the option '{name}' are not supported")
        if name not in _FLAGS and name not in ("v", "key", "name"):
            raise _refused(
                raw,
                f"The field '{name}' is not valid for an index specification. Specification: {_shown(raw)}",
                _INVALID_OPTION,
            )
        found[name] = (code, data)
    key = found.get("key")
    if key is None:
        raise _refused(raw, "The 'key' field is a required property of an index specification", Code.FailedToParse)
    if key[0] != OBJECT:
        raise _refused(raw, f"The field 'key' must be an object, but got {TYPE_NAMES[key[0]]}", Code.TypeMismatch)
    fields = _key_fields(raw, key[1])
    name = _name(raw, found.get("name"))
    _check_version(raw, found.get("v"))
    flags = {flag: _flag(raw, flag, found[flag]) for flag in _FLAGS & found.keys()}
    if fields == (("_id", 1),):
        for flag in ("unique", "sparse", "hidden"):
            if flag in flags:
                raise CommandError(
                    _INVALID_OPTION,
                    f"The field '{flag}' is not valid for an _id index specification. Specification: {_shown(raw)}",
                )
        return ID_INDEX
    if len(fields) == 1 and fields[0][0] == "_id":
        raise CommandError(
            Code.BadValue, f"The field 'key' for an _id index must be {{_id: 1}}, but got {_shown(key[1])}"
        )
    normal = [("v", *from_python(2)), ("key", *key), ("name", *found["name"])]
    for flag, (_, _) in found.items():
        if flag in _FLAGS and (flags[flag] or flag not in ("unique", "hidden")):
            normal.append((flag, BOOL, b"\1" if flags[flag] else b"\0"))
    return IndexSpec(
        name,
        document_from(normal),
        key[1],
        fields,
        flags.get("unique", False),
        flags.get("sparse", False),
        flags.get("hidden", False),
    )


def _key_fields(raw: bytes, key: bytes) -> tuple[tuple[str, int], ...]:
    fields: list[tuple[str, int]] = []
    for path, code, data in elements(key):
        if code == STRING:
            kind = text_of((code, data))
            if kind in _LACKING_KINDS:
                raise CommandError(Code.NotImplemented, f"indexes of the kind '{kind}' are not supported")
            raise _refused(raw, f"Unknown index plugin '{kind}'")
        if code not in NUMBERS:
            raise _refused(
                raw,
                f"Values in v:2 index key pattern cannot be of type {TYPE_NAMES[code]}. "
                "Only numbers > 0, numbers < 0, and strings are allowed.",
            )
        direction = _sign((code, data))
        if direction == 0:
            raise _refused(raw, "Values in the index key pattern cannot be 0.")
        if not path:
            raise _refused(raw, "Index keys cannot be an empty field.")
        parts = path.split(".")
        if "" in parts:
            raise _refused(raw, "Index keys cannot contain an empty field.")
        if any(part.startswith("$") for part in parts):
            if "$**" in parts:
                raise CommandError(Code.NotImplemented, "wildcard indexes are not supported")
            raise _refused(raw, "Index key contains an illegal field name: field name starts with '$'.")
        fields.append((path, direction))
    if not fields:
        raise _refused(raw, "Index keys cannot be empty.")
    if len({path for path, _ in fields}) < len(fields):
        raise _refused(raw, "Index keys cannot name a field twice.")
    return tuple(fields)


def _name(raw: bytes, value: Value | None) -> str:
    if value is None:
        raise _refused(raw, "The 'name' field is a required property of an index specification", Code.FailedToParse)
    if value[0] != STRING:
        raise _refused(raw, f"The field 'name' must be a string, but got {TYPE_NAMES[value[0]]}", Code.TypeMismatch)
    name = text_of(value)
    if not name:
        raise _refused(raw, "index name cannot be empty")
    if name == "*":
        raise CommandError(Code.BadValue, "The index name '*' is not valid.")
    return name


def _check_version(raw: bytes, value: Value | None) -> None:
    if value is None:
        return
    if value[0] not in NUMBERS:
        raise _refused(raw, f"The field 'v' must be a number, but got {TYPE_NAMES[value[0]]}", Code.TypeMismatch)
    version = _number(value)
    if version not in (1, 2):
        raise _refused(raw, f"Invalid index specification {_shown(raw)}; cannot create an index with v={version:g}")


def _flag(raw: bytes, name: str, value: Value) -> bool:
    if value[0] == BOOL:
        return value[1] == b"\1"
    if value[0] in NUMBERS:
        return _sign(value) != 0
    raise _refused(
        raw,
        f"The field '{name} has value {name}: {display(value)}, which is not convertible to bool",
        Code.TypeMismatch,
    )


def _number(value: Value) -> float:
    code, data = value
    if code == INT32:
        return int(struct.unpack("<i", data)[0])
    if code == INT64:
        return int(struct.unpack("<q", data)[0])
    if code == DOUBLE:
        return float(struct.unpack("<d", data)[0])
    assert code == DECIMAL
    return float(display(value))


def _sign(value: Value) -> int:
    number = _number(value)
    return (number > 0) - (number < 0)


def _shown(raw: bytes) -> str:
    return display((OBJECT, raw))


def _refused(raw: bytes, reason: str, code: Code | int = Code.CannotCreateIndex) -> CommandError:
    return CommandError(code, f"Error in specification {_shown(raw)} :: caused by :: {reason}")


ID_INDEX = IndexSpec(
    ID_INDEX_NAME,
    document_from(
        [
            ("v", *from_python(2)),
            ("key", OBJECT, document_from([("_id", *from_python(1))])),
            ("name", STRING, b"\x05\0\0\0_id_\0"),
        ]
    ),
    document_from([("_id", *from_python(1))]),
    (("_id", 1),),
    unique=True,
)
"""The index that every collection has. It is unique without saying so."""
