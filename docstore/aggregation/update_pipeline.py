"""A pipeline in the place of an update: the stages that make one document of one, as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docstore.aggregation.stage import Environment, StageRun
from docstore.aggregation.stages import project, replace_root
from docstore.aggregation.streams import PlainStage
from docstore.bson.walk import elements
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext

_STAGES = {declaration.name: declaration for module in (project, replace_root) for declaration in module.DECLARATIONS}


def compile_update(stages: Sequence[bytes], query_context: QueryContext) -> Callable[[bytes], bytes]:
    """The function from a document to the one that the stages make of it.

    Errors: InvalidOptions for a stage that updates do not have, those of the stages.
    """
    environment = Environment(clock=lambda: 0.0)
    runs: list[StageRun] = []
    for raw in stages:
        fields = elements(raw)
        if len(fields) != 1:
            raise CommandError(40323, "A pipeline stage specification object must contain exactly one field.")
        name, code, data = fields[0]
        if name not in _STAGES:
            raise CommandError(Code.InvalidOptions, f"{name} is not allowed to be used within an update")
        for stage in _STAGES[name].parse((code, data), query_context):
            assert isinstance(stage, PlainStage), "the stages of an update look at one document at a time"
            runs.append(stage.start(environment))

    def transform(document: bytes) -> bytes:
        for run in runs:
            (document,) = run.push([document])
        return document

    return transform
