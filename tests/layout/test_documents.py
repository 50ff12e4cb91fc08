"""What the pages for readers and the sources name is there: paths, modules and what they define, tests, links."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
PATH = re.compile(
    r"(?<![\w./:@-])((?:docstore|mongod|mongos|configsvr|shell|scripts|tests|docs)/[\w./*-]*)(?:::(\w+))?"
)
MODULE = re.compile(r"`((?!mongod\.lock)(?:docstore|mongod|mongos|configsvr|shell|scripts|tests)(?:\.\w+)+)")
PACKAGES = ("docstore", "mongod", "mongos", "configsvr", "shell", "scripts", "tests")
SOURCES = sorted(
    path for package in PACKAGES for ending in ("py", "js") for path in (ROOT / package).rglob(f"*.{ending}")
)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
INDEX = ROOT / "docs" / "README.md"

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@pages
def test_named_paths_and_tests_exist(page: Path) -> None:
    assert not [path for path, test in PATH.findall(page.read_text()) if not path_is_there(path.rstrip("."), test)]


@pages
def test_named_modules_and_definitions_exist(page: Path) -> None:
    assert not [name for name in MODULE.findall(page.read_text()) if not name_is_there(name)]


def test_what_sources_say_of_other_modules_is_there() -> None:
    texts = ((path, path.read_text()) for path in SOURCES)
    named = {(name, str(path.relative_to(ROOT))) for path, text in texts for name in MODULE.findall(text)}
    assert not [(name, path) for name, path in sorted(named) if not name_is_there(name)]


@pages
def test_links_lead_somewhere(page: Path) -> None:
    assert not [target for target in LINK.findall(page.read_text()) if not (page.parent / target).exists()]


def test_every_page_is_in_the_index() -> None:
    listed = {(INDEX.parent / target).resolve() for target in LINK.findall(INDEX.read_text())}
    assert set(PAGES) - {INDEX} <= listed


def test_the_site_leads_to_every_page() -> None:
    found = re.findall(r"- [^:]+: (\S+\.md)", (ROOT / "scripts" / "site.yml").read_text())
    assert sorted(ROOT / page for page in found) == sorted(PAGES)


def path_is_there(path: str, test: str) -> bool:
    """Whether something matches the path, and a test module defines the test that is named behind it, if any."""
    found = list(ROOT.glob(path))
    return bool(found) and (not test or defines(ast.parse(found[0].read_text()).body, [test]))


@cache
def name_is_there(name: str) -> bool:
    """Whether a dotted name is a package, a module, or something that a module or a class of it defines."""
    parts = name.split(".")
    for depth in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:depth])
        source = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if source.exists():
            return defines(ast.parse(source.read_text()).body, parts[depth:])
    return False


def defines(body: Sequence[ast.stmt], names: Sequence[str]) -> bool:
    """Whether the statements of a module or class define the first name, and that one, in its turn, the others."""
    if not names:
        return True
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if name == names[0]:
                    return defines(node.body, names[1:])
            case ast.ImportFrom(names=aliases) if any(alias.name == names[0] for alias in aliases):
                return len(names) == 1
            case ast.Assign(targets=targets):
                if any(isinstance(target, ast.Name) and target.id == names[0] for target in targets):
                    return len(names) == 1
            case ast.AnnAssign(target=ast.Name(id=name)) if name == names[0]:
                return len(names) == 1
    return False
