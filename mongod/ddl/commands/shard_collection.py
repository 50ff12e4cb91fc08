"""_shardsvrShardCollection: see `docstore.sharding.requests.shard_collection`."""

from __future__ import annotations

from docstore.bson import document_to_python
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import INTERNAL, Command, Parameter, Result, Role, Type
from docstore.errors import Code, CommandError
from docstore.namespace import split_namespace
from docstore.sharding.ddl.operation import Kind
from docstore.sharding.key import ShardKey
from mongod.ddl.coordinators import coordinators_of


async def run(context: Context, arguments: Arguments) -> Result:
    namespace: str = arguments.value
    key = ShardKey.parse(document_to_python(arguments["key"]))
    database, name = split_namespace(namespace)
    if name.startswith("system.") or database in ("admin", "local"):
        raise CommandError(Code.IllegalOperation, f"{namespace} cannot be sharded")
    request = {"key": key.document(), "unique": arguments["unique"]}
    return dict(await coordinators_of(context).run(context, Kind.SHARD_COLLECTION, namespace, request))


COMMAND = Command(
    "_shardsvrShardCollection",
    run,
    privilege=INTERNAL,
    role=Role.PRIMARY,
    write_concern=False,
    value=Type.NAMESPACE,
    parameters=(
        Parameter("key", Type.OBJECT, required=True, internal=True),
        Parameter("unique", Type.BOOL, default=False, internal=True),
    ),
    help="make a collection of this shard ready to be sharded and have it committed",
)
