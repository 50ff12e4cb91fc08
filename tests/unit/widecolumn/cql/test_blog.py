"""The blog of the chapter on CQL: its statements run, and its queries give what the chapter says."""

from __future__ import annotations

import re
from pathlib import Path

from docstore.widecolumn.cql.run.results import Rows
from tests.unit.widecolumn.cql.running import Cql

CHAPTER = Path(__file__).resolve().parents[4] / "docs" / "cql.md"


def test_the_blog_of_the_chapter_is_as_it_says() -> None:
    block = re.search(r"```cql\n(.*?)```", CHAPTER.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    cql = Cql()
    said = 0
    for statement, expected in re.findall(r"([^;]+);\n(?:-- (.*)\n)?", block[1]):
        result = cql.run(statement)
        assert isinstance(result, Rows) == bool(expected), statement
        if isinstance(result, Rows):
            said += 1
            [column] = result.columns
            shown = ", ".join(column.type.format(value) for (value,) in result.rows if value is not None)
            assert shown == expected
    assert said == 3
