"""The metadata (`$meta`) that are known of the documents of a pipeline, as functions of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docstore.aggregation.stage import Stage
from docstore.aggregation.stages.match import Match
from docstore.query.metadata import Measure, measures_of


def known_metadata(stages: Sequence[Stage], given: Mapping[str, Measure]) -> Mapping[str, Measure]:
    """What is known behind these stages, while documents are as they were: of a find, or what is `given` of those that
    come in.
    """
    first = stages[0] if stages else None
    if isinstance(first, Match) and (found := measures_of(first.filter)):
        given = found
    return given if all(each.keeps_documents for each in stages) else {}
