"""Every section of docs/security.md has tests, by name, for what it says, and these tests are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.layout.test_documents import ROOT, defines

PAGE = (ROOT / "docs" / "security.md").read_text()
TABLE = "The tests of this page"
TEST = re.compile(r"`(tests/[\w/]+\.py)?::(test_\w+)`")


def rows() -> Iterator[tuple[str, str, str]]:
    """(section, what is said, names of tests) of each row of the table."""
    section = ""
    for line in PAGE.partition(f"## {TABLE}\n")[2].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and not {"section", "---"} & set(cells):
            section = cells[0] or section
            yield section, cells[1], cells[2]


ROWS = tuple(rows())


def test_every_section_stands_in_the_table_in_order() -> None:
    sections = re.findall(r"^##? (.+)$", re.sub(r"^ {4}.*$", "", PAGE, flags=re.MULTILINE), re.MULTILINE)
    assert list(dict.fromkeys(section for section, _, _ in ROWS)) == [each for each in sections if each != TABLE]


@pytest.mark.parametrize(("said", "names"), [row[1:] for row in ROWS], ids=lambda cell: cell[:40])
def test_what_is_said_has_tests_that_are_there(said: str, names: str) -> None:
    found = TEST.findall(names)
    assert found, f"no test of: {said}"
    assert len(found) == names.count("`") // 2, "nothing but names of tests stands here"
    module = ""
    for path, name in found:
        module = path or module
        assert name in defined_in(module), (module, name)


@cache
def defined_in(module: str) -> frozenset[str]:
    """The names of the tests that a module defines."""
    body = ast.parse((ROOT / module).read_text()).body
    names = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    return frozenset(name for name in names if defines(body, [name]))
