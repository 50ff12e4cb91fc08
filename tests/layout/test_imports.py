"""The layers of the library are what setup.cfg declares."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_import_contracts_are_kept() -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--config", "setup.cfg", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
