"""Every source file keeps the house rules that can be read off its text."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.layout.sources import MODULES, ROOT, Rule, Source, breaches, name_of

MODULE_LINES = 450
LONG_MODULES = {
    "docstore/kernel/compile/kernel_declarations.py": "the build imports it alone, before there is a package",
    "docstore/kernel/compute/expressions.py": "its classes call accessors that C inlines only within one module",
}
"""Modules with more lines than that, and why. Decorators that say how a function is in C do not count."""
PACKAGE_MODULES = 20
TABLES = {
    "configsvr/commands",
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
PARTS = {
    "context", "node", "pool", "replication", "router", "server", "services", "shard", "shard_filter", "store",
}  # fmt: skip
"""Names of parts of a process."""
IDLE_WORDS = {"a", "and", "for", "in", "of", "package", "test", "tests", "the", "unit"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def is_method(node: ast.stmt) -> bool:
    """Whether it is a function of the class with a name of its own and more to it than a property."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("__"):
        return False
    return "property" not in [ast.unparse(decorator) for decorator in node.decorator_list]


def a_module_begins_with_what_it_is_for(source: Source) -> Iterator[str]:
    if not ast.get_docstring(source.tree):
        yield "no module docstring"


def a_module_is_small_enough_to_read(source: Source) -> Iterator[str]:
    lines = sum(not line.lstrip().startswith("@cython.") for line in source.text.splitlines())
    if (lines > MODULE_LINES) != (source.name in LONG_MODULES):
        yield f"{lines} lines"
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and lines_of(node) > FUNCTION_LINES:
            yield f"{node.name} has {lines_of(node)} lines"


def classes_are_small(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.ClassDef) and (count := sum(map(is_method, node.body))) > CLASS_METHODS:
            yield f"{node.name} has {count} methods"


def nothing_is_left_for_later(source: Source) -> Iterator[str]:
    yield from (found[0] for found in UNFINISHED.finditer(source.text))
    for node in source.nodes:
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield f"line {node.lineno}: a bare except"


def documents_are_decoded_so_that_every_date_that_bson_has_comes_through(source: Source) -> Iterator[str]:
    """`bson.decode` without options refuses dates before year 1 and after year 9999: `docstore.bson` has one that
    does not."""
    if source.name.startswith("shell/"):
        return
    for call in source.nodes:
        if not isinstance(call, ast.Call) or len(call.args) + len(call.keywords) >= 2:
            continue
        if ast.unparse(call.func) in ("bson.decode", "bson.BSON.decode"):
            yield f"line {call.lineno}: use document_to_python"


def a_part_of_a_process_has_a_type(source: Source) -> Iterator[str]:
    """Wherever it is handed on: it is no parameter or field of type Any."""
    for node in source.nodes:
        if isinstance(node, ast.arg):
            name, annotation = node.arg, node.annotation
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name | ast.Attribute):
            name = node.target.id if isinstance(node.target, ast.Name) else node.target.attr
            annotation = node.annotation
        else:
            continue
        if name.lstrip("_") in PARTS and annotation is not None and ast.unparse(annotation) == "Any":
            yield f"line {node.lineno}: {name} is of type Any"


CONTEXT_MAKERS = {"docstore/commands/context.py", "docstore/commands/request_templates.py"}


def a_request_does_not_change_on_its_way(source: Source) -> Iterator[str]:
    """What comes of it is in its progress."""
    if source.name in CONTEXT_MAKERS or "from docstore.commands.context import" not in source.text:
        return
    for node in source.nodes:
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        if ast.unparse(node.value).endswith("context"):
            yield f"line {node.lineno}: {ast.unparse(node)} is set"


FIRST_OF_SEVERAL = {"get_field", "get_path"}
UNPARSED = ("context.raw", "context.body", "context.raw_field", "context.documents")


def privileges_are_read_from_what_was_parsed(source: Source) -> Iterator[str]:
    """A request's bytes may have a field twice, of which a parser takes the other one."""
    if not source.name.startswith("docstore/commands/access/"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Name) and node.id in FIRST_OF_SEVERAL:
            yield f"line {node.lineno}: {node.id} takes the first of several"
        if isinstance(node, ast.Attribute) and ast.unparse(node).endswith(UNPARSED):
            yield f"line {node.lineno}: {ast.unparse(node)} is not parsed"


RULES: tuple[Rule, ...] = (
    a_module_begins_with_what_it_is_for,
    a_module_is_small_enough_to_read,
    classes_are_small,
    nothing_is_left_for_later,
    documents_are_decoded_so_that_every_date_that_bson_has_comes_through,
    a_part_of_a_process_has_a_type,
    a_request_does_not_change_on_its_way,
    privileges_are_read_from_what_was_parsed,
)


@pytest.fixture(scope="module")
def broken() -> dict[Rule, list[str]]:
    return breaches(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module_keeps_the_rule_that(rule: Rule, broken: dict[Rule, list[str]]) -> None:
    assert broken[rule] == []


def _longer(what: str, most: int) -> str:
    return what + "\n".join(f"    def f{number}(): ..." for number in range(most + 1))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (a_module_begins_with_what_it_is_for, "import ast"),
        (a_module_is_small_enough_to_read, "\n" * (MODULE_LINES + 1)),
        (a_module_is_small_enough_to_read, _longer("def f():\n", FUNCTION_LINES)),
        (classes_are_small, _longer("class C:\n", CLASS_METHODS)),
        (nothing_is_left_for_later, "# TO" + "DO"),
        (nothing_is_left_for_later, "try:\n    f()\nexcept: ..."),
        (documents_are_decoded_so_that_every_date_that_bson_has_comes_through, "bson.decode(b)"),
        (a_part_of_a_process_has_a_type, "def f(node: Any, other: Any): ..."),
        (a_part_of_a_process_has_a_type, "class C:\n    shard: Any"),
        (a_request_does_not_change_on_its_way, "from docstore.commands.context import Context\ncontext.db = ''"),
    ],
)
def test_a_breach_is_found(rule: Rule, text: str) -> None:
    assert len(list(rule(Source("docstore/planted.py", text)))) == 1


@pytest.mark.parametrize("text", ["get_field(options, 'users')", "context.raw", "context.body['op']"])
def test_privileges_that_are_read_from_bytes_are_found(text: str) -> None:
    planted = Source("docstore/commands/access/planted.py", text)
    assert len(list(privileges_are_read_from_what_was_parsed(planted))) == 1


def test_packages_are_small_but_for_tables_of_one_kind() -> None:
    modules = Counter(name_of(path.parent) for path in MODULES if path.name != "__init__.py")
    assert {package for package, count in modules.items() if count > PACKAGE_MODULES} <= TABLES


def a_package_says_what_is_in_it(source: Source) -> Iterator[str]:
    said = set(re.findall(r"\w+", (ast.get_docstring(source.tree) or "").lower()))
    if len(said - set(source.name.split("/")) - IDLE_WORDS) < 3:
        yield "its name again, or nothing"


def test_every_package_says_what_is_in_it() -> None:
    tests = sorted((ROOT / "tests").rglob("__init__.py"))
    described = [*(path for path in MODULES if path.name == "__init__.py"), *tests]
    assert breaches([a_package_says_what_is_in_it], described)[a_package_says_what_is_in_it] == []


def test_no_module_is_a_junk_drawer() -> None:
    assert not [name_of(path) for path in MODULES if {path.stem, path.parent.name} & JUNK_DRAWERS]
