"""collMod: change the options of a collection or of an index, or the definition of a view."""

from __future__ import annotations

from typing import Any

from bson.int64 import Int64

from docstore.bson import from_python, get_field
from docstore.bson.walk import OBJECT, STRING, Value
from docstore.collection.catalog.ddl import modify_index
from docstore.collection.catalog.modification import MODIFIABLE, modify_options
from docstore.collection.catalog.views import find_view, redefine_view
from docstore.collection.collection import Collection, Index
from docstore.collection.unit_of_work import WriteUnitOfWork
from docstore.commands.arguments import Arguments, declared, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Parameter, Result, Type
from docstore.commands.specs.catalog import COLL_MOD
from docstore.commands.values import integer_of, wrong_type
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.node.ddl.catalog_changes import change
from docstore.node.ddl.create import ACTIONS, LEVELS, check_images, checked_expiry, choice
from docstore.node.ddl.shard_key_rules import check_hidden, shard_key_of
from docstore.node.node import DataNode, node_of
from docstore.node.read.views import checked_definition
from docstore.node.timeseries.change import SeriesChange
from docstore.node.timeseries.indexes import bucket_index
from docstore.node.timeseries.series import redefine_series, series_of
from docstore.node.write.validators import check_validator
from docstore.query.value.values import INT_MAX, NUMBERS, text_of
from docstore.sharding.key import ShardKey

_INDEX = declared(
    Parameter("name", Type.STRING),
    Parameter("keyPattern", Type.OBJECT),
    Parameter("expireAfterSeconds", Type.INT),
    Parameter("hidden", Type.SAFE_BOOL),
    Parameter("unique", Type.SAFE_BOOL),
    Parameter("prepareUnique", Type.SAFE_BOOL, unsupported="indexes cannot be made unique"),
)
_OF_VIEWS = ("pipeline", "viewOn")
_OF_COLLECTIONS = (
    "index", "validator", "validationLevel", "validationAction", "cappedSize", "cappedMax",
    "changeStreamPreAndPostImages",
)  # fmt: skip


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    namespace = context.namespace
    _check(context, arguments)
    reply: dict[str, Any] = {}
    series = series_of(node.store, namespace)
    if series is not None:
        about = context.about(series.buckets.ns)
        series_change = SeriesChange(node, arguments, series, context.services.switches.face)
        return await change(about, reply, lambda unit: _change_series(about, arguments, unit, series_change, reply))
    if arguments["timeseries"] is not None:
        raise CommandError(Code.InvalidOptions, "option only supported on a time-series collection: timeseries")
    key = None if arguments["index"] is None else await shard_key_of(node, namespace)

    def act(unit: WriteUnitOfWork) -> None:
        collection = node.store.collection(namespace)
        if collection is None:
            _change_view(context, arguments, unit)
            return
        for name in _OF_VIEWS:
            if name in arguments:
                raise CommandError(Code.InvalidOptions, f"option only supported on a view: {name}")
        if not collection.options.capped and ("cappedSize" in arguments or "cappedMax" in arguments):
            raise CommandError(Code.InvalidOptions, "Collection must be capped.")
        if "expireAfterSeconds" in arguments and collection.options.clustered is None:
            raise CommandError(
                Code.InvalidOptions, "'expireAfterSeconds' option is only supported on collections clustered by _id"
            )
        if arguments["index"] is not None:
            reply.update(_change_index(context, unit, collection, arguments["index"], key))
        request = _request(context, arguments)
        if request or arguments["index"] is None:
            modify_options(node.store.catalog, unit, collection, request)

    return await change(context, reply, act)


def _change_series(
    context: Context, arguments: Arguments, unit: WriteUnitOfWork, change: SeriesChange, reply: dict[str, Any]
) -> None:
    node = node_of(context)
    series = change.standing()
    if arguments["index"] is not None:
        index = bucket_index(series, arguments["index"])
        reply.update(_change_index(context, unit, series.buckets, index, None))
    request = {name: value for name, value in _request(context, arguments).items() if name == "expireAfterSeconds"}
    definition = change.definition(series)
    if definition is not None:
        request["timeseries"] = (OBJECT, definition.document())
        redefine_series(node.store, unit, series, definition)
    if request or arguments["index"] is None:
        modify_options(node.store.catalog, unit, series.buckets, request)


def _check(context: Context, arguments: Arguments) -> None:
    check_images("collMod", arguments, context.namespace)
    if arguments["validator"] is not None:
        check_validator(node_of(context), arguments["validator"])
    for name, allowed in (("validationLevel", LEVELS), ("validationAction", ACTIONS)):
        if arguments[name] is not None:
            choice(f"collMod.{name}", arguments[name], allowed)
    if arguments["dryRun"] and arguments["index"] is None:
        raise CommandError(Code.InvalidOptions, "dry run mode requires an valid index modification.")


def _request(context: Context, arguments: Arguments) -> dict[str, Value]:
    """Return the fields that change options, as they were sent."""
    request = {name: _sent(context, name) for name in arguments.sent_values() if name in MODIFIABLE}
    expiry = request.get("expireAfterSeconds")
    if expiry is not None:
        request["expireAfterSeconds"] = _checked_expiry(node_of(context), expiry)
    return request


def _checked_expiry(node: DataNode, value: Value) -> Value:
    """Return the lifetime of documents in seconds, or "off". Errors: InvalidOptions, TypeMismatch."""
    if value[0] == STRING:
        if text_of(value) != "off":
            raise CommandError(
                Code.InvalidOptions,
                "Invalid string value for the 'clusteredIndex::expireAfterSeconds' option. "
                f"Got: '{text_of(value)}'. Accepted value is 'off'",
            )
        return value
    if value[0] not in NUMBERS:
        raise wrong_type("collMod.expireAfterSeconds", value[0], "[string, long]")
    return from_python(Int64(checked_expiry(node, integer_of(*value))))


def _sent(context: Context, name: str) -> Value:
    value = get_field(context.raw, name)
    assert value is not None, "the field was given"
    return value


def _change_view(context: Context, arguments: Arguments, unit: WriteUnitOfWork) -> None:
    node = node_of(context)
    view = find_view(node.store, context.namespace)
    if view is None:
        raise CommandError(Code.NamespaceNotFound, "ns does not exist")
    for name in _OF_COLLECTIONS:
        if name in arguments:
            raise CommandError(Code.InvalidOptions, f"option not supported on a view: {name}")
    if "viewOn" not in arguments and "pipeline" not in arguments:
        return
    on = view.on.partition(".")[2] if arguments["viewOn"] is None else arguments["viewOn"]
    stages = view.pipeline if arguments["pipeline"] is None else arguments["pipeline"]
    redefine_view(node.store, unit, checked_definition(node, view.ns, on, stages, view.collation))


def _change_index(
    context: Context, unit: WriteUnitOfWork, collection: Collection, raw: bytes, key: ShardKey | None
) -> dict[str, Any]:
    options = parse_fields("collMod.index", raw, _INDEX)
    index = _index(collection, options)
    seconds, hidden = options["expireAfterSeconds"], options["hidden"]
    if seconds is None and hidden is None and options["unique"] is None:
        raise CommandError(Code.InvalidOptions, "no expireAfterSeconds, hidden, unique, or prepareUnique field")
    if options["unique"] is not None:
        _check_unique(index, options["unique"])
    if seconds is not None:
        if seconds < 0:
            raise CommandError(Code.InvalidOptions, "TTL index 'expireAfterSeconds' option cannot be less than 0")
        seconds = min(seconds, INT_MAX)
    if hidden is not None and hidden == index.hidden and not index.is_id:
        hidden = None
    if hidden:
        check_hidden(key, collection, index)
    if seconds is None and hidden is None:
        return {}
    catalog = node_of(context).store.catalog
    before = modify_index(catalog, unit, collection, index.name, hidden=hidden, expire_after=seconds)
    reply: dict[str, Any] = {}
    if seconds is not None:
        if before.expire_after is not None:
            reply["expireAfterSeconds_old"] = Int64(before.expire_after)
        reply["expireAfterSeconds_new"] = Int64(seconds)
    if hidden is not None:
        reply |= {"hidden_old": before.hidden, "hidden_new": hidden}
    return reply


def _index(collection: Collection, arguments: Arguments) -> Index:
    name, key = arguments["name"], arguments["keyPattern"]
    if name is None and key is None:
        raise CommandError(Code.InvalidOptions, "Must specify either index name or key pattern.")
    if name is not None and key is not None:
        raise CommandError(Code.InvalidOptions, "Cannot specify both key pattern and name.")
    if name is not None:
        matches = [index for index in collection.indexes.values() if index.name == name]
    else:
        matches = [index for index in collection.indexes.values() if index.key_id == encode_key((OBJECT, key))]
    if matches and matches[0].spec.clustered:
        if arguments["hidden"] is not None:
            raise CommandError(6011800, "The 'hidden' option is not supported for a clusteredIndex")
        matches = []
    if not matches:
        raise CommandError(Code.IndexNotFound, f"cannot find index {name or 'of that key'} for ns {collection.ns}")
    if len(matches) > 1:
        raise CommandError(Code.AmbiguousIndexKeyPattern, f"{len(matches)} indexes have that key: name one")
    return matches[0]


def _check_unique(index: Index, unique: bool) -> None:
    if not unique:
        raise CommandError(Code.BadValue, "Cannot make index non-unique")
    if not index.unique:
        raise CommandError(Code.NotImplemented, "indexes cannot be made unique")


COMMAND = COLL_MOD.command(run)
