"""Every command and every stage is in the matrix of permissions, and its page is what its script makes of the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from docstore.commands.declaration import Resource
from scripts import compatibility_names as names
from tests.differential.own_permissions import ON_NODES, ON_ROUTERS, Own
from tests.differential.permission_page import PAGE, Deciding, page
from tests.differential.permissions import ON_A_DATABASE, ON_ADMIN, ON_OTHERS
from tests.layout.test_declarations import EVERY, TABLES

REQUESTS: tuple[dict[str, Any], ...] = (
    *ON_A_DATABASE,
    *ON_ADMIN,
    *(request for _, request in ON_OTHERS),
    *(each.request for each in (*ON_ROUTERS, *ON_NODES)),
)
NODE = TABLES["node"]
FOR_CLIENTS = [each for each in EVERY if each.privilege.action != "internal"]
NOT_ASKED = {
    "logout": "it would end the login by which the rest is asked; it needs none",
    "$shardedDataDistribution": "refused to everybody",
}


def stages(pipeline: Any) -> Iterator[str]:
    for stage in pipeline if isinstance(pipeline, list) else ():
        for name, value in stage.items():
            yield name
            for inner in value.values() if isinstance(value, dict) else ():
                if isinstance(inner, list) and inner and isinstance(inner[0], dict):
                    yield from stages(inner)


def test_the_page_is_as_generated() -> None:
    assert PAGE.read_text() == page(), "run scripts/permissions"


def test_every_command_is_in_the_matrix() -> None:
    asked = {next(iter(request)) for request in REQUESTS}
    assert {command.name for command in FOR_CLIENTS} - NOT_ASKED.keys() <= asked


def test_every_stage_is_in_the_matrix() -> None:
    asked = {name for request in REQUESTS for name in stages(request.get("pipeline"))}
    assert set(names.STAGES) - NOT_ASKED.keys() <= asked


@pytest.mark.parametrize("own", [*ON_ROUTERS, *ON_NODES], ids=lambda own: str(own.request))
def test_what_a_real_mongod_does_not_have_needs_what_it_should(own: Own) -> None:
    for table in (NODE, TABLES["router"]):
        if next(iter(own.request)) in table:
            assert Deciding().needs(own, table) == set(own.needs)


def test_what_processes_send_each_other_is_for_them_alone() -> None:
    """Nothing but its name decides."""
    found = [each for each in EVERY if each.privilege.action == "internal" or each.name.startswith("_")]
    assert found
    for command in found:
        assert (command.privilege.action, command.privilege.resource) == ("internal", Resource.CLUSTER)
        assert command.needs is None
