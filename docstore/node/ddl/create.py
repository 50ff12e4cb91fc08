"""The options of `create`, validated and converted to their stored form."""

from __future__ import annotations

from bson.int64 import Int64

from docstore.bson import (
    EMPTY_DOCUMENT,
    Value,
    document_from,
    document_to_python,
    elements,
    from_python,
    get_field,
    to_python,
)
from docstore.bson.walk import BOOL, OBJECT
from docstore.collection.catalog.options import CollectionOptions, capped_maximum, capped_size, options_from
from docstore.collection.catalog.views import SYSTEM_VIEWS, ViewDefinition
from docstore.collection.index.spec import ID_INDEX_NAME, parse_index_spec
from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.declaration import Parameter, Type
from docstore.commands.values import wrong_type
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.node import DataNode
from docstore.node.read.views import checked_definition
from docstore.node.upkeep.profiler import SYSTEM_PROFILE
from docstore.node.write.driver import check_writable
from docstore.node.write.validators import check_validator
from docstore.query.value.collation import Collation, parse_collation
from docstore.query.value.notation import display
from docstore.query.value.option_fields import option_fields
from docstore.query.value.values import FALSE, NUMBERS

LEVELS = ("off", "strict", "moderate")
ACTIONS = ("error", "warn")

_IMAGES = declared(Parameter("enabled", Type.BOOL, required=True))
_CLUSTERED = declared(
    Parameter("v", Type.INT, default=2),
    Parameter("key", Type.OBJECT, required=True),
    Parameter("name", Type.STRING, default=ID_INDEX_NAME),
    Parameter("unique", Type.SAFE_BOOL, required=True),
)


def created_options(node: DataNode, arguments: Arguments, namespace: str) -> CollectionOptions:
    """Return the options of the new collection. Errors: InvalidOptions, BadValue, those of the validator's filter."""
    check_create(arguments, namespace)
    fields: dict[str, Value] = {}
    clustered = _clustered_index(arguments)
    if clustered is not None:
        fields["clusteredIndex"] = (OBJECT, clustered)
        if arguments["expireAfterSeconds"] is not None:
            fields["expireAfterSeconds"] = from_python(Int64(checked_expiry(node, arguments["expireAfterSeconds"])))
    if arguments["capped"]:
        fields["capped"] = (BOOL, b"\1")
        fields["size"] = from_python(capped_size(arguments["size"]))
        if arguments["max"] is not None:
            fields["max"] = from_python(capped_maximum(arguments["max"]))
    if arguments["autoIndexId"]:
        fields["autoIndexId"] = (BOOL, b"\1")
    if check_images("create", arguments, namespace):
        fields["changeStreamPreAndPostImages"] = from_python({"enabled": True})
    validator = arguments["validator"]
    if validator is not None and validator != EMPTY_DOCUMENT:
        check_validator(node, validator)
        fields["validator"] = (OBJECT, validator)
    for name, allowed in (("validationLevel", LEVELS), ("validationAction", ACTIONS)):
        if arguments[name] is not None:
            fields[name] = from_python(choice(f"create.{name}", arguments[name], allowed))
    collation = _collation(arguments)
    if collation is not None:
        fields["collation"] = (OBJECT, collation.raw)
    return options_from(fields.items())


def created_view(node: DataNode, arguments: Arguments, namespace: str) -> ViewDefinition | None:
    """Return the definition of the new view; None without `viewOn`.

    Errors: InvalidOptions, those of `checked_definition`.
    """
    on = arguments["viewOn"]
    if on is None:
        if arguments["pipeline"] is not None:
            raise CommandError(Code.InvalidOptions, "'pipeline' requires 'viewOn' to also be specified")
        return None
    if arguments["idIndex"] is not None:
        raise CommandError(Code.InvalidOptions, "'idIndex' is not allowed with 'viewOn'")
    return checked_definition(node, namespace, on, arguments["pipeline"] or (), _collation(arguments))


def _collation(arguments: Arguments) -> Collation | None:
    raw = arguments["collation"]
    return None if raw is None else parse_collation(raw, "create.collation")


def check_creatable(namespace: str) -> None:
    """Reject names reserved for the server. Errors: InvalidNamespace, BadValue."""
    name = split_namespace(namespace)[1]
    if name not in (SYSTEM_VIEWS, SYSTEM_PROFILE):
        check_writable(namespace)
    if ".system." in name and not name.startswith("system."):
        raise CommandError(Code.BadValue, f"Invalid namespace: {namespace}")


def check_create(arguments: Arguments, namespace: str) -> None:
    """Reject contradictory options, and options that no collection or view can have."""
    if arguments["capped"]:
        if arguments["size"] is None:
            raise CommandError(Code.InvalidOptions, "the 'size' field is required when 'capped' is true")
    elif arguments["size"] is not None or arguments["max"] is not None:
        raise CommandError(
            Code.InvalidOptions,
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
        )
    if arguments["autoIndexId"] is False:
        if _is_clustered(arguments):
            raise CommandError(6026501, "The 'clusteredIndex' option does not support {autoIndexId: false}")
        raise CommandError(
            50001, f"autoIndexId:false is not allowed for collection {namespace} because it can be replicated"
        )
    if arguments["expireAfterSeconds"] is not None and not _is_clustered(arguments):
        raise CommandError(
            Code.InvalidOptions,
            "'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option is "
            "specified",
        )
    _check_kind(arguments)
    if "temp" in arguments:
        raise CommandError(Code.InvalidOptions, "the 'temp' field is an invalid option")
    check_images("create", arguments, namespace)
    _check_id_index(arguments["idIndex"], arguments["collation"])
    _check_storage_engine(arguments["storageEngine"])
    defaults = arguments["indexOptionDefaults"]
    where = "create.indexOptionDefaults"
    for name, (code, data) in option_fields(where, defaults or EMPTY_DOCUMENT).items():
        if name != "storageEngine":
            raise CommandError(40415, f"BSON field '{where}.{name}' is an unknown field.")
        if code == OBJECT:
            _check_storage_engine(data)


def _check_kind(arguments: Arguments) -> None:
    """Reject options that a clustered collection cannot have."""
    if not _is_clustered(arguments):
        return
    if arguments["viewOn"] is not None:
        raise CommandError(6026500, "The 'clusteredIndex' option is not supported with views")
    if arguments["idIndex"] is not None:
        raise CommandError(
            Code.InvalidOptions, "The 'clusteredIndex' option is not supported with the 'idIndex' option"
        )
    if arguments["capped"]:
        raise CommandError(
            6127800, "Clustered capped collection only available with 'enableTestCommands' server parameter"
        )


def _is_clustered(arguments: Arguments) -> bool:
    return arguments["clusteredIndex"] not in (None, FALSE)


def _clustered_index(arguments: Arguments) -> bytes | None:
    """Return the stored specification of the clustered index, or None.

    Errors: TypeMismatch, InvalidIndexSpecificationOption, 5979700, 5979703, 5979704.
    """
    if not _is_clustered(arguments):
        return None
    code, data = arguments["clusteredIndex"]
    if code == BOOL or code in NUMBERS:
        raise CommandError(
            5979703,
            "The 'clusteredIndex' legacy format {clusteredIndex: <bool>} is only supported for specific internal "
            "collections and vice versa",
        )
    if code != OBJECT:
        raise wrong_type("create.clusteredIndex", code, "[bool]")
    fields = parse_fields("create", data, _CLUSTERED)
    key: list[tuple[str, int, bytes]] = elements(fields["key"])
    if len(key) != 1 or key[0][0] != "_id" or key[0][1] not in NUMBERS or to_python(key[0][1:]) != 1:
        raise CommandError(
            Code.InvalidIndexSpecificationOption, "The clusteredIndex option is only supported for key: {_id: 1}"
        )
    if not fields["unique"]:
        raise CommandError(5979700, "The clusteredIndex option requires unique: true to be specified")
    stored = document_from(
        [
            ("v", *from_python(fields["v"])),
            ("key", OBJECT, fields["key"]),
            ("name", *from_python(fields["name"])),
            ("unique", BOOL, b"\1"),
        ]
    )
    if fields["v"] != 2:
        raise CommandError(
            5979704,
            f"Invalid clusteredIndex specification {display((OBJECT, stored))}; cannot create a clusteredIndex with "
            f"v={fields['v']}",
        )
    return stored


def checked_expiry(node: DataNode, seconds: int) -> int:
    """Return the lifetime in seconds of the documents of a clustered collection, capped at the time since 1970.

    Errors: InvalidOptions.
    """
    if seconds < 0:
        raise CommandError(Code.InvalidOptions, "TTL index 'expireAfterSeconds' option cannot be less than 0")
    if seconds > node.wall_clock():
        raise CommandError(
            Code.InvalidOptions,
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a lower number",
        )
    return seconds


def check_images(command: str, arguments: Arguments, namespace: str) -> bool:
    """Return True if pre-images are to be recorded for change streams.

    Errors: Location40414, TypeMismatch, InvalidOptions.
    """
    images = arguments["changeStreamPreAndPostImages"]
    if images is None:
        return False
    enabled: bool = parse_fields(f"{command}.changeStreamPreAndPostImages", images, _IMAGES)["enabled"]
    db = split_namespace(namespace)[0]
    if enabled and db in ("admin", "config", "local"):
        raise CommandError(
            Code.InvalidOptions,
            f"changeStreamPreAndPostImages collection option is not supported on the {db} database",
        )
    if arguments["viewOn"] is not None:
        raise CommandError(Code.InvalidOptions, "option not supported on a view: changeStreamPreAndPostImages")
    return enabled


def choice(field: str, word: str, allowed: tuple[str, ...]) -> str:
    """Return `word` if it is an allowed word. Errors: BadValue."""
    if word not in allowed:
        raise CommandError(Code.BadValue, f"Enumeration value '{word}' for field '{field}' is not a valid value.")
    return word


def _check_id_index(spec: bytes | None, collation: bytes | None) -> None:
    """Reject an `_id` index specification that differs from the default. Errors: those of specifications, BadValue."""
    if spec is None:
        return
    key = get_field(spec, "key")
    if key is None:
        raise CommandError(Code.FailedToParse, "The 'key' field is a required property of an index specification")
    if key[0] == OBJECT and document_to_python(key[1]) != {"_id": 1}:
        raise CommandError(Code.BadValue, "The field 'key' for an _id index must be {_id: 1}")
    options = {name: (code, data) for name, code, data in elements(spec)}
    index = parse_index_spec(document_from((name, *value) for name, value in options.items() if name != "collation"))
    collation_value = options.get("collation")
    own = None if collation_value is None or collation_value[0] != OBJECT else parse_collation(collation_value[1])
    if collation_value is not None and own != (None if collation is None else parse_collation(collation)):
        raise CommandError(Code.BadValue, "'idIndex' must have the same collation as the collection.")
    assert index.name == "_id_", "an index of that key has one name"


def _check_storage_engine(raw: bytes | None) -> None:
    for name, code, _ in elements(raw or EMPTY_DOCUMENT):
        if code != OBJECT:
            raise CommandError(Code.BadValue, f"'storageEngine.{name}' has to be an embedded document.")
        raise CommandError(Code.InvalidOptions, f"{name} is not a registered storage engine for this server")
