"""Every example of `docs/testing.md` runs as it stands: those of one heading are one directory of tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "testing.md"
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
BLOCK = re.compile(r"^```(python|toml|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# ([\w/]+\.\w+)\n")


def sections() -> dict[str, list[tuple[str, str]]]:
    """The examples by the heading above them, each with the name of its file."""
    found: dict[str, list[tuple[str, str]]] = {}
    outside = BLOCK.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), PAGE.read_text())
    headings = [(match.start(), match[1]) for match in HEADING.finditer(outside)]
    for number, block in enumerate(BLOCK.finditer(PAGE.read_text())):
        heading = [text for start, text in headings if start < block.start()][-1]
        kind, text = block.groups()
        if named := NAMED.match(text):
            name, text = named[1], text[named.end() :]
        else:
            name = "pyproject.toml" if kind == "toml" else f"test_{number}.py"
        found.setdefault(heading, []).append((name, text))
    return found


@pytest.mark.parametrize("heading", sections())
def test_examples(heading: str, tmp_path: Path) -> None:
    examples = sections()[heading]
    for name, text in examples:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    tests = sum(text.count("def test_") for _, text in examples)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "docstore.testing.pytest_plugin", "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"{tests} passed" in ran.stdout, ran.stdout + ran.stderr
    assert ran.returncode == 0
