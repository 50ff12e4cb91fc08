"""`aggregate`: the shards run their half of the pipeline over what they own, the router the rest over all results.

A pipeline that only one shard can answer passes as it is.
"""

from __future__ import annotations

import asyncio

import bson
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.pipeline import Pipeline, parse_pipeline
from docstore.aggregation.split import SplitPipeline
from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import Feed
from docstore.bson import elements, get_field
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Command, Parameter, Privilege, Resource, Result, Role, Type
from docstore.commands.values import integer_of
from docstore.errors import Code, CommandError
from docstore.query.language import Language
from docstore.sharding.routing import Routing
from mongos.merge.batches import first_reply
from mongos.merge.merged import Finish, MergedCursor, Shape
from mongos.router import router_of
from mongos.routing.language import language_of
from mongos.routing.requests import forwarded
from mongos.routing.shards import CONFIG
from mongos.routing.targeting import filter_shards
from mongos.views import read_below

_NOTHING = bson.encode({})
_SHARD_BATCH = 10_000


async def run(context: Context, args: Arguments) -> Result:
    router = router_of(context)
    if args["explain"]:
        raise CommandError(Code.NotImplemented, "explain of an aggregation through a router is not supported yet")
    language = language_of(context, args["let"])
    pipeline = parse_pipeline(args["pipeline"], language=language)
    if pipeline.target is not None:
        raise CommandError(Code.NotImplemented, "$out and $merge through a router are not supported yet")
    namespace = context.namespace = f"{context.db}.{_collection(*args.value)}"
    batch_size = _batch_size(args["cursor"])

    async def attempt(routing: Routing) -> MergedCursor:
        return await _open(context, pipeline, language, routing)

    try:
        merged = await router.routed(context, attempt)
    except CommandError as error:
        return await read_below(context, error, args["pipeline"], batch_size=batch_size)
    return await first_reply(context, merged, batch_size=batch_size, namespace=context.view or namespace)


def _collection(code: int, data: bytes) -> str:
    """The collection's name; for `{aggregate: 1}` the name that stands for none."""
    return data[4:-1].decode() if code == 0x02 else "$cmd.aggregate"


def _batch_size(cursor: bytes) -> int | None:
    found = get_field(cursor, "batchSize")
    if found is None:
        return None
    size = integer_of(*found)
    if size < 0:
        raise CommandError(Code.BadValue, "cursor.batchSize must not be negative")
    return size


async def _open(context: Context, pipeline: Pipeline, language: Language, routing: Routing) -> MergedCursor:
    router = router_of(context)
    environment = Environment(clock=router.clock)
    if not pipeline.needs_collection:
        routing = Routing(routing.namespace, CONFIG, None)
    if routing.primary is None:
        return MergedCursor([], Shape(), router.discard, clock=router.clock, finish=_finish(pipeline, environment))
    shards = filter_shards(routing, pipeline.leading_filter())
    split = _whole(pipeline) if len(shards) == 1 and not pipeline.others else pipeline.split()
    body = forwarded(
        context.raw,
        without=("explain",),
        add={
            "pipeline": [RawBSONDocument(stage) for stage in split.shard_stages],
            "cursor": {"batchSize": _SHARD_BATCH} if split.merge_stages else RawBSONDocument(_cursor_of(context)),
        },
    )
    answers = await router.ask(context, routing, shards, body)
    remotes = await router.remotes(context, routing, answers, None)
    shape = Shape(sort=split.merge_sort.pattern() if split.merge_sort else None)
    finishing = parse_pipeline(split.merge_stages, language=language) if split.merge_stages else None
    finish = None if finishing is None else _finish(finishing, environment)
    return MergedCursor(remotes, shape, router.discard, clock=router.clock, finish=finish)


def _finish(pipeline: Pipeline, environment: Environment) -> Finish:
    feed = Feed()
    return Finish(feed, pipeline.open(feed, environment), let_others_run)


async def let_others_run() -> None:
    """Give the loop to others between two slices."""
    await asyncio.sleep(0)


def _whole(pipeline: Pipeline) -> SplitPipeline:
    return SplitPipeline([stage.raw for stage in pipeline.stages], [], None)


def _cursor_of(context: Context) -> bytes:
    return next((data for name, _, data in elements(context.raw) if name == "cursor"), _NOTHING)


COMMAND = Command(
    "aggregate",
    run,
    privilege=Privilege("find", Resource.COLLECTION),
    role=Role.SECONDARY_OK,
    read_concern=True,
    write_concern=True,
    stable=True,
    parameters=(
        Parameter("pipeline", Type.DOCUMENTS, required=True),
        Parameter("cursor", Type.OBJECT, default=_NOTHING),
        Parameter("explain", Type.SAFE_BOOL, default=False),
        Parameter("allowDiskUse", Type.SAFE_BOOL, default=False),
        Parameter("bypassDocumentValidation", Type.SAFE_BOOL, default=False),
        Parameter("hint", (Type.STRING, Type.OBJECT)),
        Parameter("collation", Type.OBJECT, unsupported="collation is not supported yet"),
        Parameter("let", Type.OBJECT),
    ),
    help="Run a pipeline over a collection.",
)
