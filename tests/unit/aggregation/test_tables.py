"""Every name of MongoDB 6.0 is served or known not to be, none is both, and others are of later versions."""

from __future__ import annotations

from docstore.aggregation import unsupported
from docstore.aggregation.accumulators.accumulators import ACCUMULATORS
from docstore.aggregation.accumulators.n_values import CHOOSING
from docstore.aggregation.stages.table import STAGES
from docstore.query.filter.path_operators import FIELD_OPERATORS
from docstore.query.update.parse import OPERATORS as UPDATE_OPERATORS
from scripts import compatibility_names as names

MODIFIERS = {"$", "$[]", "$[id]", "$each", "$position", "$slice", "$sort"}
"""What stands in the table of update operators and is no operator by itself."""


def test_no_name_is_both_served_and_not() -> None:
    assert not unsupported.STAGES & STAGES.keys()


def test_every_stage_and_accumulator_is_known() -> None:
    stages = unsupported.STAGES | STAGES.keys()
    accumulators = ACCUMULATORS.keys() | CHOOSING | {"$accumulator", "$count"}
    assert set(names.STAGES) <= stages <= {*names.STAGES, *names.LATER_STAGES}
    assert set(names.ACCUMULATORS) <= accumulators <= {*names.ACCUMULATORS, *names.LATER_ACCUMULATORS}


def test_every_update_operator_is_served() -> None:
    assert set(names.UPDATE) - MODIFIERS == UPDATE_OPERATORS.keys() | {"$rename"}


def test_every_query_operator_is_known() -> None:
    assert set(FIELD_OPERATORS) <= set(names.QUERY)
