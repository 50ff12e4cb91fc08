"""Document streams, and the runs of plain stages over them.

A stream is pulled: its reader requests a batch, and the stream requests one from its source. Every request has a
deadline, so that the driver can stop between any two documents and continue later. A batch may be empty and not the
last: the deadline has passed, or a feed must be filled first (`Feed.hungry`). This module knows no stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from docstore.query.pausing import PAUSED, PAUSING

CLOCK_EVERY = 128
"""Documents returned between two checks of the clock."""

GIVEN_BYTES = 256 * 1024
"""Bytes per batch of a blocking stage: documents not requested yet stay where they are."""

PUSHED = 128
"""Documents passed to a plain stage between two checks of the clock."""

SEGMENT_STAGES = 8
"""Stages that pull each other directly. Each takes a stack frame, and pipelines nest."""


class Stream(Protocol):
    """A source of documents."""

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        """Return a batch of documents, and True if it is the last. Not called again after the last."""
        ...


class StageRun(Protocol):
    """The state of one plain stage over one stream."""

    @property
    def satisfied(self) -> bool:
        """True once further input cannot change the output, as with a limit."""
        ...

    def push(self, documents: list[bytes]) -> list[bytes]:
        """Add documents and return the output that is ready."""
        ...

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        """Return a batch of the remaining output, and True if it is the last. Called after the last push, until it
        is.
        """
        ...


class Streaming:
    """The run of a stateless stage that maps each batch to another."""

    __slots__ = ("_work",)

    satisfied = False

    def __init__(self, work: Callable[[list[bytes]], list[bytes]]) -> None:
        self._work = work

    def push(self, documents: list[bytes]) -> list[bytes]:
        return self._work(documents)

    def finish(self, deadline: float) -> tuple[list[bytes], bool]:
        return [], True


def hand_out(
    documents: Iterator[bytes | None], clock: Callable[[], float], deadline: float
) -> tuple[list[bytes], bool]:
    """Return about GIVEN_BYTES of an iterator's documents, until the deadline, and True if these are the last.

    None in the iterator represents work without a result.
    """
    batch: list[bytes] = []
    size = 0
    for steps, document in enumerate(documents, 1):
        if document is not None:
            batch.append(document)
            size += len(document)
            if size >= GIVEN_BYTES:
                return batch, False
        if steps % CLOCK_EVERY == 0 and clock() >= deadline:
            return batch, False
    return batch, True


class Pushed:
    """A plain stage over a source."""

    __slots__ = ("_at", "_clock", "_fed", "_given", "_last", "_run", "_source")

    def __init__(self, source: Stream, run: StageRun, clock: Callable[[], float]) -> None:
        self._source = source
        self._run = run
        self._clock = clock
        self._given: list[bytes] = []
        self._at = 0
        self._last = False
        self._fed = False

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        while not self._fed:
            if self._at == len(self._given):
                if self._last or self._run.satisfied:
                    self._fed = True
                    break
                self._given, self._last = self._source.next_batch(deadline)
                self._at = 0
                if not self._given and not self._last:
                    return [], False
            output = self._push(deadline)
            if output:
                return output, False
            if self._clock() >= deadline:
                return [], False
        self._given = []
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
        try:
            return self._run.finish(deadline)
        finally:
            PAUSING.level = level

    def _push(self, deadline: float) -> list[bytes]:
        """Return the output for the pending documents, or for as many as the deadline allows."""
        run, documents, output = self._run, self._given, list[bytes]()
        level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
        try:
            while self._at < len(documents) and not run.satisfied:
                part = documents if len(documents) <= PUSHED else documents[self._at : self._at + PUSHED]
                self._at += len(part)
                output = output + run.push(part) if output else run.push(part)
                if self._clock() >= deadline:
                    return output
        finally:
            PAUSING.level = level
        self._at = len(documents)
        return output


class Expanded:
    """Yields the documents that each source document expands to, lazily: those of one may exceed memory."""

    __slots__ = ("_clock", "_expand", "_last", "_made", "_source")

    def __init__(self, source: Stream, expand: Callable[[bytes], Iterable[bytes]], clock: Callable[[], float]) -> None:
        self._source = source
        self._expand = expand
        self._clock = clock
        self._made: Iterator[bytes] | None = None
        self._last = False

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        while True:
            if self._made is None:
                documents, self._last = self._source.next_batch(deadline)
                if not documents:
                    return [], self._last
                expand = self._expand
                self._made = (output for document in documents for output in expand(document))
            level, PAUSING.level = PAUSING.level, max(PAUSING.level, PAUSED)
            try:
                batch, ended = hand_out(self._made, self._clock, deadline)
            finally:
                PAUSING.level = level
            if ended:
                self._made = None
            if batch or self._last or self._clock() >= deadline:
                return batch, ended and self._last


class DocumentList:
    """A stream over a list."""

    __slots__ = ("_documents",)

    def __init__(self, documents: Sequence[bytes]) -> None:
        self._documents = documents

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        del deadline
        return list(self._documents), True


class Feed:
    """A stream that a driver fills, a batch at a time, because it has to wait for the documents."""

    __slots__ = ("_documents", "_ended")

    def __init__(self) -> None:
        self._documents: list[bytes] = []
        self._ended = False

    def append(self, documents: list[bytes]) -> None:
        """Append documents."""
        self._documents += documents

    def end(self) -> None:
        """Close the stream: no more documents follow."""
        self._ended = True

    @property
    def hungry(self) -> bool:
        """True if the stream is empty and not closed."""
        return not self._documents and not self._ended

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        del deadline
        documents, self._documents = self._documents, []
        return documents, self._ended


class _Segments:
    """A long pipeline in segments: each reads the previous one's output from a `Feed`, and runs when there is input.

    So the stack depth does not grow with the number of stages.
    """

    __slots__ = ("_clock", "_feeds", "_position", "_streams")

    def __init__(self, segments: Sequence[Stream], feeds: Sequence[Feed], clock: Callable[[], float]) -> None:
        """`feeds`: the inputs of all segments but the first."""
        self._streams = segments
        self._feeds = feeds
        self._clock = clock
        self._position = len(segments) - 1

    def next_batch(self, deadline: float) -> tuple[list[bytes], bool]:
        streams, feeds = self._streams, self._feeds
        is_late = self._clock() >= deadline
        while True:
            # The position persists between calls, so that every call makes progress, however short its deadline.
            position = self._position
            documents, ended = streams[position].next_batch(deadline)
            has_output = bool(documents) or ended
            if position == len(feeds):
                if has_output:
                    return documents, ended
            elif has_output:
                feeds[position].append(documents)
                if ended:
                    feeds[position].end()
                self._position += 1
            if not has_output:
                # A segment out of time may have work left: give it no more input.
                if not position or not feeds[position - 1].hungry or (self._clock() >= deadline and not is_late):
                    return [], False
                self._position -= 1
            if self._clock() >= deadline:
                return [], False


def chained(openings: Sequence[Callable[[Stream], Stream]], source: Stream, clock: Callable[[], float]) -> Stream:
    """Return the stages, each of which is opened over the one before it, as one stream over `source`."""
    segments: list[Stream] = []
    feeds: list[Feed] = []
    stream = source
    for position, opening in enumerate(openings):
        if position and position % SEGMENT_STAGES == 0:
            segments.append(stream)
            feeds.append(Feed())
            stream = feeds[-1]
        stream = opening(stream)
    return _Segments([*segments, stream], feeds, clock) if feeds else stream


def drained(stream: Stream, clock: Callable[[], float], until: float) -> list[bytes] | None:
    """Return all documents of a stream; None if it has not ended by `until`."""
    documents: list[bytes] = []
    ended = False
    while not ended:
        batch, ended = stream.next_batch(until)
        documents += batch
        if not ended and clock() >= until:
            return None
    return documents
