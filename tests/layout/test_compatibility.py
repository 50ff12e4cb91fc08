"""The table of names is what its script makes of the code, and every supported name of the languages has its cases."""

from __future__ import annotations

from docstore.aggregation.expressions.table import OPERATORS
from docstore.aggregation.stages.table import STAGES as DECLARED_STAGES
from scripts import compatibility_names as names
from scripts.compatibility import (
    PAGE,
    SUPPORTED,
    accumulator_status,
    expression_status,
    page,
    query_status,
    stage_status,
    update_status,
    window_status,
)
from tests.differential.expressions import EXPRESSIONS
from tests.differential.filters import FILTERS, FINDS
from tests.differential.geometry import GEOMETRY
from tests.differential.nearness import NEAR
from tests.differential.pipelines import ACCUMULATORS, STAGES, WINDOW_FUNCTIONS
from tests.differential.scripted import SCRIPTED
from tests.differential.text_search import QUERIES
from tests.differential.updates import UPDATES


def test_the_table_of_names_is_as_generated() -> None:
    assert PAGE.read_text() == page(), "run scripts/compatibility"


def test_every_supported_query_operator_has_a_case() -> None:
    cases = {name.replace(" ", "_") for name in (*FILTERS, *FINDS, *GEOMETRY, *NEAR, *SCRIPTED, *QUERIES)}
    assert {name for name in names.QUERY if query_status(name) == SUPPORTED} <= cases


def test_every_supported_update_operator_has_a_case() -> None:
    assert {name for name in names.UPDATE if update_status(name) == SUPPORTED} <= set(UPDATES)


def test_every_stage_has_a_case() -> None:
    assert {name for name in names.STAGES if stage_status(name) == SUPPORTED} <= set(STAGES)
    assert set(DECLARED_STAGES) - {*names.LATER_STAGES} <= set(STAGES)


def test_every_accumulator_and_window_function_has_a_case() -> None:
    assert {name for name in names.ACCUMULATORS if accumulator_status(name) == SUPPORTED} <= {*ACCUMULATORS, *SCRIPTED}
    assert {name for name in names.WINDOW_FUNCTIONS if window_status(name) == SUPPORTED} <= set(WINDOW_FUNCTIONS)


def test_every_expression_has_a_case() -> None:
    known = {*names.CONVERSIONS, *(name for family in names.EXPRESSIONS.values() for name in family)}
    assert {name for name in known if expression_status(name) == SUPPORTED} <= {*EXPRESSIONS, *SCRIPTED}
    # A real server of the tests does not know the later ones.
    served = set(OPERATORS) - {*names.LATER_CONVERSIONS, *names.LATER_EXPRESSIONS}
    assert served <= {*EXPRESSIONS, *SCRIPTED}
    assert served <= known, "a name that the table does not list"
