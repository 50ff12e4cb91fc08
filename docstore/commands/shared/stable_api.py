"""Which stages and indexes the Stable API, version 1, has not."""

from __future__ import annotations

from collections.abc import Iterable

from docstore.bson import array_documents, elements, get_field
from docstore.bson.walk import ARRAY, OBJECT
from docstore.errors import Code, CommandError

_UNSTABLE = frozenset(("$currentOp", "$fill", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats"))


def check_stable_stages(stages: Iterable[bytes]) -> None:
    """Refuse what clients with `apiStrict` may not use, in nested pipelines too. Errors: APIStrictError."""
    for stage in stages:
        for name, code, data in elements(stage)[:1]:
            if name in _UNSTABLE or (name == "$collStats" and code == OBJECT and not _counts_only(data)):
                raise CommandError(Code.APIStrictError, f"stage {name} is not allowed with apiStrict in API Version 1")
            if code == OBJECT:
                _check_nested(name, data)


def _counts_only(options: bytes) -> bool:
    return all(name == "count" for name, _, _ in elements(options))


def _check_nested(stage: str, options: bytes) -> None:
    if stage == "$facet":
        pipelines = [(code, data) for _, code, data in elements(options)]
    else:
        inner = get_field(options, "pipeline")
        pipelines = [] if inner is None else [inner]
    for code, data in pipelines:
        if code == ARRAY and all(kind == OBJECT for _, kind, _ in elements(data)):
            check_stable_stages(array_documents(data))
