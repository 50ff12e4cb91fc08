"""Who may change what of a member's state, read off the modules' text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import docstore.replication

MODULES = sorted(Path(docstore.replication.__file__).parent.glob("*.py"))
OWNERS = {"candidacy": "elections", "leadership": "leadership", "sync_source": "following", "peer": "heartbeats"}
WRITERS = {
    "own_hosts": {"reconfig"},
    "config": {"reconfig"},
    "me": {"reconfig"},
    "config_target": {"reconfig"},
    "peers": {"reconfig"},
    "applied": {"core"},
    "durable": {"core"},
    "follower_state": {"core"},
    "commit_point": {"leadership", "following"},
    "vote": {"core", "elections", "reconfig", "votes"},
    "term": {"core", "elections", "terms"},
    "role": {"elections", "leadership", "terms"},
    "primary_state": {"leadership", "terms"},
    "primary_id": {"elections", "heartbeats", "leadership", "reconfig", "terms"},
}
"""What every module asks for, and which of them say it; what is not here is never changed."""


def assigned(path: Path) -> Iterator[tuple[str, str]]:
    """(x, field) of each `x.field = value` and `....x.field = value`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in [each for given in targets for each in ast.walk(given)]:
                match target:
                    case ast.Attribute(value=ast.Attribute(attr=owner) | ast.Name(id=owner), attr=field):
                        yield owner, field


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_part_of_the_state_is_changed_by_its_owner_alone(path: Path) -> None:
    parts = {owner for owner, _ in assigned(path)} & OWNERS.keys()
    assert {OWNERS[part] for part in parts} <= {path.stem}
    if path.stem in OWNERS.values():
        assert parts, "an owner that changes nothing"


def test_what_all_ask_for_is_said_by_few() -> None:
    writers: dict[str, set[str]] = {}
    for path in MODULES:
        for owner, field in assigned(path):
            if owner == "state" and field not in OWNERS:
                writers.setdefault(field, set()).add(path.stem)
    assert writers == WRITERS
