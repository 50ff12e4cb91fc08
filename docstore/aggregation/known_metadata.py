"""The metadata (`$meta`) that are known of the documents of a pipeline, as functions of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docstore.aggregation.stage import Stage
from docstore.query.metadata import Measure


def known_metadata(stages: Sequence[Stage], of_input: Mapping[str, Measure]) -> Mapping[str, Measure]:
    """Return the metadata that are known behind the stages: those of a find that the first stage stands for, else
    those `of_input`, as long as documents are as they were.
    """
    measures = (stages[0].measures if stages else None) or of_input
    return measures if all(stage.keeps_documents for stage in stages) else {}
