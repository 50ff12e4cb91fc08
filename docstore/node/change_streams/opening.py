"""Opening of change streams: validation of the aggregate, the start position, and the first batch."""

from __future__ import annotations

from typing import cast

from docstore.aggregation.change_stream.errors import history_lost, labelled
from docstore.aggregation.change_stream.options import ChangeStreamOptions
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.stages.change_stream import change_stream_of
from docstore.collection.catalog.views import find_view
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import Encoded
from docstore.commands.requests.aggregate import check_stream_concern
from docstore.commands.requests.cursor_options import batch_size_of
from docstore.errors import Code, CommandError
from docstore.node.change_streams.scope import Scope, scope_of
from docstore.node.change_streams.shared_reader import CommitProgress, SharedReader, is_lost
from docstore.node.change_streams.stream import ChangeStream, StreamOptions
from docstore.node.node import DataNode, node_of
from docstore.node.read.cursors import Filling, first_reply
from docstore.node.slices import Steps


class StreamFilling(Filling):
    """A batch of a change stream while it is filled; it may have to fetch a snapshot for document lookups."""

    def __init__(self, context: Context, stream: ChangeStream, most: int, max_bytes: int) -> None:
        super().__init__(stream, most, node_of(context), max_bytes)
        self._stream = stream
        self._deadline = context.deadline

    def _hold_back(self, documents: list[bytes], ended: bool) -> bool:
        """Return False: the token behind the batch covers every event read, so none is pushed back."""
        return False

    def check_sizes(self, documents: list[bytes]) -> None:
        """Check event sizes, unless large events are requested. Errors: BSONObjectTooLarge."""
        if not self._stream.gives_large:
            super().check_sizes(documents)

    def fill(self) -> Steps[None]:
        """Fill the batch. Errors: those of the stream, with error labels."""
        stream = self._stream
        if stream.passes_on():
            self.fields = b"\x03postBatchResumeToken\0" + stream.resume_token
            return
        try:
            yield from super().fill()
            while stream.lacks_view:
                yield stream.fetch_view(self._deadline)
                yield from super().fill()
        except CommandError as error:
            raise labelled(error) from None
        finally:
            stream.release_view()
        self.fields = b"\x03postBatchResumeToken\0" + stream.resume_token
        if self.exhausted:
            self.fields += b"\x08invalidated\0\x01"


def open_change_stream(
    context: Context, arguments: Arguments, collection: str | None, pipeline: Pipeline
) -> Steps[Encoded]:
    """Return the reply with the first batch.

    Errors: InvalidOptions, InvalidNamespace, CommandNotSupportedOnView, IllegalOperation, ChangeStreamHistoryLost,
    those of tokens.
    """
    options, remaining = change_stream_of(pipeline)
    check_stream_concern(context)
    stream_options = StreamOptions(scope_asked(context, collection, options), options, large=arguments["largeEvents"])
    stream = stream_of(node_of(context), stream_options, remaining)
    batch_size = batch_size_of(arguments)
    filling = StreamFilling(context, stream, 101 if batch_size is None else batch_size, arguments["batchBytes"])
    return first_reply(context, filling)


def stream_of(node: DataNode, options: StreamOptions, pipeline: Pipeline) -> ChangeStream:
    """Return a new stream; `pipeline`: the stages behind `$changeStream`. Errors: ChangeStreamHistoryLost."""
    oplog = node.store.oplog
    assert oplog is not None, "the stage is refused on a node without one"
    start = beginning(node, options.options)
    if is_lost(oplog, start - 1):
        raise history_lost()
    reader = node.parts.get(SharedReader)
    if reader is None:
        reader = node.parts[SharedReader] = SharedReader(node, oplog, cast("CommitProgress", node.replication))
    environment = Environment(clock=node.clock, rng=node.rng)
    return ChangeStream(node, reader, options, pipeline, environment, start)


def scope_asked(context: Context, collection: str | None, options: ChangeStreamOptions) -> Scope:
    """Return the scope of the requested stream. Errors: InvalidOptions, InvalidNamespace, CommandNotSupportedOnView."""
    scope = scope_of(context.db, collection, expanded=options.expanded, whole_cluster=options.whole_cluster)
    if collection is not None and find_view(node_of(context).store, context.namespace) is not None:
        raise CommandError(Code.CommandNotSupportedOnView, f"Namespace {context.namespace} is a view, not a collection")
    return scope


def beginning(node: DataNode, options: ChangeStreamOptions) -> int:
    """Return the packed timestamp from which the stream reports operations."""
    start = options.first_timestamp
    return node.store.last_optime.timestamp + 1 if start is None else start
