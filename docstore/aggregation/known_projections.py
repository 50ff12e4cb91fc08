"""A cache of parsed projections."""

from __future__ import annotations

from functools import lru_cache

from docstore.aggregation.expression_context import new_context
from docstore.aggregation.limits import MAX_CACHED_PROJECTION_BYTES
from docstore.errors import CommandError
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import Projection, metadata_kinds


def known_projection(raw: bytes) -> Projection | None:
    """Return the projection if it is short and depends on the document alone: on neither the find's metadata nor the
    request.
    """
    return _known_projection(raw) if len(raw) <= MAX_CACHED_PROJECTION_BYTES else None


@lru_cache(maxsize=256)
def _known_projection(raw: bytes) -> Projection | None:
    try:
        projection = parse_projection(raw, query_context=new_context())
    except CommandError:
        # The regular parser reports the error.
        return None
    return projection if isinstance(projection, Projection) and not metadata_kinds(projection) else None
