"""The one table of expression operators."""

from __future__ import annotations

from docstore.aggregation.expressions import arithmetic, comparison, conditional
from docstore.aggregation.expressions.model import Table

OPERATORS: Table = {
    **arithmetic.OPERATORS,
    **comparison.OPERATORS,
    **conditional.OPERATORS,
}
