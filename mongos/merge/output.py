"""Results of a pipeline written to a collection through a router (`docstore.commands.requests.results`).

`$out` fills and renames on the primary that has made the new collection (`docstore.node.remote_outputs`); a sharded
collection cannot be its target, nor one that has become sharded meanwhile. What `$merge` writes is routed like a
client's updates and inserts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import bson
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.stages.write import Merge, check_target, target_of, without_target
from docstore.bson import document_from, document_to_python, elements, from_python, get_field
from docstore.commands.context import Context
from docstore.commands.requests.results import WRITE_FIELDS, Merging, OutOutput, checked
from docstore.errors import Code, CommandError
from docstore.namespace import check_collection_name
from docstore.sharding.routing import Routing
from docstore.sharding.version import STALE_CODES
from mongos.merge.batches import cursor_reply
from mongos.merge.pipelines import Request, open_pipeline, under_own_collation
from mongos.router import router_of
from mongos.routing.requests import versioned
from mongos.routing.targeting import insert_target, primary_of, update_target
from mongos.routing.writes import Kind
from mongos.statements import run_statements

_BATCH_DOCUMENTS = 500
_BATCH_BYTES = 4 * 1024 * 1024
_FOR_WRITES = WRITE_FIELDS | {"lsid"}


async def write_results(context: Context, request: Request) -> bytes:
    """Run the pipeline into the target of its last stage; the reply of the command, a cursor without documents.

    Errors: 28769 for `$out` to a sharded collection, too.
    """
    router = router_of(context)
    if isinstance(target_of(request.pipeline), Merge):
        # It says by which index documents are the same.
        request = await under_own_collation(context, request, await router.cache.get(request.namespace))
    stage = target_of(request.pipeline)
    assert stage is not None, "there is a target"
    database = stage.database or context.db
    check_target(stage, database)
    namespace = check_collection_name(database, stage.collection)
    await router.ensure_database(namespace)
    target = RoutedTarget(context, await router.cache.refresh(namespace))
    output: OutOutput | Merging
    if isinstance(stage, Merge):
        output = Merging(target, stage)
    else:
        target.check_unsharded()
        output = OutOutput(target, f"tmp.agg_out.{uuid4()}")
    await output.begin()
    merged = await open_pipeline(context, replace(request, pipeline=without_target(request.pipeline)))
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


async def on_primary(
    context: Context, target: Routing, database: str, command: dict[str, Any] | bytes, documents: Sequence[bytes] = ()
) -> bytes:
    """A command to the target's primary shard, about the target or about what is not sharded in its database."""
    shard = await router_of(context).shards.get(primary_of(target))
    raw = command if isinstance(command, bytes) else bson.encode(command)
    body = versioned(raw, target.shard_version(shard.name))
    sequences = {"documents": list(documents)} if documents else None
    return (await shard.command(database, body, sequences=sequences, deadline=context.deadline)).body


def filling(temporary: str) -> dict[str, Any]:
    """The insert of results into the collection that was made for them."""
    return {"insert": temporary, "ordered": False, "intoOutput": True}


_INSERTS = Kind("documents", insert_target, len)


class RoutedTarget:
    """A collection of the cluster. Implements `docstore.commands.requests.results.Target`."""

    unidentified_code = 51190

    def __init__(self, context: Context, routing: Routing) -> None:
        self._context = context
        self._routing = routing
        self.namespace = routing.namespace
        self._database, _, self._collection = routing.namespace.partition(".")
        key: tuple[str, ...] = () if routing.collection is None else tuple(routing.collection.key.fields)
        self.required_fields = key
        self.id_fields = tuple(dict.fromkeys(("_id", *key)))

    def check_unsharded(self) -> None:
        """Errors: 28769 where it is sharded."""
        if self._routing.collection is not None:
            raise CommandError(28769, f"{self.namespace} cannot be sharded")

    async def ask(self, command: dict[str, Any]) -> bytes:
        return await on_primary(self._context, self._routing, self._database, command)

    async def fill(self, temporary: str, documents: Sequence[bytes]) -> dict[str, Any]:
        fields = [field for field in elements(self._context.raw) if field[0] in WRITE_FIELDS]
        command = document_from([*elements(bson.encode(filling(temporary))), *fields])
        reply = await on_primary(self._context, self._routing, self._database, command, documents)
        return checked(document_to_python(reply))

    async def insert(self, documents: Sequence[bytes]) -> dict[str, Any]:
        return await self._written(_INSERTS, "insert", documents)

    async def update(self, stage: Merge, statements: Sequence[bytes]) -> dict[str, Any]:
        kind = Kind("updates", partial(update_target, query_context=stage.query_context), len)
        return await self._written(kind, "update", statements)

    async def rename(self, made: str) -> bytes:
        command: dict[str, Any] = {
            "renameCollection": f"{self._database}.{made}", "to": self.namespace, "dropTarget": True,
            "toShardVersion": self._routing.version().to_document(), "fromOutput": True,
        }  # fmt: skip
        concern = get_field(self._context.raw, "writeConcern")
        if concern is not None:
            command["writeConcern"] = RawBSONDocument(concern[1])
        try:
            return await on_primary(self._context, self._routing, "admin", command)
        except CommandError as error:
            raise await self._told(error) from error

    async def drop(self, made: str) -> None:
        """With a database that is gone it has gone too."""
        try:
            await self.ask({"drop": made})
        except CommandError as error:
            if error.code not in (*STALE_CODES, Code.NamespaceNotFound):
                raise

    async def _told(self, error: CommandError) -> CommandError:
        """Return the error, or a better one if the target has changed meanwhile."""
        if error.code not in STALE_CODES:
            return error
        if (await router_of(self._context).cache.refresh(self.namespace)).collection is not None:
            return CommandError(28769, f"{self.namespace} cannot be sharded")
        return CommandError(Code.NamespaceNotFound, f"the database of {self.namespace} was dropped meanwhile")

    async def _written(self, kind: Kind, command: str, statements: Sequence[bytes]) -> dict[str, Any]:
        context, database, collection = self._context, self._database, self._collection
        fields = [field for field in elements(context.raw) if field[0] in _FOR_WRITES]
        raw = document_from([*elements(bson.encode({command: collection, "ordered": False})), *fields])
        inner = context.derived(db=database, namespace=f"{database}.{collection}", session=None, raw=raw)
        return checked(await run_statements(inner, kind, statements, ordered=False))
