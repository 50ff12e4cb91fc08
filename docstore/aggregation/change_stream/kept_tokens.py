"""The pipeline of a change stream after `$changeStream`, run over events whose resume tokens it must not modify."""

from __future__ import annotations

import math
from collections.abc import Sequence

from docstore.aggregation.change_stream.errors import fatal
from docstore.aggregation.change_stream.splitting import MOST_BYTES, fragments_of
from docstore.aggregation.stage import Environment, Pipeline
from docstore.aggregation.streams import Feed
from docstore.bson import get_field
from docstore.bson.walk import OBJECT
from docstore.errors import CommandError
from docstore.query.value.notation import display

Made = tuple[bytes, bytes, int]
"""(event, its raw token, its packed timestamp)."""


class EventStages:
    """The pipeline of one stream. `splits`: large events are split into fragments."""

    def __init__(self, pipeline: Pipeline, environment: Environment, *, splits: bool = False) -> None:
        self._feed = Feed()
        self._stages = pipeline.open(self._feed, environment) if pipeline.stages else None
        self._splits = splits
        self.given = 0
        """Fragments of the next event that have already been returned."""

    def transformed(self, input_events: Sequence[Made]) -> list[Made]:
        """Return the output of the pipeline for these events.

        Errors: ChangeStreamFatalError if it modified a token, or if an event has fewer fragments than were already
        returned; 7182500.
        """
        events = self._transformed(input_events)
        if not events or not (self._splits or self.given):
            return events
        split: list[Made] = []
        for event in events:
            split += self._split(event)
        return split

    def _split(self, event: Made) -> list[Made]:
        document, token, timestamp = event
        first_index, self.given = self.given, 0
        if not self._splits or len(document) <= MOST_BYTES:
            if first_index:
                raise fatal("cannot resume stream; the event of the resume token is not split here")
            return [event]
        fragments = fragments_of(document, token)
        if first_index > len(fragments):
            raise fatal("cannot resume stream; the event of the resume token has fewer fragments here")
        return [(part, raw, timestamp) for part, raw in fragments[first_index:]]

    def _transformed(self, input_events: Sequence[Made]) -> list[Made]:
        if self._stages is None or not input_events:
            return list(input_events)
        results: list[Made] = []
        self._feed.append([document for document, _, _ in input_events])
        at = 0
        while documents := self._stages.next_batch(math.inf)[0]:
            for document in documents:
                identity = get_field(document, "_id")
                token = None if identity is None else identity[1]
                position = at
                while position < len(input_events) and input_events[position][1] != token:
                    position += 1
                if position == len(input_events) or identity is None or identity[0] != OBJECT:
                    raise _modified(input_events[min(at, len(input_events) - 1)][1], document)
                results.append((document, input_events[position][1], input_events[position][2]))
                at = position + 1
        return results


def _modified(token: bytes, document: bytes) -> CommandError:
    identity = get_field(document, "_id")
    text = "{}" if identity is None else display(identity)
    return fatal(
        "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Only "
        "transformations that retain the unmodified _id field are allowed, as the stream could not be resumed. "
        f"Expected: {display((OBJECT, token))} but found: {text}"
    )
