"""A change stream as a cursor's source: events from a position in the oplog, through the stages behind `$changeStream`.

* Events are returned once, in oplog order, and only when committed.
* `resume_token` lies behind every event returned or skipped and before all others, so a stream that resumes there
  neither misses nor repeats one.
* A stream opened at an event's token returns nothing before it has found that event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from docstore.aggregation.change_stream.errors import fatal, history_lost
from docstore.aggregation.change_stream.kept_tokens import EventStages, Made
from docstore.aggregation.change_stream.options import DEFAULT, LOOKUP, OFF, REQUIRED, ChangeStreamOptions
from docstore.aggregation.change_stream.token import high_water_mark
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.stages.change_stream import split_off
from docstore.aggregation.stages.match import Match
from docstore.bson.walk import OBJECT
from docstore.collection.oplog.oplog import entry_optime
from docstore.commands.concerns import ReadConcern, ReadLevel
from docstore.errors import Code, CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.node.change_streams.events import Event, StreamOperation, event_of, plain_event
from docstore.node.change_streams.images import current_document, post_image, pre_image
from docstore.node.change_streams.operations import operations_in
from docstore.node.change_streams.shared_reader import is_lost
from docstore.node.limits import MAX_CACHED_STREAM_DECISIONS
from docstore.node.read.sources import Batch, Documents
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.tree import Filter, conjunction
from docstore.query.value.notation import display

if TYPE_CHECKING:
    from docstore.node.change_streams.scope import Scope
    from docstore.node.change_streams.shared_reader import SharedReader
    from docstore.node.node import DataNode
    from docstore.node.signals import Signal
    from docstore.storage.engine import Reader

_AT_ONCE = 128
"""Operations that are turned into events between two looks at the clock."""
_READ_AHEAD = 1024
_CHANGED = ("update", "replace", "delete")
_MAJORITY = ReadConcern(ReadLevel.MAJORITY)
_ABOUT_IMAGES = (b"fullDocument", b"$$", b"$function")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Options of a stream: the operations in `scope`, with the images that `options` request.

    `large`: events may be larger than a document.
    """

    scope: Scope
    options: ChangeStreamOptions
    large: bool = False

    @property
    def wants_full(self) -> bool:
        """True if update events contain the current document."""
        return self.options.full_document != DEFAULT

    @property
    def wants_before(self) -> bool:
        return self.options.before_change != OFF


class ChangeStream:
    """The stream; see the module. `start`: the packed timestamp from which operations are reported.

    `taken`: the number of operations in scope. `lacks_view`: the last batch ended early because a document lookup needs
    the newest majority-committed state (`fetch_view`).
    """

    await_data = True

    def __init__(
        self,
        node: DataNode,
        reader: SharedReader,
        stream_options: StreamOptions,
        pipeline: Pipeline,
        environment: Environment,
        start: int,
    ) -> None:
        options = stream_options.options
        token = options.token
        self._node = node
        self._reader = reader
        self._options = stream_options
        self._scope = stream_options.scope
        self._scope_decisions: dict[str, bool] = {}
        self._shown_kinds = _shown_kinds(stream_options)
        self._early, pipeline = _early_filter(pipeline, stream_options)
        pipeline, splits = split_off(pipeline)
        self._stages = EventStages(pipeline, environment, splits=splits)
        self._position = start - 1
        self._number: int | None = None
        self._pending: deque[StreamOperation] = deque()
        self._ready: deque[Made] = deque()
        self._after = token
        self._awaited = token if token is not None and not token.is_mark else None
        self._token = high_water_mark(start) if token is None else token.raw
        self._token_time = start if token is None else token.timestamp
        self.gives_large = stream_options.large
        self._end: tuple[bytes, int] | None = None
        self._view: tuple[Reader, Callable[[], None]] | None = None
        self.taken = 0
        self.lacks_view = False
        reader.opened()

    # Methods of a cursor's source

    def next_batch(self, max_docs: int, max_bytes: int, deadline: float) -> Batch:
        documents: list[bytes] = []
        room = max_bytes
        ready = self._ready
        clock = self._node.clock
        while len(documents) < max_docs:
            if ready:
                document = ready[0][0]
                if documents and len(document) > room:
                    return Documents(documents, False)
                room -= len(document)
                documents.append(document)
                _, self._token, self._token_time = ready.popleft()
                continue
            if self._end is not None:
                return Documents(documents, True)
            if documents and clock() >= deadline:
                return Documents(documents, False)
            if not self._pending and not self._read(deadline):
                return Documents(documents, False, at_end=self._is_at_end(self._reader.committed))
            self._make_ready()
            if self.lacks_view:
                return Documents(documents, False, at_end=True)
            if not ready and clock() >= deadline:
                return Documents(documents, False)
        return Documents(documents, self.is_invalidated)

    def wait(self, timeout: float) -> Signal | None:
        """Return a signal with a timeout in seconds for further events; None if there may be some now."""
        reader = self._reader
        return reader.news(self._scope.name, timeout) if self._is_at_end(reader.committed) else None

    def passes_on(self) -> bool:
        """Skip to the commit point if no event before it is left; return False if there may be one."""
        committed = self._reader.committed
        if self._ready or self._end is not None or not self._is_at_end(committed):
            return False
        self._position = max(self._position, committed)
        return True

    def close(self) -> None:
        """Release all resources."""
        self.release_view()
        self._pending.clear()
        self._ready.clear()
        self._reader.closed()

    def _is_at_end(self, committed: int) -> bool:
        """Return True if everything up to the timestamp `committed`, the commit point, was read."""
        reader = self._reader
        if committed > reader.end:
            return False
        if self._position > committed:
            return True
        return not self._pending and self._number is not None and self._number >= reader.next_number

    @property
    def is_invalidated(self) -> bool:
        """True if the stream was invalidated and all its events were returned."""
        return self._end is not None and not self._ready

    @property
    def resume_token(self) -> bytes:
        """The raw token of the position behind all returned events."""
        if self._ready:
            return self._token
        if self._end is not None:
            return self._end[0]
        timestamp = self._pending[0].timestamp - 1 if self._pending else self._position
        return high_water_mark(timestamp) if timestamp > self._token_time else self._token

    # Reading the oplog

    def _read(self, deadline: float) -> bool:
        """Fetch operations; return False if there are none before the commit point, or time is up."""
        reader = self._reader
        if self._position > reader.committed:
            # The stream starts in the future: the cache serves only to wake it.
            reader.join(reader.committed)
            reader.advance(deadline)
            return False
        while not self._pending:
            if self._number is None:
                self._number = reader.join(self._position)
            if self._number is None:
                if not self._read_alone(deadline):
                    return False
                continue
            operations = reader.operations(self._number, _READ_AHEAD)
            if operations is None:
                self._number = None
                continue
            if not operations:
                reader.advance(deadline)
                operations = reader.operations(self._number, _READ_AHEAD)
                if operations is None:
                    continue
            if not operations:
                self._position = max(self._position, reader.end)
                return False
            self._number += len(operations)
            self._take(operations)
            self._position = operations[-1].timestamp
        return True

    def _read_alone(self, deadline: float) -> bool:
        """Read the oplog directly if the shared reader does not have the next entries; return False when time is up.

        Errors: ChangeStreamHistoryLost.
        """
        oplog, committed = self._reader.oplog, self._reader.committed
        if is_lost(oplog, self._position):
            raise history_lost()
        clock = self._node.clock
        for read, entry in enumerate(oplog.scan(self._node.engine, self._position), 1):
            timestamp = entry_optime(entry).timestamp
            if timestamp > committed:
                break
            self._take(operations_in(entry, oplog))
            self._position = timestamp
            if len(self._pending) >= _READ_AHEAD:
                return True
            if read % _AT_ONCE == 0 and clock() >= deadline:
                return bool(self._pending)
        self._position = max(self._position, committed)
        return True

    def _take(self, operations: Sequence[StreamOperation]) -> None:
        takes, decisions = self._scope.takes, self._scope_decisions
        before = len(self._pending)
        for operation in operations:
            if operation.of_document:
                # Of a collection's document changes a stream takes all or none.
                in_scope = decisions.get(operation.namespace)
                if in_scope is None:
                    if len(decisions) >= MAX_CACHED_STREAM_DECISIONS:
                        decisions.clear()
                    in_scope = decisions[operation.namespace] = takes(operation)
            else:
                in_scope = takes(operation)
            if in_scope:
                self._pending.append(operation)
        self.taken += len(self._pending) - before

    # Building events

    def _make_ready(self) -> None:
        """Turn the next operations into events."""
        events: list[Made] = []
        self.lacks_view = False
        pending = self._pending
        early = self._early
        while pending and len(events) < _AT_ONCE and self._end is None:
            operation = pending[0]
            if (
                operation.kind in self._shown_kinds
                and operation.of_document
                and self._after is None
                and self._awaited is None
            ):
                event_shown = plain_event(operation)
                if early is None or early.matches(event_shown[0]):
                    events.append(event_shown)
                pending.popleft()
                continue
            event = event_of(operation)
            after = self._after
            if after is None or operation.timestamp > after.timestamp:
                self._after = None
                document = self._document(event, operation)
                if document is None:
                    self.lacks_view = True
                    break
                self._add(events, document, event.token.raw, operation.timestamp)
            elif event.token.key == after.event_key and self._lets_pass(event.document(expanded=self._scope.expanded)):
                self._awaited = None
                if after.fragment:
                    # Its remaining fragments are still to be returned.
                    self._after, self._stages.given = None, after.fragment
                    continue
            elif event.token.key > after.event_key:
                # Operations behind the start position within the same entry.
                self._after = None
                continue
            pending.popleft()
            if self._scope.invalidated_by(operation):
                self._invalidate(events, event, operation.timestamp)
        self._ready += self._stages.transformed(events)

    def _invalidate(self, events: list[Made], event: Event, timestamp: int) -> None:
        """End the stream behind the event, unless it was opened behind that end."""
        token = event.token
        if self._after is None or token.invalidation_key > self._after.key:
            self._after = None
            self._end = token.invalidation_raw, timestamp
            self._add(events, event.invalidation(), token.invalidation_raw, timestamp)
        elif token.invalidation_key == self._after.key:
            self._awaited = None

    def _lets_pass(self, document: bytes) -> bool:
        return self._early is None or self._early.matches(document)

    def _add(self, events: list[Made], document: bytes, token: bytes, timestamp: int) -> None:
        if not self._lets_pass(document):
            return
        if self._awaited is not None:
            token_text = display((OBJECT, token))
            raise fatal(f"cannot resume stream; the resume token was not found. {token_text}")
        events.append((document, token, timestamp))

    def _document(self, event: Event, operation: StreamOperation) -> bytes | None:
        """Return the event with the requested images; None if a view must be fetched first."""
        stream_options, kind = self._options, operation.kind
        expanded = self._scope.expanded
        full = stream_options.wants_full and kind == "update"
        before = stream_options.wants_before and kind in _CHANGED
        if operation.of_view or not (full or before):
            return event.document(expanded=expanded)
        image = post = None
        how = stream_options.options.full_document
        if before or (full and how != LOOKUP):
            image = pre_image(self._node.store, operation)
            if image is None and before and stream_options.options.before_change == REQUIRED:
                raise _no_image("pre-image for all update, delete and replace events", "pre-image", operation)
        if full and how == LOOKUP:
            if self._view is None:
                return None
            post = current_document(self._node.store, self._view[0], operation)
        elif full:
            post = None if image is None else post_image(image, operation)
            if post is None and how == REQUIRED:
                raise _no_image("post-image for all update events", "post-image", operation)
        field = None
        if before:
            field = b"\x0afullDocumentBeforeChange\0" if image is None else b"\x03fullDocumentBeforeChange\0" + image
        return event.with_images(expanded=expanded, full=post, asked_full=full, before=field)

    # Document lookups

    async def fetch_view(self, deadline: float | None) -> None:
        """Fetch the newest majority-committed state for the rest of the batch. Errors: MaxTimeMSExpired."""
        self.release_view()
        # Events built before may fill the batch.
        self.lacks_view = False
        self._view = await self._node.replication.reader(_MAJORITY, deadline)

    def release_view(self) -> None:
        """Release that state."""
        view, self._view = self._view, None
        if view is not None:
            view[1]()


def _shown_kinds(options: StreamOptions) -> frozenset[str]:
    """Return the kinds of document changes whose events do not depend on the stream's options."""
    if options.scope.expanded:
        return frozenset()
    kinds = {"insert", *_CHANGED}
    if options.wants_before:
        kinds.difference_update(_CHANGED)
    if options.wants_full:
        kinds.discard("update")
    return frozenset(kinds)


def leading_filters(pipeline: Pipeline, options: StreamOptions) -> tuple[list[Filter], Pipeline]:
    """Return (the filters of the leading `$match` stages, the stages behind them).

    Stages about images are not among the filters, because they need the images first.
    """
    filters = []
    for stage in pipeline.stages:
        if not isinstance(stage, Match) or (
            (options.wants_full or options.wants_before) and any(text in stage.raw for text in _ABOUT_IMAGES)
        ):
            break
        filters.append(stage.filter)
    remaining = replace(pipeline, stages=pipeline.stages[len(filters) :])
    return filters, remaining


def _early_filter(pipeline: Pipeline, options: StreamOptions) -> tuple[Predicate | None, Pipeline]:
    filters, remaining = leading_filters(pipeline, options)
    return (compile_filter(conjunction(filters)) if filters else None), remaining


def _no_image(which: str, image: str, operation: StreamOperation) -> CommandError:
    return CommandError(
        Code.NoMatchingDocument,
        f"Change stream was configured to require a {which}, but the {image} was not found for event: "
        f"{{operationType: {operation.kind}, ns: {operation.namespace}}}",
    )
