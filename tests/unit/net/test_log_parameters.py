"""The verbosity of the log and of its components, as server parameters."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from docstore import log
from docstore.commands.parameters import ParameterTable
from docstore.errors import CommandError
from docstore.net.services import log_parameters

NAME = "logComponentVerbosity"


@pytest.fixture
def table() -> Iterator[ParameterTable]:
    level, verbosity = logging.getLogger("docstore").level, log.verbosity()
    log.set_verbosity(0)
    yield ParameterTable(log_parameters())
    for path in log.COMPONENTS:
        log.set_component_verbosity(path, log.INHERITED)
    log.set_verbosity(verbosity)
    logging.getLogger("docstore").setLevel(level)


def shows_debug(name: str) -> bool:
    return logging.getLogger(f"docstore.{name}").isEnabledFor(logging.DEBUG)


def test_all_components_follow_the_log_until_they_have_a_verbosity_of_their_own(table: ParameterTable) -> None:
    shown = table.get(NAME)
    assert (shown["verbosity"], shown["command"]) == (0, {"verbosity": -1})
    assert shown["replication"] == {
        "verbosity": -1,
        "initialSync": {"verbosity": -1},
        "rollback": {"verbosity": -1},
    }
    was = table.assign(NAME, {"verbosity": 1, "command": {"verbosity": 0}})
    assert was == shown
    assert (shows_debug("NETWORK"), shows_debug("COMMAND"), table.get("logLevel")) == (True, False, 1)
    table.assign("logLevel", 0)
    assert (shows_debug("NETWORK"), table.get(NAME)["verbosity"]) == (False, 0)


def test_what_is_below_a_component_follows_it(table: ParameterTable) -> None:
    table.assign(NAME, {"replication": {"verbosity": 2, "rollback": 0}})
    assert [shows_debug(name) for name in ("REPL", "INITSYNC", "ROLLBACK", "STORAGE")] == [True, True, False, False]
    assert table.get(NAME)["replication"]["verbosity"] == 2
    table.assign(NAME, {"replication": {"verbosity": -1, "rollback": {"verbosity": -1}}})
    assert not any(shows_debug(name) for name in ("REPL", "INITSYNC", "ROLLBACK"))


def test_levels_are_brought_into_their_range(table: ParameterTable) -> None:
    table.assign(NAME, {"command": {"verbosity": 9}, "network": {"verbosity": -7}})
    shown = table.get(NAME)
    assert (shown["command"]["verbosity"], shown["network"]["verbosity"]) == (5, -1)


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (5, 14),
        ("x", 14),
        ({"verbosity": 1, "nothing": 1}, 2),
        ({"verbosity": 1, "geo": {"verbosity": 1}}, 2),
        ({"verbosity": 1, "command": "x"}, 2),
        ({"verbosity": 1, "command": {"verbosity": True}}, 2),
        ({"verbosity": 1, "command": {"deeper": 1}}, 2),
    ],
)
def test_what_means_nothing_here_is_refused_and_changes_nothing(table: ParameterTable, value: Any, code: int) -> None:
    before = table.get(NAME)
    with pytest.raises(CommandError) as refused:
        table.assign(NAME, value)
    assert refused.value.code == code
    assert table.get(NAME) == before
