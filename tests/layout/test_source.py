"""Every source file keeps the house rules that can be read off its text."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("docstore", "mongod", "mongos", "configsvr", "shell")
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

MODULE_LINES = 450
LONG_MODULES = {
    "docstore/kernel/compute/expressions.py": "its classes call accessors that C inlines only within one module",
}
"""Modules with more lines than that, and why."""
PACKAGE_MODULES = 20
TABLES = {
    "docstore/aggregation/expressions",
    "docstore/aggregation/stages",
    "docstore/node/commands",
    "mongod/widecolumn/commands",
    "mongos/commands",
}
"""Packages with more modules than that: tables of one kind."""
FUNCTION_LINES = 60
CLASS_METHODS = 20
JUNK_DRAWERS = {"utils", "util", "common", "helpers", "misc", "base"}
DESCRIBED = [*(path for path in MODULES if path.name == "__init__.py"), *sorted((ROOT / "tests").rglob("__init__.py"))]
IDLE_WORDS = {"a", "and", "for", "in", "of", "package", "test", "tests", "the", "unit"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_method(node: ast.stmt) -> bool:
    """Whether it is a function of the class with a name of its own and more to it than a property."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
        return False
    return "property" not in [ast.unparse(decorator) for decorator in node.decorator_list]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_begins_with_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "no module docstring"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_small_enough_to_read(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert (text.count("\n") > MODULE_LINES) == (name_of(path) in LONG_MODULES)
    long = {node.name: lines_of(node) for node in functions(tree) if lines_of(node) > FUNCTION_LINES}
    assert not long


def test_classes_are_small() -> None:
    nodes = [node for path in MODULES for node in ast.walk(ast.parse(path.read_text()))]
    methods = [(node.name, sum(map(is_method, node.body))) for node in nodes if isinstance(node, ast.ClassDef)]
    assert not {name: count for name, count in methods if count > CLASS_METHODS}


def test_packages_are_small_but_for_tables_of_one_kind() -> None:
    modules = Counter(name_of(path.parent) for path in MODULES if path.name != "__init__.py")
    assert {package for package, count in modules.items() if count > PACKAGE_MODULES} <= TABLES


@pytest.mark.parametrize("path", DESCRIBED, ids=name_of)
def test_a_package_says_what_is_in_it(path: Path) -> None:
    said = set(re.findall(r"\w+", (ast.get_docstring(ast.parse(path.read_text())) or "").lower()))
    assert len(said - set(path.parent.relative_to(ROOT).parts) - IDLE_WORDS) >= 3, "its name again, or nothing"


def test_no_module_is_a_junk_drawer() -> None:
    assert not [name_of(path) for path in MODULES if {path.stem, path.parent.name} & JUNK_DRAWERS]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_left_for_later(path: Path) -> None:
    text = path.read_text()
    assert not UNFINISHED.search(text)
    caught = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert not caught, "a bare except"


@pytest.mark.parametrize("path", [path for path in MODULES if "shell" not in path.parts], ids=name_of)
def test_documents_are_decoded_so_that_every_date_that_bson_has_comes_through(path: Path) -> None:
    """`bson.decode` without options refuses dates before year 1 and after year 9999: `docstore.bson` has one that
    does not."""
    for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
        plain = (
            ast.unparse(call.func) in ("bson.decode", "bson.BSON.decode") and len(call.args) + len(call.keywords) < 2
        )
        assert not plain, f"line {call.lineno}: use document_to_python"
