"""The project's modules, each parsed once for all rules about them: the trees of all of them would fill the memory."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("docstore", "mongod", "mongos", "configsvr", "shell")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@dataclass(frozen=True)
class Source:
    """The text of a module, and what Python reads in it."""

    name: str
    text: str

    @classmethod
    def of(cls, path: Path) -> Source:
        return cls(name_of(path), path.read_text())

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))


Rule = Callable[[Source], Iterable[str]]
"""What breaks it in a module."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def breaches(rules: Iterable[Rule], paths: Iterable[Path] = MODULES) -> dict[Rule, list[str]]:
    """What breaks each of the rules, with the names of the modules."""
    found: dict[Rule, list[str]] = {rule: [] for rule in rules}
    for source in map(Source.of, paths):
        for rule, broken in found.items():
            broken += [f"{source.name}: {breach}" for breach in rule(source)]
    return found
