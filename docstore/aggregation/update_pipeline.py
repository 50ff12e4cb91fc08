"""Pipelines as updates: stages that map one document to one, as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from docstore.aggregation.stage import Environment, PlainStage
from docstore.aggregation.stages import project, replace_root
from docstore.aggregation.streams import StageRun
from docstore.bson.walk import ARRAY, Value, elements, values
from docstore.errors import Code, CommandError
from docstore.query.context import QueryContext
from docstore.query.value.values import text_of

_STAGES = {declaration.name: declaration for module in (project, replace_root) for declaration in module.DECLARATIONS}


def compile_update(
    stages: Sequence[bytes], query_context: QueryContext
) -> tuple[Callable[[bytes], bytes], frozenset[bytes] | None]:
    """Return (function from a document to its update, top-level fields it may change; None: any).

    Errors: InvalidOptions for a stage not allowed in updates, those of the stages.
    """
    environment = Environment(clock=lambda: 0.0)
    runs: list[StageRun] = []
    changed: frozenset[bytes] | None = frozenset()
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
        named = _named(name, (code, data))
        changed = None if changed is None or named is None else changed | named

    def transform(document: bytes) -> bytes:
        for run in runs:
            (document,) = run.push([document])
        return document

    return transform, changed


def _named(stage: str, value: Value) -> frozenset[bytes] | None:
    """Return the top-level fields that a parsed stage may change; None: any."""
    code, data = value
    if stage in ("$addFields", "$set"):
        paths = [name for name, _, _ in elements(data)]
    elif stage == "$unset":
        paths = [text_of(path_value) for path_value in (values(data) if code == ARRAY else [value])]
    else:
        return None
    return frozenset([path.partition(".")[0].encode() for path in paths])
