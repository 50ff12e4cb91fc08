"""Results of a pipeline that go to a collection through a router: `$out` and `$merge`.

`$out` fills a collection of its own beside the target and renames it on the shard that holds both; a sharded collection
cannot be its target, nor one that has become sharded meanwhile.

`$merge` becomes the updates and inserts that mean the same, routed like a client's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import bson
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.expressions.model import Scope
from docstore.aggregation.stages.write import Merge, Out, WhenMatched, WhenNotMatched, check_target
from docstore.bson import document_from, document_to_python, elements, from_python, get_field
from docstore.bson.walk import OBJECT
from docstore.commands.context import Context
from docstore.errors import Code, CommandError
from docstore.namespace import check_collection_name
from docstore.query.value.collation import parse_collation
from docstore.sharding.routing import Routing
from docstore.sharding.version import STALE_CODES
from mongos.merge.batches import cursor_reply
from mongos.merge.pipelines import Request, open_pipeline
from mongos.router import router_of
from mongos.routing.requests import cursor_of, versioned
from mongos.routing.targeting import insert_target, primary_of, update_target
from mongos.routing.writes import Kind
from mongos.statements import run_statements

_BATCH_DOCUMENTS = 500
_BATCH_BYTES = 4 * 1024 * 1024
_FOR_WRITES = frozenset(("lsid", "writeConcern", "bypassDocumentValidation", "comment"))
_MERGED = {"$replaceWith": {"$mergeObjects": ["$$ROOT", "$$new"]}}


async def write_results(context: Context, stage: Out | Merge, request: Request) -> bytes:
    """Run the pipeline into the stage's target; the reply of the command, a cursor without documents."""
    router = router_of(context)
    database = stage.database or context.db
    check_target(stage, database)
    namespace = check_collection_name(database, stage.collection)
    await router.ensure_database(namespace)
    target = await router.cache.refresh(namespace)
    output: OutOutput | Merging = OutOutput(context, namespace, target, f"tmp.agg_out.{uuid4()}")
    if isinstance(stage, Merge):
        output = Merging(context, namespace, await _with_fields(context, stage, target))
    await output.begin()
    merged = await open_pipeline(context, request)
    try:
        ended = False
        while not ended:
            documents, ended = await merged.next_batch(_BATCH_DOCUMENTS, _BATCH_BYTES)
            if documents:
                await output.write(documents)
    except BaseException:
        await output.give_up()
        raise
    finally:
        merged.close()
    await output.end()
    reply = cursor_reply([], 0, context.view or context.namespace, "firstBatch")
    if output.concern_error is None:
        return reply
    return document_from([*elements(reply), ("writeConcernError", *from_python(output.concern_error))])


async def _with_fields(context: Context, stage: Merge, target: Routing) -> Merge:
    """The stage with the fields that say what belongs together. Errors: 51183 where they can be the same twice."""
    if stage.on is None:
        key = () if target.collection is None else target.collection.key.fields
        return replace(stage, on=tuple(dict.fromkeys(("_id", *key))))
    database, _, collection = target.namespace.partition(".")
    try:
        found = await on_primary(context, target, database, {"listIndexes": collection})
        indexes = [document_to_python(raw) for raw in cursor_of(found).documents]
    except CommandError as error:
        if error.code != Code.NamespaceNotFound:
            raise
        if stage.on == ("_id",):
            return stage
        indexes = []
    for index in indexes:
        unique = index.get("unique") or list(index["key"]) == ["_id"]
        if unique and set(index["key"]) == set(stage.on) and "partialFilterExpression" not in index:
            rules = index.get("collation")
            if stage.query_context.collation == (None if rules is None else parse_collation(bson.encode(rules))):
                return stage
    raise CommandError(51183, "Cannot find index to verify that join fields will be unique")


async def on_primary(context: Context, target: Routing, database: str, command: dict[str, Any]) -> bytes:
    """A command to the target's primary shard, about the target or about what is not sharded in its database."""
    shard = await router_of(context).shards.get(primary_of(target))
    body = versioned(bson.encode(command), target.shard_version(shard.name))
    return (await shard.command(database, body, deadline=context.deadline)).body


async def _written(
    context: Context, namespace: str, kind: Kind, command: str, statements: Sequence[bytes]
) -> dict[str, Any]:
    """Carry out statements unordered, as a client's write command. Errors: that of the first one that failed."""
    database, _, collection = namespace.partition(".")
    kept = [field for field in elements(context.raw) if field[0] in _FOR_WRITES]
    raw = document_from([*elements(bson.encode({command: collection, "ordered": False})), *kept])
    inner = context.derived(db=database, namespace=namespace, session=None, raw=raw)
    reply = await run_statements(inner, kind, statements, ordered=False)
    errors = reply.get("writeErrors")
    if errors:
        first = errors[0]
        extra = {name: first[name] for name in ("keyPattern", "keyValue", "errInfo") if name in first}
        raise CommandError(first["code"], first["errmsg"], extra=extra)
    return reply


_INSERTS = Kind("documents", insert_target, len)


def _with_id(document: bytes) -> bytes:
    if get_field(document, "_id") is not None:
        return document
    return document_from([*elements(bson.encode({"_id": ObjectId()})), *elements(document)])


class OutOutput:
    """`$out`: `made` is the name of the new collection."""

    def __init__(self, context: Context, namespace: str, target: Routing, made: str) -> None:
        self._context = context
        self._namespace = namespace
        self._target = target
        self._database, _, self._collection = namespace.partition(".")
        self._made = made
        self.concern_error: dict[str, Any] | None = None
        """What the reply says where the results are not as safe as asked."""

    async def begin(self) -> None:
        """Make the new collection, with the options and indexes of the old. Errors: 28769 for a sharded target."""
        if self._target.collection is not None:
            raise CommandError(28769, f"{self._namespace} cannot be sharded")
        found = await self._ask({"listCollections": 1, "filter": {"name": self._collection}})
        options: dict[str, Any] = {}
        indexes: list[RawBSONDocument] = []
        for raw in cursor_of(found).documents:
            options = dict(document_to_python(raw)["options"])
            listed = await self._ask({"listIndexes": self._collection})
            indexes = [RawBSONDocument(index) for index in cursor_of(listed).documents]
        if options.get("capped"):
            raise CommandError(17152, f"namespace '{self._namespace}' is capped so it can't be used for $out")
        await self._ask({"create": self._made, **options})
        if len(indexes) > 1:
            await self._ask({"createIndexes": self._made, "indexes": indexes[1:]})

    async def write(self, documents: list[bytes]) -> None:
        namespace = f"{self._database}.{self._made}"
        statements = [_with_id(document) for document in documents]
        await _written(self._context, namespace, _INSERTS, "insert", statements)

    async def end(self) -> None:
        source = f"{self._database}.{self._made}"
        version = self._target.version().to_document()
        command: dict[str, Any] = {"renameCollection": source, "to": self._namespace, "dropTarget": True}
        command["toShardVersion"] = version
        concern = get_field(self._context.raw, "writeConcern")
        if concern is not None:
            command["writeConcern"] = RawBSONDocument(concern[1])
        try:
            answer = await on_primary(self._context, self._target, "admin", command)
        except CommandError as error:
            await self.give_up()
            raise await self._told(error) from error
        # It comes after all documents: where it is safe, they are.
        self.concern_error = document_to_python(answer).get("writeConcernError")

    async def _told(self, error: CommandError) -> CommandError:
        """The error, or what has become of the target meanwhile."""
        if error.code not in STALE_CODES:
            return error
        if (await router_of(self._context).cache.refresh(self._namespace)).collection is not None:
            return CommandError(28769, f"{self._namespace} cannot be sharded")
        return CommandError(Code.NamespaceNotFound, f"the database of {self._namespace} was dropped meanwhile")

    async def give_up(self) -> None:
        """Drop the new collection. With a database that is gone it has gone too."""
        try:
            await self._ask({"drop": self._made})
        except CommandError as error:
            if error.code not in (*STALE_CODES, Code.NamespaceNotFound):
                raise

    async def _ask(self, command: dict[str, Any]) -> bytes:
        return await on_primary(self._context, self._target, self._database, command)


class Merging:
    """`$merge`."""

    def __init__(self, context: Context, namespace: str, stage: Merge) -> None:
        self._context = context
        self._namespace = namespace
        self._stage = stage
        self._updates = Kind("updates", partial(update_target, query_context=stage.query_context), len)
        self.concern_error: dict[str, Any] | None = None
        """What the reply says where the results are not as safe as asked."""

    async def begin(self) -> None:
        """Nothing is prepared."""

    async def end(self) -> None:
        """Everything has been written."""

    async def give_up(self) -> None:
        """What has been written stays."""

    async def write(self, documents: list[bytes]) -> None:
        stage = self._stage
        if "_id" in (stage.on or ()):
            documents = [_with_id(document) for document in documents]
        if stage.matched is WhenMatched.FAIL:
            await self._insert(documents)
            return
        if stage.matched is WhenMatched.PIPELINE and stage.not_matched is WhenNotMatched.INSERT:
            for document in documents:
                reply = await self._update([document])
                if not reply["n"]:
                    await self._insert([document])
            return
        reply = await self._update(documents)
        if stage.not_matched is WhenNotMatched.FAIL and reply["n"] < len(documents):
            raise CommandError(
                Code.MergeStageNoMatchingDocument,
                "$merge could not find a matching document in the target collection for at least one document in the"
                " source collection",
            )

    async def _update(self, documents: list[bytes]) -> dict[str, Any]:
        statements = [bson.encode(self._statement(document)) for document in documents]
        return self._noted(await _written(self._context, self._namespace, self._updates, "update", statements))

    async def _insert(self, documents: list[bytes]) -> None:
        statements = [_with_id(document) for document in documents]
        self._noted(await _written(self._context, self._namespace, _INSERTS, "insert", statements))

    def _noted(self, reply: dict[str, Any]) -> dict[str, Any]:
        self.concern_error = self.concern_error or reply.get("writeConcernError")
        return reply

    def _statement(self, document: bytes) -> dict[str, Any]:
        stage = self._stage
        query = document_from([(path, OBJECT, document_from([("$eq", *v)])) for path, v in stage.identity(document)])
        upsert = stage.not_matched is WhenNotMatched.INSERT and stage.matched is not WhenMatched.PIPELINE
        statement: dict[str, Any] = {"q": RawBSONDocument(query), "upsert": upsert}
        if stage.matched is WhenMatched.REPLACE:
            return {**statement, "u": RawBSONDocument(document)}
        if stage.matched is WhenMatched.KEEP:
            rest = document_from(field for field in elements(document) if field[0] not in (stage.on or ()))
            return {**statement, "u": {"$setOnInsert": RawBSONDocument(rest)}}
        scope = Scope(document)
        bound = [(name, evaluate(scope)) for name, evaluate in stage.let]
        constants = [("new", OBJECT, document), *((name, *value) for name, value in bound if value is not None)]
        update: list[Any] = [RawBSONDocument(step) for step in stage.pipeline]
        if stage.matched is WhenMatched.MERGE:
            update = [_MERGED]
        return {**statement, "u": update, "c": RawBSONDocument(document_from(constants))}
