"""Modules import each other in one direction: few of them form a circle, and no circle is large."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.layout.sources import MODULES, ROOT

CIRCLE_MODULES = 4
"""The largest circle, counting imports for types alone and those inside functions too."""

Graph = Mapping[str, set[str]]


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imported_modules(tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """Those of the modules that the tree imports anywhere, or imports something from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                imported = full if full in modules else node.module
                if imported in modules:
                    yield imported


def import_graph(texts: Mapping[str, str]) -> Graph:
    """The modules that each module imports, of modules by name."""
    names = set(texts)
    return {name: set(imported_modules(ast.parse(text), names)) - {name} for name, text in texts.items()}


def circles(graph: Graph) -> list[list[str]]:
    """The strongly connected components of more than one module, each sorted (Tarjan's algorithm without recursion)."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for root in graph:
        if root in index:
            continue
        index[root] = lowest[root] = len(index)
        stack.append(root)
        path = [(root, iter(sorted(graph[root])))]
        while path:
            module, imports = path[-1]
            for imported in imports:
                if imported not in index:
                    index[imported] = lowest[imported] = len(index)
                    stack.append(imported)
                    path.append((imported, iter(sorted(graph[imported]))))
                    break
                if imported in stack:
                    lowest[module] = min(lowest[module], index[imported])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[module])
                if lowest[module] == index[module]:
                    start = stack.index(module)
                    component, stack[start:] = sorted(stack[start:]), []
                    if len(component) > 1:
                        found.append(component)
    return found


def breaches(found: list[list[str]]) -> list[str]:
    """The circles that are larger than they may be."""
    return [f"{len(circle)} modules: {', '.join(circle)}" for circle in found if len(circle) > CIRCLE_MODULES]


def test_no_circle_of_imports_is_large() -> None:
    graph = import_graph({module_name(path): path.read_text() for path in MODULES})
    assert breaches(circles(graph)) == []


def ring(package: str, count: int) -> dict[str, str]:
    """The texts of modules that import one another in a ring, at the top, for types alone, and inside a function."""
    ways = (
        "from {package} import {name}",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {package}.{name} import Thing",
        "def f():\n    import {package}.{name}",
    )
    return {
        f"{package}.m{number}": ways[number % len(ways)].format(package=package, name=f"m{(number + 1) % count}")
        for number in range(count)
    }


@pytest.mark.parametrize("count", [2, CIRCLE_MODULES, CIRCLE_MODULES + 1, 30])
def test_a_circle_is_found_whatever_way_its_modules_are_imported(count: int) -> None:
    texts = ring("docstore.planted", count) | {"docstore.user": "from docstore.planted.m0 import Thing"}
    assert circles(import_graph(texts)) == [sorted(ring("docstore.planted", count))]


def test_a_chain_is_no_circle() -> None:
    texts = ring("docstore.planted", 5) | {"docstore.planted.m4": ""}
    assert circles(import_graph(texts)) == []


@pytest.mark.parametrize(("count", "breached"), [(CIRCLE_MODULES, False), (CIRCLE_MODULES + 1, True)])
def test_a_breach_is_found(count: int, breached: bool) -> None:
    assert bool(breaches(circles(import_graph(ring("docstore.planted", count))))) is breached
