"""Projections that are sent again and again, parsed once."""

from __future__ import annotations

from functools import lru_cache

from docstore.aggregation.expression_context import new_context
from docstore.errors import CommandError
from docstore.query.projection.parse import parse_projection
from docstore.query.projection.projection import Projection, metadata_kinds

_LONGEST = 1024
"""What is longer than this is not sent again as it is, and not remembered."""


def known_projection(raw: bytes) -> Projection | None:
    """The projection, where it is short and knows nothing but a document: neither how that was found nor a request."""
    return _known_projection(raw) if len(raw) <= _LONGEST else None


@lru_cache(maxsize=256)
def _known_projection(raw: bytes) -> Projection | None:
    try:
        projection = parse_projection(raw, query_context=new_context())
    except CommandError:
        # The general way says so.
        return None
    return projection if isinstance(projection, Projection) and not metadata_kinds(projection) else None
