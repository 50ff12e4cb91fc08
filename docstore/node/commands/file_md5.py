"""filemd5: return the MD5 sum of a GridFS file, by which old drivers verify their writes.

Chunks are read in order through their index; a missing or repeated number is an error. Only whole files are summed,
because the state of a sum cannot be transferred to another shard.
"""

from __future__ import annotations

import hashlib

from docstore.bson import get_field, to_python
from docstore.bson.walk import BINARY, Value
from docstore.collection.catalog.views import check_no_view
from docstore.collection.collection import Collection
from docstore.collection.read.execute import open_find
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Response, Result
from docstore.commands.specs.files import FILE_MD5, chunks_of
from docstore.errors import Code, CommandError
from docstore.node.node import node_of
from docstore.node.read.snapshot import view_of
from docstore.node.read.sources import DocumentSource
from docstore.node.slices import PAUSE, Steps, run_steps, step_end
from docstore.query.filter.tree import Comparison, Op
from docstore.query.find import FindQuery, Hint
from docstore.query.sort import Sort

_STEP_DOCUMENTS = 16
_STEP_BYTES = 4 * 1024 * 1024
_OLD_BINARY = 2
"""The binary subtype whose data begin with a second length."""
_ORDER = (("files_id", 1), ("n", 1))


def run(context: Context, arguments: Arguments) -> Response:
    return run_steps(context.about(chunks_of(context, arguments)), _run(context, arguments))


def _run(context: Context, arguments: Arguments) -> Steps[Result]:
    context = context.about(chunks_of(context, arguments))
    node = node_of(context)
    view = yield from view_of(context)
    try:
        collection = node.store.collection(context.namespace)
        if collection is None:
            check_no_view(node.store, context.namespace)
            return _reply(_Sum())
        query = FindQuery(
            filter=Comparison("files_id", Op.EQ, arguments.value), sort=Sort(_ORDER), hint=_index_of(collection)
        )
        source = open_find(collection, query, view.reader, owned=view.owned, clock=node.clock)
        try:
            return _reply((yield from _summed(context, source)))
        finally:
            source.close()
    finally:
        view.release()


def _index_of(collection: Collection) -> Hint:
    for index in collection.indexes.values():
        if index.spec.fields == _ORDER:
            return Hint(name=index.name)
    raise CommandError(Code.NoQueryExecutionPlans, f"filemd5 needs an index on {dict(_ORDER)} of {collection.ns}")


class _Sum:
    """The MD5 sum of the chunks so far, and their number."""

    def __init__(self) -> None:
        self.chunks = 0
        self.md5 = hashlib.md5(usedforsecurity=False)

    def add(self, chunk: bytes) -> None:
        """Add a chunk. Errors: 10040 for a number out of sequence, 50848 and 50849 for a chunk without data."""
        number, data = get_field(chunk, "n"), get_field(chunk, "data")
        if number is None or to_python(number) != self.chunks:
            raise CommandError(10040, "chunks out of order")
        if data is None:
            raise CommandError(50848, "a chunk has no data")
        self.md5.update(_bytes_of(data))
        self.chunks += 1


def _bytes_of(value: Value) -> bytes:
    code, data = value
    if code != BINARY:
        raise CommandError(50849, "the data of a chunk must be of type BinData")
    return data[9:] if data[4] == _OLD_BINARY else data[5:]


def _summed(context: Context, source: DocumentSource) -> Steps[_Sum]:
    node, checksum = node_of(context), _Sum()
    until = step_end(node)
    while True:
        batch = source.next_batch(_STEP_DOCUMENTS, _STEP_BYTES, until)
        for chunk in batch.documents:
            checksum.add(chunk)
        if batch.exhausted:
            return checksum
        if node.clock() >= until:
            yield PAUSE
            until = step_end(node)


def _reply(checksum: _Sum) -> Result:
    return {"numChunks": checksum.chunks, "md5": checksum.md5.hexdigest()}


COMMAND = FILE_MD5.command(run)
