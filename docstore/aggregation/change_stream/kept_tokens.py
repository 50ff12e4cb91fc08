"""The stages behind `$changeStream` at work on events, whose tokens must come out of them as they went in."""

from __future__ import annotations

import math
from collections.abc import Sequence

from docstore.aggregation.change_stream.errors import fatal
from docstore.aggregation.pipeline import Pipeline
from docstore.aggregation.stage import Environment
from docstore.aggregation.streams import Feed
from docstore.bson import get_field
from docstore.bson.walk import OBJECT
from docstore.errors import CommandError
from docstore.query.value.notation import display

Made = tuple[bytes, bytes, int]
"""(event, its raw token, its packed timestamp)."""


class EventStages:
    """The stages of one stream."""

    def __init__(self, pipeline: Pipeline, environment: Environment) -> None:
        self._feed = Feed()
        self._stages = pipeline.open(self._feed, environment) if pipeline.stages else None

    def transformed(self, made: Sequence[Made]) -> list[Made]:
        """What they make of events. Errors: ChangeStreamFatalError where one has lost its token."""
        if self._stages is None or not made:
            return list(made)
        results: list[Made] = []
        self._feed.put([document for document, _, _ in made])
        at = 0
        while documents := self._stages.next_batch(math.inf)[0]:
            for document in documents:
                identity = get_field(document, "_id")
                found = None if identity is None else identity[1]
                place = at
                while place < len(made) and made[place][1] != found:
                    place += 1
                if place == len(made) or identity is None or identity[0] != OBJECT:
                    raise _modified(made[min(at, len(made) - 1)][1], document)
                results.append((document, made[place][1], made[place][2]))
                at = place + 1
        return results


def _modified(token: bytes, found: bytes) -> CommandError:
    identity = get_field(found, "_id")
    shown = "{}" if identity is None else display(identity)
    return fatal(
        "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Only "
        "transformations that retain the unmodified _id field are allowed, as the stream could not be resumed. "
        f"Expected: {display((OBJECT, token))} but found: {shown}"
    )
