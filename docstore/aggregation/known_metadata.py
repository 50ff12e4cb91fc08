"""Document metadata (`$meta`) known in a pipeline, as functions of the documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docstore.aggregation.stage import Stage
from docstore.query.metadata import Measure


def known_metadata(stages: Sequence[Stage], of_input: Mapping[str, Measure]) -> Mapping[str, Measure]:
    """Return the metadata known after the stages: those of the find of the first stage, else `of_input`.

    They remain known while the stages keep documents unchanged.
    """
    measures = (stages[0].measures if stages else None) or of_input
    return measures if all(stage.keeps_documents for stage in stages) else {}
