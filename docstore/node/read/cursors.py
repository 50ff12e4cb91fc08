# cython: annotation_typing=False
"""Cursors over the node's data: filling batches and assembling replies.

* A batch ends at its number of documents, or before it would exceed 16 MiB; only its first document may be larger.
* Filling holds the event loop for at most a slice at a time.
* Replies are joined from stored bytes, with MongoDB's field order: data cursors put the batch before the id, cursors
  over the catalog after it.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import cython

from docstore.bson import documents_array_parts, members_of_array
from docstore.bson.build import DocumentParts, bytes_of
from docstore.commands.context import Context
from docstore.commands.declaration import Encoded, Exceptional, Parameter, Type
from docstore.commands.limits import check_internal_size
from docstore.js import script_thread
from docstore.node.node import DataNode, node_of
from docstore.node.read.sources import Documents, DocumentSource, Evaluating, HeldBack
from docstore.node.slices import PAUSE, Steps, step_end
from docstore.query.pausing import PAUSING, REFUSED

MAX_BATCH_BYTES = 16 * 1024 * 1024

BATCH_BYTES = Exceptional(
    "a router holds what several shards give it",
    Parameter("batchBytes", Type.INT, default=MAX_BATCH_BYTES, minimum=1, maximum=MAX_BATCH_BYTES, internal=True),
)
"""Parameter of commands that return batches: their maximum bytes."""

LARGE_EVENTS = Exceptional(
    "a router's stages may make events small, or split them",
    Parameter("largeEvents", Type.BOOL, default=False, internal=True),
)
"""Parameter of commands that open a change stream: events may be larger than a document."""

FIRST_BATCH_DOCUMENTS = 101
LARGE_BYTES = 1024 * 1024
"""Bytes of a batch from which its copy gets a step of its own."""

_PIECE_BYTES = 256 * 1024
"""Bytes of a batch that are joined at a time while it is filled.

Their documents are freed before more are read, so that the next ones reuse memory that is in the processor's cache.
"""
_FIRST_PIECE = 128
"""Documents of the first piece."""

_LONG = struct.Struct("<q")
_INT = struct.Struct("<i")


class Filling:
    """A batch that is filled in steps.

    A step that ends before its deadline has completed the batch: the source has no more that fits. A document that does
    not fit is pushed back, which replaces `source`. `fields`: encoded reply fields behind the batch.
    """

    __slots__ = (
        "_bytes_left", "_docs_left", "_documents", "_joined", "_max_bytes", "_node", "count", "cursor_id", "exhausted",
        "fields", "source",
    )  # fmt: skip

    def __init__(self, source: DocumentSource, max_docs: int, node: DataNode, max_bytes: int = MAX_BATCH_BYTES) -> None:
        self.source = source
        self.count = 0
        self.exhausted = False
        self.cursor_id = 0
        self.fields = b""
        self._docs_left = max_docs
        self._bytes_left = self._max_bytes = max_bytes
        self._node = node
        # The first documents in their final form, the rest as read.
        self._joined: list[bytes] = []
        self._documents: list[bytes] = []

    @property
    def is_large(self) -> bool:
        """True if assembling the reply needs a turn of the event loop of its own."""
        return self._bytes_left < self._max_bytes - LARGE_BYTES

    def hold(self, documents: list[bytes]) -> None:
        """Set the batch to these documents."""
        self._documents = documents
        self.count = len(documents)

    def fill(self) -> Steps[None]:
        """Fill the batch in steps."""
        while not self._step():
            yield PAUSE
        if self.is_large:
            yield self._node.pause()

    def _step(self) -> bool:
        """Fill for one slice; return True when the batch is complete."""
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, REFUSED)
        try:
            return self._filled(step_end(self._node))
        finally:
            PAUSING.level = level

    def _filled(self, until: float) -> bool:
        if self._documents:
            self._join()
        piece_size = min(self._docs_left, _FIRST_PIECE)
        while self._docs_left > 0:
            batch = self.source.next_batch(piece_size, self._bytes_left, until)
            documents = batch.documents
            if isinstance(self.source, HeldBack) and self.source.is_spent:
                self.source = self.source.source
            size = 0
            if documents:
                size = bytes_of(documents)
                if size > self._bytes_left and self._hold_back(documents, batch.exhausted):
                    return True
                self._add(documents, size)
            if batch.exhausted:
                self.exhausted = True
                return True
            if isinstance(batch, Documents) and batch.at_end:
                return True
            is_whole = len(documents) == piece_size
            late = self._node.clock() >= until
            if late and self._docs_left > 0 and self._bytes_left > 0:
                return False
            if self._bytes_left <= 0 or not (late or is_whole):
                return True
            if is_whole and self._docs_left > 0:
                self._join()
                piece_size = min(self._docs_left, max(_PIECE_BYTES * piece_size // size, 1))
        return True

    def _hold_back(self, documents: list[bytes], ended: bool) -> bool:
        """Take all but the last of these documents; return True if that one can be pushed back.

        Errors: as `check_sizes`.
        """
        if self.count + len(documents) == 1:
            return False
        *fitting, last = documents
        self.check_sizes([last])
        self.source = HeldBack(self.source, last, ended)
        self._add(fitting, bytes_of(fitting))
        return True

    def _add(self, documents: list[bytes], size: int) -> None:
        self._documents += documents
        self.count += len(documents)
        self._docs_left -= len(documents)
        self._bytes_left -= size
        if self._bytes_left < 0:
            self.check_sizes(documents)

    def check_sizes(self, documents: list[bytes]) -> None:
        """Check the sizes of result documents. Errors: BSONObjectTooLarge."""
        for raw in documents:
            check_internal_size(raw)

    def _join(self) -> None:
        self._joined.append(members_of_array(self._documents, self.count - len(self._documents)))
        self._documents.clear()

    def array_parts(self) -> tuple[list[bytes], int]:
        """Return the array of the documents in the form of `documents_array_parts`."""
        return documents_array_parts(self._documents, self.count - len(self._documents), self._joined)

    def let_go(self, context: Context) -> Steps[None]:
        """Free the documents after the reply was assembled, and yield to other tasks."""
        self._joined.clear()
        self._documents.clear()
        try:
            yield self._node.pause()
        except BaseException:
            # The client has gone: the rest of the results is useless.
            context.services.cursors.kill(self.cursor_id)
            raise


def first_batch(
    context: Context,
    source: DocumentSource,
    *,
    batch_size: int | None,
    single: bool = False,
    no_timeout: bool = False,
    catalog: bool = False,
    namespace: str | None = None,
    max_bytes: int = MAX_BATCH_BYTES,
) -> Steps[Encoded]:
    """Return the reply that opens a cursor over `source`.

    The cursor stays if documents remain and the batch is not `single`. The source is closed if no cursor stays, also
    when filling fails.
    """
    most = FIRST_BATCH_DOCUMENTS if batch_size is None else batch_size
    return first_reply(
        context,
        Filling(source, most, node_of(context), max_bytes),
        single=single,
        no_timeout=no_timeout,
        catalog=catalog,
        namespace=namespace,
    )


def first_reply(
    context: Context,
    filling: Filling,
    *,
    single: bool = False,
    no_timeout: bool = False,
    catalog: bool = False,
    namespace: str | None = None,
) -> Steps[Encoded]:
    """Return the reply of `first_batch` for a batch that is still to be filled."""
    namespace = namespace or context.namespace
    try:
        yield from filling.fill()
    except BaseException:
        filling.source.close()
        raise
    reply = _opened(context, filling, single, no_timeout, catalog, namespace)
    if filling.is_large:
        yield from filling.let_go(context)
    return reply


def _opened(
    context: Context,
    filling: Filling,
    single: bool,
    no_timeout: bool,
    catalog: bool,
    namespace: str,
) -> Encoded:
    note_returned(context, filling)
    if filling.exhausted or single:
        filling.source.close()
    else:
        session = context.session
        cursor = context.services.cursors.register(
            filling.source,
            namespace,
            lsid=None if session is None else session.lsid,
            transaction=None if session is None else session.transaction,
            no_timeout=no_timeout,
            origin=context.redacted_request,
            owner=context.owner,
            needs=context.needs,
        )
        # Only the first batch can be restarted.
        stages = isinstance(filling.source, Evaluating) and filling.source.evaluates()
        cursor.apart = stages or script_thread.current() is not None
        cursor.returned = filling.count
        cursor.batches = 1
        cursor.at_cluster_time = context.at_cluster_time
        cursor.execution = None if context.begun_progress is None else context.begun_progress.execution
        if context.deadline is not None:
            cursor.time_left = context.deadline - node_of(context).clock()
        filling.cursor_id = cursor.id
    return filled_reply(filling, namespace, catalog=catalog, at=context.at_cluster_time)


def note_returned(context: Context, filling: Filling) -> None:
    """Record the batch's number of documents for the log."""
    execution = None if context.begun_progress is None else context.begun_progress.execution
    if execution is not None:
        execution.counts["nreturned"] = filling.count


def opened_reply(context: Context, documents: list[bytes], source: DocumentSource) -> bytes:
    """Return the reply with a complete first batch, and a cursor over `source`."""
    filling = Filling(source, 0, node_of(context))
    filling.hold(documents)
    reply = _opened(context, filling, False, False, False, context.namespace)
    assert isinstance(reply, bytes), "nothing was filled"
    return reply


@cython.ccall
def whole_reply(context: Context, documents: list[bytes], catalog: bool = False) -> DocumentParts:
    """Return the reply with all results, without a cursor; see `_reply`."""
    array, at = documents_array_parts(documents), context.at_cluster_time
    return _reply(array, 0, context.namespace, True, catalog, at, b"")


def cursor_reply(
    documents: list[bytes],
    cursor_id: int,
    namespace: str,
    *,
    first: bool = True,
    catalog: bool = False,
    at: int | None = None,
) -> bytes:
    """Return the reply with a batch from a list; see `_reply`."""
    array = documents_array_parts(documents)
    return _reply(array, cursor_id, namespace, first, catalog, at, b"").document()


def filled_reply(
    filling: Filling,
    namespace: str,
    *,
    first: bool = True,
    catalog: bool = False,
    at: int | None = None,
) -> Encoded:
    """Return the reply with the filled batch, in parts if it is large; see `_reply`."""
    array, fields = filling.array_parts(), filling.fields
    reply = _reply(array, filling.cursor_id, namespace, first, catalog, at, fields)
    return reply if filling.is_large else reply.document()


@cython.cfunc
def _reply(
    array: tuple[list[bytes], int],
    cursor_id: int,
    namespace: str,
    first: bool,
    catalog: bool,
    at: int | None,
    behind: bytes,
) -> DocumentParts:
    """Return `{cursor: {firstBatch | nextBatch, id, ns, atClusterTime?}}`.

    `at` is a packed timestamp, `behind` are encoded fields between batch and id.
    """
    batch = b"\x04firstBatch\0" if first else b"\x04nextBatch\0"
    identity = _identity(cursor_id, namespace) if cursor_id else _without_cursor(namespace)
    if at is not None:
        identity += b"\x11atClusterTime\0" + at.to_bytes(8, "little")
    before, after = (identity + batch, b"\0") if catalog else (batch, behind + identity + b"\0")
    pieces, size = array
    inside = 4 + len(before) + size + len(after)
    pieces[0] = b"".join((b"\x03cursor\0", inside.to_bytes(4, "little"), before, pieces[0]))
    pieces.append(after)
    return DocumentParts(pieces, inside + 8)


def _identity(cursor_id: int, namespace: str) -> bytes:
    name = namespace.encode()
    return b"".join((b"\x12id\0", _LONG.pack(cursor_id), b"\x02ns\0", _INT.pack(len(name) + 1), name, b"\0"))


@lru_cache(maxsize=1024)
def _without_cursor(namespace: str) -> bytes:
    """Return `_identity` without a cursor, as in most replies."""
    return _identity(0, namespace)
