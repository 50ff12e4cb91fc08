"""What an index is to be: a specification parsed from the `createIndexes` form, with the reference's refusals.

Kinds: ascending and descending keys over dotted paths, hashed ones, wildcard indexes (`$**`), and those of geometry
(`2d`, `2dsphere`, `docstore.collection.index.geo_options`) and of words (`text`,
`docstore.collection.index.text_options`). Options: `unique`, `sparse`, `hidden`, `partialFilterExpression`,
`expireAfterSeconds`, `wildcardProjection`, and `background`, which has had no meaning since 4.2 and is only kept. What
MongoDB has and this server lacks is refused by name; what neither has is refused as MongoDB does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isnan

from docstore.bson import BOOL, OBJECT, STRING, Value, document_from, elements, from_python
from docstore.collection.index.geo_options import SPECIAL_KINDS, SPECIAL_OPTIONS, check_type, geometry_of, kept_special
from docstore.collection.index.options import (
    collation_of,
    expire_seconds,
    number_of,
    partial_filter,
    refused,
    shown,
    wildcard_paths,
)
from docstore.collection.index.text_options import TextIndexSpec, words_of
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.tree import Filter
from docstore.query.geo.cell_keys import GeoKeys, SphereKeys
from docstore.query.plan.wildcard import WildcardPaths
from docstore.query.text.terms import TextKeys
from docstore.query.value.collation import Collation
from docstore.query.value.values import NUMBERS, TYPE_NAMES, display, text_of

ID_INDEX_NAME = "_id_"
MAX_INDEXES = 64
MAX_KEY_FIELDS = 32

_INVALID_OPTION = 197  # InvalidIndexSpecificationOption
_FLAGS = frozenset(("unique", "sparse", "hidden", "background"))
_ORDER = (
    "background",
    "unique",
    "hidden",
    "partialFilterExpression",
    "sparse",
    "expireAfterSeconds",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "wildcardProjection",
    "collation",
    "coarsestIndexedLevel",
    "finestIndexedLevel",
)
"""The options that are kept, in the order in which they are listed."""
_DROPPED = frozenset(("ns", "dropDups"))
"""What old clients say and no server has heard since."""
_LACKING = frozenset(
    (
        "storageEngine",
        "prepareUnique",
        "clustered",
        "originalSpec",
    )
)
_KNOWN = _FLAGS | _DROPPED | _LACKING | SPECIAL_OPTIONS | frozenset(_ORDER) | {"v", "key", "name"}
_REFERENCES = frozenset(("$id", "$ref", "$db"))
_WILDCARD = "$**"
_SPHERE_VERSION = "2dsphereIndexVersion"


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """A checked specification.

    `raw` is the document as `listIndexes` shows it and the oplog carries it; `key` the key pattern in it, with the
    directions as they were given; `fields` the same as (dotted path, 1 or -1; 0 for a field of another kind).
    `partial` is the filter of a partial index, `expire_after` in seconds; `wildcard`, `geometry` and `words` are what
    an index of that kind holds. `others` are the special options that it was given, whether it has a use for them or
    not.
    """

    name: str
    raw: bytes
    key: bytes
    fields: tuple[tuple[str, int], ...]
    unique: bool = False
    sparse: bool = False
    hidden: bool = False
    partial: Filter | None = None
    wildcard: WildcardPaths | None = None
    expire_after: int | None = None
    collation: Collation | None = None
    geometry: GeoKeys | None = None
    words: TextKeys | None = None
    others: tuple[tuple[str, bytes], ...] = ()

    @property
    def over_values(self) -> bool:
        """Whether its keys are the values of its paths or their hashes: no wildcard, geometry or words."""
        return self.wildcard is None and self.geometry is None and self.words is None

    @property
    def hashed(self) -> bool:
        return self.over_values and any(direction == 0 for _, direction in self.fields)

    def holds_the_same(self, other: IndexSpec) -> bool:
        """Whether both would hold the same entries under the same rule: key, uniqueness, and which documents."""
        return (
            encode_key((OBJECT, self.key)) == encode_key((OBJECT, other.key))
            and self.unique == other.unique
            and self.sparse == other.sparse
            and self.partial == other.partial
            and self.wildcard == other.wildcard
            and self.collation == other.collation
        )

    def with_hidden(self, hidden: bool) -> IndexSpec:
        """The same index, hidden from the planner or not."""
        return replace(self, raw=_with(self.raw, "hidden", (BOOL, b"\1") if hidden else None), hidden=hidden)

    def with_expire_after(self, seconds: int) -> IndexSpec:
        """The same index, whose documents expire after so many seconds."""
        return replace(self, raw=_with(self.raw, "expireAfterSeconds", from_python(seconds)), expire_after=seconds)


def parse_index_spec(
    raw: bytes, *, ignore_unknown: bool = False, default_collation: Collation | None = None
) -> IndexSpec:
    """A specification from `{key, name, ...}`; CommandError with the reference's code when it is refused.

    `ignore_unknown`: options that no server knows are left out. `default_collation` is that of an index which names
    none: its collection's.
    """
    found = _checked_fields(raw, ignore_unknown)
    fields = _key_fields(raw, found["key"][1])
    name = text_of(found["name"])
    if fields == (("_id", 1),) and encode_key(found["key"]) == encode_key((OBJECT, ID_INDEX.key)):
        _check_id_index(raw, found)
        return id_index(collation_of(raw, found["collation"]) if "collation" in found else default_collation)
    _check_name(raw, name, found["key"])
    expire_after = (
        expire_seconds(raw, found["expireAfterSeconds"], len(fields)) if "expireAfterSeconds" in found else None
    )
    flags = {flag: _is_set(found[flag]) for flag in _FLAGS & found.keys()}
    collation = collation_of(raw, found.pop("collation")) if "collation" in found else default_collation
    filtering = found.get("partialFilterExpression")
    partial = None if filtering is None else partial_filter(raw, filtering, collation)
    if partial is not None and flags.get("sparse"):
        raise refused(raw, 'cannot mix "partialFilterExpression" and "sparse" options')
    geometry = geometry_of(raw, found["key"][1], found, collation)
    words = words_of(raw, found["key"][1], fields, found, collation)
    if words is not None:
        fields, found["key"] = words.fields, (OBJECT, words.key)
    wildcard = _wildcard_of(raw, found, fields, flags)
    _check_build(raw, fields, wildcard or geometry or words, flags)
    special = _special_options(found, geometry, words)
    kept: dict[str, Value] = {flag: (BOOL, b"\1" if flags[flag] else b"\0") for flag in flags}
    kept |= special
    kept |= {option: found[option] for option in ("partialFilterExpression", "wildcardProjection") if option in found}
    if collation is not None:
        kept["collation"] = (OBJECT, collation.raw)
    if expire_after is not None:
        kept["expireAfterSeconds"] = from_python(expire_after)
    for flag in ("unique", "hidden"):
        if not flags.get(flag):
            kept.pop(flag, None)
    version = 1 if "v" in found and number_of(found["v"]) == 1 else 2
    head = [("v", *from_python(version)), ("key", *found["key"]), ("name", *found["name"])]
    return IndexSpec(
        name,
        document_from(head + [(option, *kept[option]) for option in _ORDER if option in kept]),
        found["key"][1],
        fields,
        flags.get("unique", False),
        flags.get("sparse", False),
        flags.get("hidden", False),
        partial,
        wildcard,
        expire_after,
        collation,
        geometry,
        None if words is None else words.keys,
        tuple(sorted((option, encode_key(value)) for option, value in special.items() if option != _SPHERE_VERSION)),
    )


def _special_options(
    found: dict[str, Value], geometry: GeoKeys | None, words: TextIndexSpec | None
) -> dict[str, Value]:
    """The options that only special indexes have, with those that such an index has without saying so."""
    special = kept_special(found) | dict(words.options if words is not None else {})
    if isinstance(geometry, SphereKeys):
        special[_SPHERE_VERSION] = from_python(geometry.version)
    return special


def _checked_fields(raw: bytes, ignore_unknown: bool) -> dict[str, Value]:
    """The options by name, each of the right type; key and name are there."""
    found: dict[str, Value] = {}
    for name, code, data in elements(raw):
        value = (code, data)
        if name not in _KNOWN:
            if ignore_unknown:
                continue
            raise refused(raw, f"The field '{name}' is not valid for an index specification.", _INVALID_OPTION)
        if name == "key" and code != OBJECT:
            raise refused(raw, f"The field 'key' must be an object, but got {TYPE_NAMES[code]}", Code.TypeMismatch)
        if name == "key":
            _key_fields(raw, data)
        elif name == "name" and code != STRING:
            raise refused(raw, f"The field 'name' must be a string, but got {TYPE_NAMES[code]}", Code.TypeMismatch)
        elif name == "v":
            _check_version(raw, value)
        elif name in SPECIAL_OPTIONS:
            check_type(raw, name, value)
        elif name in _FLAGS:
            _check_flag(raw, name, value)
        elif name == "collation":
            collation_of(raw, value)
        elif name == "partialFilterExpression":
            partial_filter(raw, value)
        found[name] = value
    for name in ("key", "name"):
        if name not in found:
            raise refused(
                raw, f"The '{name}' field is a required property of an index specification", Code.FailedToParse
            )
    for name in sorted(_LACKING & found.keys()):
        raise CommandError(Code.NotImplemented, f"indexes with the option '{name}' are not supported")
    return found


def _key_fields(raw: bytes, key: bytes) -> tuple[tuple[str, int], ...]:
    fields: list[tuple[str, int]] = []
    plugin: str | None = None
    for path, code, data in elements(key):
        direction = _direction(raw, path, (code, data))
        if code == STRING:
            kind = text_of((code, data))
            if plugin is not None and plugin != kind:
                raise refused(raw, "Can't use more than one index plugin for a single index.")
            plugin = kind
        is_wildcard = path == _WILDCARD or path.endswith("." + _WILDCARD)
        names = path.split(".")
        if not path:
            raise refused(raw, "Index keys cannot be an empty field.")
        if "" in names:
            raise refused(raw, "Index keys cannot contain an empty field.")
        named = names[:-1] if is_wildcard and (plugin is None or (plugin == "text" and len(names) == 1)) else names
        if any(name.startswith("$") and (place == 0 or name not in _REFERENCES) for place, name in enumerate(named)):
            raise refused(raw, "Index key contains an illegal field name: field name starts with '$'.")
        if is_wildcard and direction < 0:
            raise refused(raw, "A numeric value in a $** index key pattern must be positive.")
        fields.append((path, 0 if is_wildcard else direction))
    if not fields:
        raise refused(raw, "Index keys cannot be empty.")
    if plugin != "text" and len(fields) > 1 and any(path.split(".")[-1] == _WILDCARD for path, _ in fields):
        raise refused(raw, "wildcard indexes do not allow compounding")
    if len({path for path, _ in fields}) < len(fields):
        raise refused(raw, "Index keys cannot name a field twice.")
    return tuple(fields)


def _direction(raw: bytes, path: str, value: Value) -> int:
    """1 or -1, and 0 for a hashed field."""
    code = value[0]
    if code == STRING:
        kind = text_of(value)
        if not kind:
            raise refused(raw, "Values in the index key pattern cannot be empty strings")
        if kind == "wildcard":
            raise refused(raw, "The key pattern value for a 'wildcard' index must be a non-zero number, not a string.")
        if kind == "geoHaystack":
            raise refused(raw, "GeoHaystack indexes cannot be created in version 5.0 and above")
        if kind != "hashed" and kind not in SPECIAL_KINDS:
            raise refused(raw, f"Unknown index plugin '{kind}'")
        return 0
    if code not in NUMBERS:
        raise refused(
            raw,
            f"Values in v:2 index key pattern cannot be of type {TYPE_NAMES[code]}. "
            "Only numbers > 0, numbers < 0, and strings are allowed.",
        )
    number = number_of(value)
    if number == 0 or isnan(number):
        raise refused(raw, f"Values in the index key pattern cannot be {'NaN' if isnan(number) else 0}.")
    return 1 if number > 0 else -1


def _check_version(raw: bytes, value: Value) -> None:
    if value[0] not in NUMBERS:
        raise refused(raw, f"The field 'v' must be a number, but got {TYPE_NAMES[value[0]]}", Code.TypeMismatch)
    version = number_of(value)
    if version != version // 1:
        raise refused(raw, "Index version must be representable as a 32-bit integer", Code.BadValue)
    if version not in (1, 2):
        raise refused(raw, f"Invalid index specification {shown(raw)}; cannot create an index with v={version:g}")


def _check_flag(raw: bytes, name: str, value: Value) -> None:
    if value[0] == BOOL or (value[0] in NUMBERS and name != "hidden"):
        return
    raise refused(
        raw,
        f"The field '{name} has value {name}: {display(value)}, which is not convertible to bool",
        Code.TypeMismatch,
    )


def _is_set(value: Value) -> bool:
    return value[1] == b"\1" if value[0] == BOOL else number_of(value) != 0


def _check_id_index(raw: bytes, found: dict[str, Value]) -> None:
    for option in found:
        if option not in ("v", "key", "name", "collation", "ns"):
            raise CommandError(
                _INVALID_OPTION, f"The field '{option}' is not valid for an _id index specification. {shown(raw)}"
            )


def _check_name(raw: bytes, name: str, key: Value) -> None:
    first = elements(key[1])[0]
    if len(elements(key[1])) == 1 and first[0] == "_id" and first[1] in NUMBERS and number_of(first[1:]) == -1:
        raise CommandError(
            Code.BadValue, f"The field 'key' for an _id index must be {{_id: 1}}, but got {shown(key[1])}"
        )
    if name == ID_INDEX_NAME:
        raise CommandError(Code.BadValue, "The index name '_id_' is reserved for the _id index")
    if name == "*":
        raise CommandError(Code.BadValue, "The index name '*' is not valid.")
    if not name:
        raise refused(raw, "index name cannot be empty")


def _wildcard_of(
    raw: bytes, found: dict[str, Value], fields: tuple[tuple[str, int], ...], flags: dict[str, bool]
) -> WildcardPaths | None:
    path = fields[0][0]
    projection = found.get("wildcardProjection")
    if path.split(".")[-1] != _WILDCARD:
        if projection is not None:
            raise refused(raw, "The field 'wildcardProjection' is only allowed in a 'wildcard' index", Code.BadValue)
        return None
    for option in ("unique", "sparse"):
        if flags.get(option):
            raise refused(raw, f"Index type 'wildcard' does not support the {option} option")
    if "expireAfterSeconds" in found:
        raise refused(raw, "Index type 'wildcard' cannot be a TTL index")
    if "v" in found and number_of(found["v"]) == 1:
        raise refused(raw, "'wildcard' index plugin is not allowed with index version v:1")
    return wildcard_paths(raw, path, projection)


def _check_build(
    raw: bytes,
    fields: tuple[tuple[str, int], ...],
    other: WildcardPaths | GeoKeys | TextIndexSpec | None,
    flags: dict[str, bool],
) -> None:
    """What the reference refuses only when it begins to build. `other`: what the index holds that is not hashed."""
    hashed = 0 if other is not None else sum(direction == 0 for _, direction in fields)
    if hashed > 1:
        raise refused(raw, "a compound hashed index has one hashed field", 31303)
    if hashed and flags.get("unique"):
        raise refused(raw, "hashed indexes cannot guarantee uniqueness", 16764)
    if len(fields) > MAX_KEY_FIELDS:
        raise refused(raw, "too many compound keys", 13103)


def _with(raw: bytes, option: str, value: Value | None) -> bytes:
    """The listed form with another value for one of its options."""
    kept = {name: (code, data) for name, code, data in elements(raw)}
    kept.pop(option, None)
    if value is not None:
        kept[option] = value
    return document_from([(name, *kept[name]) for name in ("v", "key", "name", *_ORDER) if name in kept])


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


def id_index(collation: Collation | None) -> IndexSpec:
    """The `_id` index of a collection with that collation."""
    if collation is None:
        return ID_INDEX
    raw = document_from([*elements(ID_INDEX.raw), ("collation", OBJECT, collation.raw)])
    return replace(ID_INDEX, raw=raw, collation=collation)
