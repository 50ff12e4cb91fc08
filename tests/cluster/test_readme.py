"""The examples of README.md run as they stand there, on another port."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docstore.testing import Standalone

pytestmark = pytest.mark.cluster
TEXT = (Path(__file__).parents[2] / "README.md").read_text()
SESSION = TEXT[TEXT.index("## A first session") : TEXT.index("A replica set of three")]
IN_TESTS = TEXT[TEXT.index("## In tests") : TEXT.index("## What works")]
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """What the page's Python has defined; it goes on from block to block."""
    with Standalone() as node:
        defined: dict[str, Any] = {"address": node.members["standalone"].address}
        [example] = _PYTHON.findall(SESSION)
        exec(example.replace("127.0.0.1:27017", defined["address"]), defined)
        yield defined


def test_the_first_session(names: dict[str, Any]) -> None:
    [session] = re.findall(r"^    \$ \S*mongo 127.0.0.1:27017/blog\n((?:    .*\n)+)", SESSION, re.MULTILINE)
    typed = re.sub(r"^    (?:> |\.\.\. )", "", session, flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-m", "shell", "--quiet", f"{names['address']}/blog"], input=typed, capture_output=True,
        text=True, timeout=60, check=True,
    )  # fmt: skip
    assert '"title" : "first"' in done.stdout
    assert re.search(r'"_id" : "blue",\s+"value" : 1', done.stdout), done.stdout


def test_the_examples_for_tests(names: dict[str, Any]) -> None:
    cluster, test = _PYTHON.findall(IN_TESTS)
    exec(cluster, names)
    exec(test, names)
    names["test_posts"](names["posts"].database)
