"""Every script in `elections/` gives the trace that stands below its line of dashes.

`pytest --rewrite-transcripts` is not offered: a changed trace is to be read, and typed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.election_script import run_script

SCRIPTS = sorted((Path(__file__).parent / "elections").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script_gives_its_trace(path: Path) -> None:
    script, _, expected = path.read_text().partition("\n---\n")
    assert script.startswith("# "), "a transcript begins with its claim"
    assert "\n".join(run_script(script)) == expected.strip()
