"""A process's parts have types wherever they are handed on: none is a parameter or field of type Any."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.layout.test_source import MODULES, name_of

PARTS = {
    "context", "node", "pool", "replication", "router", "server", "services", "shard", "shard_filter", "store",
}  # fmt: skip


def untyped(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            name, annotation = node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name | ast.Attribute):
            name = node.target.id if isinstance(node.target, ast.Name) else node.target.attr
            annotation = node.annotation
        else:
            continue
        if name.lstrip("_") in PARTS and annotation is not None and ast.unparse(annotation) == "Any":
            yield f"{name}, line {node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_part_of_a_process_has_a_type(path: Path) -> None:
    assert not list(untyped(ast.parse(path.read_text())))


def test_an_untyped_part_is_found() -> None:
    assert list(untyped(ast.parse("def f(node: Any, other: Any): ...\nclass C:\n    shard: Any"))) != []
