"""Results of a map-reduce that a router puts into a collection.

For a target that is not sharded the results are collected in a temporary collection of its shard, which then takes the
target's name or is merged into the target by the shard itself (`docstore.node.pipeline.map_reduce`): the output is
complete or not there. Into a sharded collection, sharded by `_id`, results are merged one by one as `$merge` does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import bson
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument

from docstore.aggregation.parse import parse_pipeline
from docstore.bson import Value, array_from, document_from, document_to_python, elements, get_field
from docstore.bson.walk import ARRAY, OBJECT
from docstore.commands.context import Context
from docstore.commands.requests.map_reduce import Mode, Output, merging
from docstore.commands.requests.results import Merging, OutOutput, checked
from docstore.errors import Code, CommandError
from docstore.kernel.keys.encoding import encode_key
from docstore.query.value.values import string_value
from docstore.sharding.requests import merge_temporary
from docstore.sharding.routing import Routing
from docstore.sharding.version import STALE_CODES
from mongos.merge.output import RoutedTarget, filling, on_primary
from mongos.merge.pipelines import Request, open_pipeline
from mongos.router import router_of

_EXISTING_DOCUMENTS = 1000
_EXISTING_BYTES = 16 * 1024 * 1024
_KEPT = frozenset(("lsid", "$readPreference"))


class Target(Protocol):
    """Somewhere results go."""

    async def begin(self) -> None: ...

    async def write(self, documents: list[bytes]) -> None: ...

    async def end(self) -> None: ...

    async def give_up(self) -> None: ...


async def open_target(context: Context, output: Output) -> Target:
    """Errors: 28769 for a replaced target that is sharded, 31313 for one that is sharded by something but `_id`."""
    router = router_of(context)
    await router.ensure_database(output.namespace)
    routing: Routing = await router.cache.refresh(output.namespace)
    output.check_sharded(routing.collection is not None)
    target: Target
    if output.mode is Mode.REPLACE:
        replaced = RoutedTarget(context, routing)
        replaced.check_unsharded()
        target = OutOutput(replaced, f"tmp.mr.{ObjectId()}")
    elif routing.collection is None:
        target = _Merged(context, output, routing)
    else:
        if routing.collection.key.fields != ("_id",):
            raise CommandError(31313, f"{output.namespace} takes results only if it is sharded by _id")
        # The merge key consists of the target's own fields: no lookup is needed.
        target = Merging(RoutedTarget(context, routing), replace(merging(output.namespace), on=None))
    await target.begin()
    return target


class _Merged:
    """A temporary collection that is merged by the target's shard."""

    def __init__(self, context: Context, output: Output, routing: Routing) -> None:
        self._context = context
        self._output = output
        self._routing = routing
        self._made = f"tmp.mr.{ObjectId()}"

    async def begin(self) -> None:
        await self._ask({"create": self._made, "forOutput": True})

    async def write(self, documents: list[bytes]) -> None:
        database = self._output.database
        reply = await on_primary(self._context, self._routing, database, filling(self._made), documents)
        checked(document_to_python(reply))

    async def end(self) -> None:
        bypass = bool(self._context.body.get("bypassDocumentValidation"))
        await self._ask(merge_temporary(self._output.collection, self._made, bypass=bypass))

    async def give_up(self) -> None:
        try:
            await self._ask({"drop": self._made})
        except CommandError as error:  # the shard drops the temporary collection if it could not merge it
            if error.code not in (*STALE_CODES, Code.NamespaceNotFound):
                raise

    async def _ask(self, command: dict[str, Any]) -> bytes:
        if self._context.explicit_write_concern:
            command = {**command, "writeConcern": self._context.write_concern.document()}
        return await on_primary(self._context, self._routing, self._output.database, command)


async def existing(context: Context, output: Output, keys: list[Value]) -> list[bytes | None]:
    """The target's documents with these keys, None for each that it has not."""
    condition = document_from([("_id", OBJECT, document_from([("$in", ARRAY, array_from(keys))]))])
    stage = bson.encode({"$match": RawBSONDocument(condition)})
    inner = context.derived(db=output.database, namespace=output.namespace)
    fields = [field for field in elements(context.raw) if field[0] in _KEPT]
    base = document_from([("aggregate", *string_value(output.collection)), *fields])
    merged = await open_pipeline(inner, Request(base, output.namespace, parse_pipeline([stage])))
    documents_by_key: dict[bytes, bytes] = {}
    try:
        ended = False
        while not ended:
            documents, ended = await merged.next_batch(_EXISTING_DOCUMENTS, _EXISTING_BYTES)
            for document in documents:
                identity = get_field(document, "_id")
                assert identity is not None, "a stored document has an _id"
                documents_by_key[encode_key(identity)] = document
    finally:
        merged.close()
    return [documents_by_key.get(encode_key(key)) for key in keys]
