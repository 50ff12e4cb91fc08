"""The one table of expression operators."""

from __future__ import annotations

from docstore.aggregation.expressions import (
    arithmetic,
    arrays,
    comparison,
    conditional,
    conversion,
    date_arithmetic,
    date_parts,
    date_text,
    objects,
    sets,
    strings,
)
from docstore.aggregation.expressions.model import Table

OPERATORS: Table = {
    **arithmetic.OPERATORS,
    **arrays.OPERATORS,
    **comparison.OPERATORS,
    **conditional.OPERATORS,
    **conversion.OPERATORS,
    **date_arithmetic.OPERATORS,
    **date_parts.OPERATORS,
    **date_text.OPERATORS,
    **objects.OPERATORS,
    **sets.OPERATORS,
    **strings.OPERATORS,
}
