"""Pipelines over Python documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from docstore.aggregation.pipeline import Pipeline, PipelineRun, parse_pipeline
from docstore.aggregation.stage import Environment
from docstore.errors import CommandError
from tests.unit.query.raw import decoded, raw

ENVIRONMENT = Environment(clock=lambda: 0.0)
NEVER = -1.0
"""A deadline that has always passed: runs hand out as little as they may at a time."""


def parsed(stages: Sequence[dict[str, Any]]) -> Pipeline:
    return parse_pipeline([raw(stage) for stage in stages])


def drain(run: PipelineRun, documents: Iterable[bytes], batch: int = 3) -> list[bytes]:
    """Everything that comes out, the documents pushed a few at a time."""
    given = list(documents)
    found: list[bytes] = []
    for start in range(0, len(given), batch):
        if run.satisfied:
            break
        found += run.push(given[start : start + batch])
    while True:
        more, done = run.finish(NEVER)
        found += more
        if done:
            return found


def aggregate(stages: Sequence[dict[str, Any]], documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    run = parsed(stages).start(ENVIRONMENT)
    return [decoded(document) for document in drain(run, map(raw, documents))]


def refusal(stages: Sequence[dict[str, Any]], documents: Sequence[dict[str, Any]] = ()) -> int:
    """The code with which parsing or running the pipeline is refused."""
    try:
        aggregate(stages, documents)
    except CommandError as error:
        return error.code
    raise AssertionError(f"{stages} was not refused")
