"""`shardCollection`: spread a collection by ranges of a key; it starts as one chunk on the database's primary shard."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Role, Type
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.query.value.collation import parse_collation
from docstore.sharding import requests
from docstore.sharding.key import ShardKey
from docstore.sharding.routing import Routing
from mongos.router import router_of
from mongos.routing.broadcast import coordinated


async def run(context: Context, args: Arguments) -> bytes:
    router = router_of(context)
    namespace = args.value
    key = ShardKey.parse(document_to_python(args["key"]))
    if args["collation"] is not None and parse_collation(args["collation"]) is not None:
        raise CommandError(Code.BadValue, "The collation for shardCollection must be {locale: 'simple'}")
    db, _ = split_namespace(namespace)
    await router.config.command("admin", requests.enable_sharding(db), repeatable=True)
    routing = await router.cache.refresh(namespace)
    if routing.collection is not None and (routing.collection.key, routing.collection.unique) != (key, args["unique"]):
        raise CommandError(
            Code.AlreadyInitialized,
            f"sharding already enabled for collection {namespace} with options {routing.collection.key}",
        )
    command = requests.shard_collection(namespace, key.document(), args["unique"])

    async def attempt(routing: Routing) -> bytes:
        return (await coordinated(context, routing, command)).relayed()

    reply: bytes = await router.cache.routed(namespace, attempt)
    await router.cache.refresh(namespace)
    return reply


COMMAND = Command(
    "shardCollection",
    run,
    aliases=("shardcollection",),
    privilege=Privilege("enableSharding", Resource.COLLECTION),
    role=Role.ANY,
    value=Type.NAMESPACE,
    admin_only=True,
    write_concern=True,
    parameters=(
        Parameter("key", Type.OBJECT, required=True),
        Parameter("unique", Type.SAFE_BOOL, default=False),
        Parameter("numInitialChunks", Type.INT, unsupported="numInitialChunks is only for hashed keys"),
        Parameter("presplitHashedZones", Type.SAFE_BOOL, unsupported="zones are not supported yet"),
        Parameter("collation", Type.OBJECT),
        Parameter("timeseries", Type.OBJECT, unsupported="time series are not supported"),
    ),
    help="Shard a collection by ranges of a key.",
)
