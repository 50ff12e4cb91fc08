"""What docs/wide-column.md types into the shell is taken as it stands there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from docstore.testing import Standalone
from tests.harness.documented import DOCUMENTS, blocks

pytestmark = pytest.mark.cluster


def test_the_shell_takes_what_the_page_types() -> None:
    typed = "\n".join(blocks(DOCUMENTS / "wide-column.md"))
    with Standalone() as node:
        done = subprocess.run(
            [sys.executable, "-m", "shell", "--quiet", node.members["standalone"].address], input=f"{typed}\n",
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert "uncaught exception" not in done.stdout, done.stdout
    for shown in ("numPosts => 11", "i-got-a-new-guitar", "commenter => Joe"):
        assert shown in done.stdout
