"""Index specifications, parsed from the `createIndexes` form with the reference's errors.

Kinds: ascending and descending keys over dotted paths, hashed, wildcard (`$**`), geo (`2d`, `2dsphere`,
`docstore.collection.index.geo_options`) and text (`docstore.collection.index.text_options`). Options: `unique`,
`sparse`, `hidden`, `partialFilterExpression`, `expireAfterSeconds`, `wildcardProjection`, and `background`, which is
stored but has had no effect since 4.2. Options that MongoDB has and this server lacks are refused by name; unknown ones
as MongoDB does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from docstore.bson import BOOL, OBJECT, STRING, Value, document_from, elements, from_python, get_field
from docstore.collection.index.geo_options import check_type, geometry_of, kept_special
from docstore.collection.index.key_fields import is_wildcard, key_fields
from docstore.collection.index.options import (
    collation_of,
    document_text,
    expire_seconds,
    number_of,
    partial_filter,
    refused,
    wildcard_paths,
)
from docstore.collection.index.text_options import TextIndexSpec, text_index_of
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.filter.tree import Filter
from docstore.query.geo.cell_keys import GeoKeys, SphereKeys
from docstore.query.plan.wildcard import WildcardPaths
from docstore.query.text.terms import TextKeys
from docstore.query.value.collation import Collation
from docstore.query.value.notation import display
from docstore.query.value.values import NUMBERS, TYPE_NAMES, text_of

ID_INDEX_NAME = "_id_"
MAX_INDEXES = 64
MAX_KEY_FIELDS = 32

_INVALID_OPTION = 197  # InvalidIndexSpecificationOption
_FLAGS = frozenset(("unique", "sparse", "hidden", "background"))
_SHOWN_IF_SET = ("unique", "hidden")
_LACKING = frozenset(("storageEngine", "prepareUnique", "originalSpec"))
_SPHERE_VERSION = "2dsphereIndexVersion"
_OF_CLUSTERED = frozenset(("v", "key", "name", "unique", "clustered"))


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """A validated specification.

    `raw`: the document as in `listIndexes` and the oplog. `key`: its key pattern, with directions as given. `fields`:
    the same as (dotted path, 1 or -1; 0 for a field of another kind).
    `partial`: the filter of a partial index. `expire_after`: seconds. `wildcard`, `geometry`, `text`: the key generator
    of such an index. `other_options`: the geo and text options that were given, used or not.
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
    text: TextKeys | None = None
    other_options: tuple[tuple[str, bytes], ...] = ()
    clustered: bool = False

    @property
    def is_id(self) -> bool:
        """True for the index over `_id` that every collection has."""
        return self.clustered or self.name == ID_INDEX_NAME

    @property
    def over_values(self) -> bool:
        """True if its keys are values or hashes of its paths: not wildcard, geo or text."""
        return self.wildcard is None and self.geometry is None and self.text is None

    @property
    def hashed(self) -> bool:
        return self.over_values and any(direction == 0 for _, direction in self.fields)

    def holds_the_same(self, other: IndexSpec) -> bool:
        """True if both would have the same entries under the same rules: key, uniqueness, coverage and collation."""
        return (
            encode_key((OBJECT, self.key)) == encode_key((OBJECT, other.key))
            and self.unique == other.unique
            and self.sparse == other.sparse
            and self.partial == other.partial
            and self.wildcard == other.wildcard
            and self.collation == other.collation
        )

    def with_hidden(self, hidden: bool) -> IndexSpec:
        """Return the same index, hidden from the planner or not."""
        return replace(self, raw=_with(self.raw, "hidden", (BOOL, b"\1") if hidden else None), hidden=hidden)

    def with_expire_after(self, seconds: int) -> IndexSpec:
        """Return the same index with this expiry in seconds."""
        return replace(self, raw=_with(self.raw, "expireAfterSeconds", from_python(seconds)), expire_after=seconds)


def parse_index_spec(
    raw: bytes, *, ignore_unknown: bool = False, default_collation: Collation | None = None
) -> IndexSpec:
    """Parse `{key, name, ...}`. Errors: CommandError with the reference's code.

    `ignore_unknown`: drop options that no server knows. `default_collation`: the collection's, for an index that names
    none.
    """
    options = _checked_options(raw, ignore_unknown)
    key, name = options["key"], text_of(options["name"])
    fields = key_fields(raw, key[1])
    if "clustered" in options:
        return _clustered_spec(raw, options, fields, default_collation)
    if fields == (("_id", 1),) and encode_key(key) == encode_key((OBJECT, ID_INDEX.key)):
        _check_id_index(raw, options)
        return id_index(_collation_of(raw, options, default_collation))
    _check_name(raw, name, key)
    expire_after = (
        expire_seconds(raw, options["expireAfterSeconds"], len(fields)) if "expireAfterSeconds" in options else None
    )
    flags = {flag: _is_set(options[flag]) for flag in _FLAGS & options.keys()}
    collation = _collation_of(raw, options, default_collation)
    partial = _partial_of(raw, options, flags, collation)
    geometry = geometry_of(raw, key[1], options, collation)
    text = text_index_of(raw, key[1], fields, options, collation)
    if text is not None:
        fields, key = text.fields, (OBJECT, text.key)
    wildcard = _wildcard_of(raw, options, fields, flags)
    _check_build(raw, fields, wildcard or geometry or text, flags)
    special = _special_options(options, geometry, text)
    listed = {flag: (BOOL, b"\1" if on else b"\0") for flag, on in flags.items() if on or flag not in _SHOWN_IF_SET}
    listed |= special | {name: options[name] for name in _LISTED_AS_GIVEN & options.keys()}
    if collation is not None:
        listed["collation"] = (OBJECT, collation.raw)
    if expire_after is not None:
        listed["expireAfterSeconds"] = from_python(expire_after)
    listed |= {"v": from_python(_version_of(options)), "key": key, "name": options["name"]}
    return IndexSpec(
        name,
        _listed(listed),
        key[1],
        fields,
        flags.get("unique", False),
        flags.get("sparse", False),
        flags.get("hidden", False),
        partial,
        wildcard,
        expire_after,
        collation,
        geometry,
        None if text is None else text.keys,
        tuple(sorted((option, encode_key(value)) for option, value in special.items() if option != _SPHERE_VERSION)),
    )


def _clustered_spec(
    raw: bytes, options: dict[str, Value], fields: tuple[tuple[str, int], ...], collation: Collation | None
) -> IndexSpec:
    """Return the specification of a cluster key. Errors: CannotCreateIndex, InvalidIndexSpecificationOption, 6243700,
    6492800.
    """
    if not _is_set(options["clustered"]):
        raise refused(raw, "Value 'false' for field 'clustered' is invalid", 6492800)
    if options.get("unique") != (BOOL, b"\1"):
        raise refused(raw, "The 'unique' field is required when 'clustered' is specified")
    for option in options:
        if option not in _OF_CLUSTERED:
            text = f"The field '{option}' is not valid for a clustered index specification."
            raise refused(raw, f"{text} Specification: {document_text(raw)}", _INVALID_OPTION)
    if fields != (("_id", 1),):
        raise no_such_cluster(raw)
    name = options["name"]
    return id_index(collation, document_from([("v", *from_python(2)), ("key", *options["key"]), ("name", *name)]))


def no_such_cluster(raw: bytes) -> CommandError:
    """Return the error for the specification of a cluster key that the collection does not have."""
    reason = "Cannot create index with option 'clustered' that does not match an existing clustered index"
    return refused(raw, reason, 6243700)


def _collation_of(raw: bytes, options: dict[str, Value], default: Collation | None) -> Collation | None:
    return collation_of(raw, options["collation"]) if "collation" in options else default


def _partial_of(
    raw: bytes, options: dict[str, Value], flags: dict[str, bool], collation: Collation | None
) -> Filter | None:
    if "partialFilterExpression" not in options:
        return None
    partial = partial_filter(raw, options["partialFilterExpression"], collation)
    if flags.get("sparse"):
        raise refused(raw, 'cannot mix "partialFilterExpression" and "sparse" options')
    return partial


def _special_options(
    options: dict[str, Value], geometry: GeoKeys | None, text: TextIndexSpec | None
) -> dict[str, Value]:
    """Return the options of geo and text indexes, with the implied defaults."""
    special = kept_special(options) | dict(text.options if text is not None else {})
    if isinstance(geometry, SphereKeys):
        special[_SPHERE_VERSION] = from_python(geometry.version)
    return special


def _checked_options(raw: bytes, ignore_unknown: bool) -> dict[str, Value]:
    """Return the options by name, each of a valid type; key and name are present."""
    options: dict[str, Value] = {}
    for name, code, data in elements(raw):
        check = _OPTIONS.get(name)
        if check is not None:
            check(raw, name, (code, data))
            options[name] = (code, data)
        elif not ignore_unknown:
            raise refused(raw, f"The field '{name}' is not valid for an index specification.", _INVALID_OPTION)
    for name in ("key", "name"):
        if name not in options:
            raise refused(
                raw, f"The '{name}' field is a required property of an index specification", Code.FailedToParse
            )
    for name in sorted(_LACKING & options.keys()):
        raise CommandError(Code.NotImplemented, f"indexes with the option '{name}' are not supported")
    return options


def _check_key(raw: bytes, name: str, value: Value) -> None:
    if value[0] != OBJECT:
        raise refused(raw, f"The field 'key' must be an object, but got {TYPE_NAMES[value[0]]}", Code.TypeMismatch)
    key_fields(raw, value[1])


def _check_string(raw: bytes, name: str, value: Value) -> None:
    if value[0] != STRING:
        raise refused(raw, f"The field '{name}' must be a string, but got {TYPE_NAMES[value[0]]}", Code.TypeMismatch)


def _check_version(raw: bytes, name: str, value: Value) -> None:
    if value[0] not in NUMBERS:
        raise refused(raw, f"The field 'v' must be a number, but got {TYPE_NAMES[value[0]]}", Code.TypeMismatch)
    version = number_of(value)
    if version != version // 1:
        raise refused(raw, "Index version must be representable as a 32-bit integer", Code.BadValue)
    if version not in (1, 2):
        raise refused(
            raw, f"Invalid index specification {document_text(raw)}; cannot create an index with v={version:g}"
        )


def _version_of(options: dict[str, Value]) -> int:
    return 1 if "v" in options and number_of(options["v"]) == 1 else 2


def _check_flag(raw: bytes, name: str, value: Value) -> None:
    if value[0] == BOOL or (value[0] in NUMBERS and name != "hidden"):
        return
    raise refused(
        raw,
        f"The field '{name} has value {name}: {display(value)}, which is not convertible to bool",
        Code.TypeMismatch,
    )


def _check_partial(raw: bytes, name: str, value: Value) -> None:
    partial_filter(raw, value)


def _check_collation(raw: bytes, name: str, value: Value) -> None:
    collation_of(raw, value)


def _check_later(raw: bytes, name: str, value: Value) -> None:
    """Accept the value here: the option is checked together with others, refused in any case, or has no effect."""


_OPTIONS: dict[str, Callable[[bytes, str, Value], None]] = {
    # Stored options, in the order in which they are listed.
    "v": _check_version,
    "key": _check_key,
    "name": _check_string,
    "background": _check_flag,
    "unique": _check_flag,
    "hidden": _check_flag,
    "partialFilterExpression": _check_partial,
    "sparse": _check_flag,
    "expireAfterSeconds": _check_later,
    "weights": check_type,
    "default_language": check_type,
    "language_override": check_type,
    "textIndexVersion": check_type,
    "2dsphereIndexVersion": check_type,
    "bits": check_type,
    "min": check_type,
    "max": check_type,
    "wildcardProjection": _check_later,
    "collation": _check_collation,
    "coarsestIndexedLevel": check_type,
    "finestIndexedLevel": check_type,
    # Options that old clients send and servers ignore.
    "ns": _check_later,
    "dropDups": _check_flag,
    "_id": _check_later,
    "clustered": _check_flag,
    **dict.fromkeys(_LACKING, _check_later),
}
"""All options, each with its check (specification, name, value), which raises if the value alone is invalid."""
_LISTED_AS_GIVEN = frozenset(("partialFilterExpression", "wildcardProjection"))


def _is_set(value: Value) -> bool:
    return value[1] == b"\1" if value[0] == BOOL else number_of(value) != 0


def _check_id_index(raw: bytes, options: dict[str, Value]) -> None:
    for option in options:
        if option not in ("v", "key", "name", "collation", "ns"):
            raise CommandError(
                _INVALID_OPTION,
                f"The field '{option}' is not valid for an _id index specification. {document_text(raw)}",
            )


def _check_name(raw: bytes, name: str, key: Value) -> None:
    first = elements(key[1])[0]
    if len(elements(key[1])) == 1 and first[0] == "_id" and first[1] in NUMBERS and number_of(first[1:]) == -1:
        raise CommandError(
            Code.BadValue, f"The field 'key' for an _id index must be {{_id: 1}}, but got {document_text(key[1])}"
        )
    if name == ID_INDEX_NAME:
        raise CommandError(Code.BadValue, "The index name '_id_' is reserved for the _id index")
    if name == "*":
        raise CommandError(Code.BadValue, "The index name '*' is not valid.")
    if not name:
        raise refused(raw, "index name cannot be empty")


def _wildcard_of(
    raw: bytes, options: dict[str, Value], fields: tuple[tuple[str, int], ...], flags: dict[str, bool]
) -> WildcardPaths | None:
    path = next((path for path, _ in fields if is_wildcard(path)), None)
    projection = options.get("wildcardProjection")
    if path is None or any(value == STRING for _, value, _ in elements(options["key"][1])):
        if projection is not None:
            raise refused(raw, "The field 'wildcardProjection' is only allowed in a 'wildcard' index", Code.BadValue)
        return None
    for option in ("unique", "sparse"):
        if flags.get(option):
            raise refused(raw, f"Index type 'wildcard' does not support the {option} option")
    if "expireAfterSeconds" in options:
        raise refused(raw, "Index type 'wildcard' cannot be a TTL index")
    if _version_of(options) == 1:
        raise refused(raw, "'wildcard' index plugin is not allowed with index version v:1")
    paths = wildcard_paths(raw, path, projection)
    plain_paths = [path for path, _ in fields if not is_wildcard(path)]
    if plain_paths and path == "$**" and projection is None:
        raise refused(raw, "compound wildcard indexes on all paths need a 'wildcardProjection'", Code.FailedToParse)
    for other in plain_paths:
        if paths.holds(other) or paths.holds(other, with_subtree=True):
            raise refused(raw, f"the 'wildcardProjection' must leave out the field '{other}'", Code.FailedToParse)
    return paths


def check_no_compound_wildcard(specs: Iterable[IndexSpec]) -> None:
    """Errors: CannotCreateIndex if the emulated server version has no compound wildcard indexes."""
    for spec in specs:
        if spec.wildcard is not None and len(spec.fields) > 1:
            raise refused(spec.raw, "wildcard indexes do not allow compounding")


def _check_build(
    raw: bytes,
    fields: tuple[tuple[str, int], ...],
    other: WildcardPaths | GeoKeys | TextIndexSpec | None,
    flags: dict[str, bool],
) -> None:
    """Check the limits that the reference checks only when a build starts.

    `other`: the key generator of an index that is not hashed.
    """
    hashed = 0 if other is not None else sum(direction == 0 for _, direction in fields)
    if hashed > 1:
        raise refused(raw, "a compound hashed index has one hashed field", 31303)
    if hashed and flags.get("unique"):
        raise refused(raw, "hashed indexes cannot guarantee uniqueness", 16764)
    if len(fields) > MAX_KEY_FIELDS:
        raise refused(raw, "too many compound keys", 13103)


def _with(raw: bytes, option: str, value: Value | None) -> bytes:
    """Return the listed form with one option replaced or removed."""
    options = {name: (code, data) for name, code, data in elements(raw) if name != option}
    return _listed(options if value is None else options | {option: value})


def _listed(options: dict[str, Value]) -> bytes:
    return document_from([(name, *options[name]) for name in _OPTIONS if name in options])


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
"""The `_id` index. It is unique without the option."""


def id_index(collation: Collation | None, clustered: bytes | None = None) -> IndexSpec:
    """Return the `_id` index of a collection with that collation. `clustered`: the raw cluster key of its options."""
    rules = [] if collation is None else [("collation", OBJECT, collation.raw)]
    if clustered is None:
        if collation is None:
            return ID_INDEX
        return replace(ID_INDEX, raw=document_from([*elements(ID_INDEX.raw), *rules]), collation=collation)
    name = get_field(clustered, "name")
    assert name is not None, "a clustered index has a name"
    raw = document_from([*elements(clustered), *rules, ("clustered", BOOL, b"\1")])
    return replace(ID_INDEX, name=text_of(name), raw=raw, collation=collation, clustered=True)
