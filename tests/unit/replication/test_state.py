"""Who may change what of a member's state, read off the modules' text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import docstore.replication

MODULES = sorted(Path(docstore.replication.__file__).parent.glob("*.py"))
OWNERS = {"candidacy": "elections", "leadership": "leadership", "sync_source": "following", "peer": "heartbeats"}


def changed(tree: ast.AST) -> Iterator[str]:
    """The part of each `....part.field = value`; a peer is a variable of that name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in [each for given in targets for each in ast.walk(given)]:
                match target:
                    case ast.Attribute(value=ast.Attribute(attr=part) | ast.Name(id=part)) if part in OWNERS:
                        yield part


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_part_of_the_state_is_changed_by_its_owner_alone(path: Path) -> None:
    parts = set(changed(ast.parse(path.read_text())))
    assert {OWNERS[part] for part in parts} <= {path.stem}
    if path.stem in OWNERS.values():
        assert parts, "an owner that changes nothing"
