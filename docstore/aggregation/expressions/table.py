"""The table of all expression operators."""

from __future__ import annotations

from docstore.aggregation.expressions import (
    arithmetic,
    array_order,
    arrays,
    comparison,
    conditional,
    conversion,
    date_arithmetic,
    date_parts,
    date_text,
    fields,
    objects,
    outside,
    quantiles,
    regexes,
    scripts,
    sets,
    strings,
    trigonometry,
)
from docstore.aggregation.expressions.model import Table

OPERATORS: Table = {
    **arithmetic.OPERATORS,
    **array_order.OPERATORS,
    **arrays.OPERATORS,
    **comparison.OPERATORS,
    **conditional.OPERATORS,
    **conversion.OPERATORS,
    **date_arithmetic.OPERATORS,
    **date_parts.OPERATORS,
    **date_text.OPERATORS,
    **fields.OPERATORS,
    **objects.OPERATORS,
    **outside.OPERATORS,
    **quantiles.OPERATORS,
    **regexes.OPERATORS,
    **scripts.OPERATORS,
    **sets.OPERATORS,
    **strings.OPERATORS,
    **trigonometry.OPERATORS,
}
