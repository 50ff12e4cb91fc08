"""The model of migrations holds its invariants in every order of steps, and shows what breaks without a rule."""

from __future__ import annotations

import pytest

from tests.model.exploration import Explored, explore
from tests.model.migration import Model, Rules, Scope, World


def explored(scope: Scope, rules: Rules) -> Explored[World]:
    model = Model(scope, rules)
    return explore(model.initial(), model.successors, canonical=model.canonical, most=200_000)


def test_no_order_of_steps_loses_a_write_or_an_owner() -> None:
    found = explored(Scope(), Rules())
    assert found.violation is None, str(found)
    assert found.states > 3_000


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        pytest.param(Rules(fence=False), "", id="a late commit may succeed after a crash"),
        pytest.param(Rules(block=False), "holds", id="writes go on in the critical section"),
        pytest.param(Rules(durable=False), "nobody will delete", id="documents come before the durable deletion"),
    ],
)
def test_a_rule_that_is_left_out_breaks_an_invariant(rules: Rules, what: str) -> None:
    found = explored(Scope(), rules)
    assert found.violation is not None
    assert what in found.violation, str(found)
