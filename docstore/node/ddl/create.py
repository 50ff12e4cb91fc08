"""What `create` is asked for: the options of a new collection, checked and brought into the form that is stored."""

from __future__ import annotations

from docstore.bson import EMPTY_DOCUMENT, Value, document_to_python, elements, from_python, get_field
from docstore.bson.walk import BOOL, OBJECT
from docstore.collection.catalog.options import CollectionOptions, capped_maximum, capped_size, options_from
from docstore.collection.catalog.views import SYSTEM_VIEWS, ViewDefinition
from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.declaration import Parameter, Type
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.node.node import DataNode
from docstore.node.read.views import checked_definition
from docstore.node.upkeep.profiler import SYSTEM_PROFILE
from docstore.node.write.driver import check_writable
from docstore.node.write.validators import check_validator
from docstore.query.value.collation import Collation, parse_collation

LEVELS = ("off", "strict", "moderate")
ACTIONS = ("error", "warn")

_IMAGES = declared(Parameter("enabled", Type.BOOL, required=True))
_TIME_SERIES = declared(
    Parameter("timeField", Type.STRING, required=True),
    Parameter("metaField", Type.STRING),
    Parameter("granularity", Type.STRING),
    Parameter("bucketMaxSpanSeconds", Type.INT),
)
_CLUSTERED = declared(
    Parameter("v", Type.INT),
    Parameter("key", Type.OBJECT, required=True),
    Parameter("name", Type.STRING),
    Parameter("unique", Type.SAFE_BOOL, required=True),
)


def created_options(node: DataNode, arguments: Arguments, namespace: str) -> CollectionOptions:
    """The options of the collection to be made. Errors: InvalidOptions, BadValue, those of the validator's filter."""
    check_create(arguments, namespace)
    fields: dict[str, Value] = {}
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
    """The view to be made, if it is one. Errors: InvalidOptions, those of `checked_definition`."""
    on = arguments["viewOn"]
    if on is None:
        if arguments["pipeline"] is not None:
            raise CommandError(Code.InvalidOptions, "'pipeline' requires 'viewOn' to also be specified")
        return None
    if arguments["idIndex"] is not None:
        raise CommandError(Code.InvalidOptions, "'idIndex' is not allowed with 'viewOn'")
    return checked_definition(node, namespace, on, arguments["pipeline"] or (), _collation(arguments))


def _collation(arguments: Arguments) -> Collation | None:
    given = arguments["collation"]
    return None if given is None else parse_collation(given, "create.collation")


def check_creatable(namespace: str) -> None:
    """Refuse names that belong to the server. Errors: InvalidNamespace, BadValue."""
    name = split_namespace(namespace)[1]
    if name not in (SYSTEM_VIEWS, SYSTEM_PROFILE):
        check_writable(namespace)
    if ".system." in name and not name.startswith("system."):
        raise CommandError(Code.BadValue, f"Invalid namespace: {namespace}")


def check_create(arguments: Arguments, namespace: str) -> None:
    """Refuse what contradicts itself, and what no collection or view can have."""
    if arguments["capped"]:
        if arguments["size"] is None:
            raise CommandError(Code.InvalidOptions, "the 'size' field is required when 'capped' is true")
    elif arguments["size"] is not None or arguments["max"] is not None:
        raise CommandError(
            Code.InvalidOptions,
            "the 'capped' field needs to be true when either the 'size' or 'max' fields are present",
        )
    if arguments["autoIndexId"] is False:
        raise CommandError(
            50001, f"autoIndexId:false is not allowed for collection {namespace} because it can be replicated"
        )
    if arguments["expireAfterSeconds"] is not None:
        raise CommandError(
            Code.InvalidOptions, "'expireAfterSeconds' is only supported on time-series or clustered collections"
        )
    _check_kind(arguments)
    if "temp" in arguments:
        raise CommandError(Code.InvalidOptions, "the 'temp' field is an invalid option")
    check_images("create", arguments, namespace)
    _check_id_index(arguments["idIndex"])
    _check_storage_engine(arguments["storageEngine"])
    defaults = arguments["indexOptionDefaults"]
    for name, code, data in elements(defaults or EMPTY_DOCUMENT):
        if name != "storageEngine":
            raise CommandError(40415, f"BSON field 'create.indexOptionDefaults.{name}' is an unknown field.")
        if code == OBJECT:
            _check_storage_engine(data)


def _check_kind(arguments: Arguments) -> None:
    """Refuse the kinds of collections that there are not, by what is wrong with them first."""
    if arguments["timeseries"] is not None:
        parse_fields("create.timeseries", arguments["timeseries"], _TIME_SERIES)
        raise CommandError(Code.NotImplemented, "time-series collections are not supported")
    clustered = arguments["clusteredIndex"]
    if clustered is not None:
        if clustered[0] != OBJECT:
            raise CommandError(5979703, "clusteredIndex needs the specification of an index")
        parse_fields("create", clustered[1], _CLUSTERED)
        raise CommandError(Code.NotImplemented, "clustered collections are not supported")


def check_images(command: str, arguments: Arguments, namespace: str) -> bool:
    """Whether documents are to be kept for change streams as they were before changes. Errors: Location40414,
    TypeMismatch, InvalidOptions.
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


def choice(field: str, given: str, allowed: tuple[str, ...]) -> str:
    """One of the allowed words, or BadValue."""
    if given not in allowed:
        raise CommandError(Code.BadValue, f"Enumeration value '{given}' for field '{field}' is not a valid value.")
    return given


def _check_id_index(spec: bytes | None) -> None:
    if spec is None:
        return
    key = get_field(spec, "key")
    if key is None:
        raise CommandError(Code.FailedToParse, "The 'key' field is a required property of an index specification")
    if key[0] != OBJECT or document_to_python(key[1]) != {"_id": 1}:
        raise CommandError(Code.BadValue, "The field 'key' for an _id index must be {_id: 1}")


def _check_storage_engine(raw: bytes | None) -> None:
    for name, code, _ in elements(raw or EMPTY_DOCUMENT):
        if code != OBJECT:
            raise CommandError(Code.BadValue, f"'storageEngine.{name}' has to be an embedded document.")
        raise CommandError(Code.InvalidOptions, f"{name} is not a registered storage engine for this server")
