"""group: the classic command, which folds documents into one result for each distinct key.

    {group: {ns, key | $keyf, $reduce, initial, [cond], [finalize]}}  ->  {retval: [...], count, keys}

MongoDB had it up to 4.0. Shape and limits are those of its documentation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import bson
from bson.int64 import Int64

from docstore.bson import Value, append_fields, array_from, document_from
from docstore.bson.walk import ARRAY, CODE, CODE_WITH_SCOPE, STRING
from docstore.collection.read.execute import open_find
from docstore.commands.arguments import Arguments, parse_fields
from docstore.commands.context import Context
from docstore.commands.declaration import Result
from docstore.commands.requests.group import GROUP_FIELDS
from docstore.commands.specs.reads import GROUP
from docstore.errors import Code, CommandError
from docstore.js.grouping import GroupJob, run_group
from docstore.js.results import INLINE_BYTES
from docstore.namespace import check_collection_name
from docstore.node.node import DataNode, node_of
from docstore.node.pipeline.stored_functions import stored_functions
from docstore.node.read.requests import filter_of, query_context_at, under
from docstore.node.read.snapshot import view_of
from docstore.node.read.sources import DocumentSource
from docstore.node.slices import finish_steps, step_end
from docstore.query.find import FindQuery

_FUNCTIONS = (STRING, CODE, CODE_WITH_SCOPE)
_BATCH_DOCUMENTS = 5000
_BATCH_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class _Counted:
    documents: int = 0


async def run(context: Context, arguments: Arguments) -> Result:
    node = node_of(context)
    fields = parse_fields("group", arguments.value, GROUP_FIELDS)
    context = context.about(check_collection_name(context.db, fields["ns"]))
    job = _job(fields, stored_functions(node, context.db))
    query_context = under(query_context_at(node, None), node, context.namespace, None)
    query = FindQuery(filter=filter_of(fields["cond"], query_context))
    context.services.switches.check_scripting()
    assert node.evaluators is not None, "a process that serves group has workers"
    view = await finish_steps(context, view_of(context))
    counted = _Counted()
    try:
        source = open_find(
            node.store.collection(context.namespace), query, view.reader, owned=view.owned, clock=node.clock
        )
        try:
            groups = await run_group(node.evaluators, job, _batches(context, node, source, counted), context.owner)
        finally:
            source.close()
    finally:
        view.release()
    retval = array_from(groups)
    if len(retval) > INLINE_BYTES:
        raise CommandError(Code.BSONObjectTooLarge, "the results of group are too large for one reply")
    counts = bson.encode({"count": Int64(counted.documents), "keys": Int64(len(groups))})
    return append_fields(document_from([("retval", ARRAY, retval)]), counts[4:-1])


def _job(fields: Arguments, stored: bytes | None) -> GroupJob:
    key, key_function = fields["key"], fields["$keyf"]
    if (key is None) == (key_function is None):
        raise CommandError(Code.BadValue, "group takes either 'key' or '$keyf'")
    for name in ("$keyf", "$reduce", "finalize"):
        function: Value | None = fields[name]
        if function is not None and function[0] not in _FUNCTIONS:
            raise CommandError(Code.BadValue, f"'{name}' must be of string or code type")
    return GroupJob(
        reduce=fields["$reduce"], initial=fields["initial"], key=key, key_function=key_function,
        finalize=fields["finalize"], stored=stored,
    )  # fmt: skip


async def _batches(
    context: Context, node: DataNode, source: DocumentSource, counted: _Counted
) -> AsyncIterator[list[bytes]]:
    exhausted = False
    while not exhausted:
        batch = source.next_batch(_BATCH_DOCUMENTS, _BATCH_BYTES, step_end(node))
        exhausted = batch.exhausted
        counted.documents += len(batch.documents)
        if batch.documents:
            yield batch.documents
        await node.pause()
        context.operation.check()


COMMAND = GROUP.command(run)
