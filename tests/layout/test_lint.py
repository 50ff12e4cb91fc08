"""The rules of ruff.toml hold in the whole tree, the bound on the complexity of a function among them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_COMPLEXITY = 15


def test_the_rules_hold() -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("ruff"), "check", "--no-cache", "--quiet", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_no_function_may_be_more_complex_than_the_bound() -> None:
    lint = tomllib.loads((ROOT / "ruff.toml").read_text())["lint"]
    assert "C901" in lint["select"]
    assert lint["mccabe"] == {"max-complexity": MAX_COMPLEXITY}
