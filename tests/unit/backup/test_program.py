"""Arguments of `docstore restore` and `docstore backup`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from docstore.backup.program import main


@pytest.mark.parametrize("text", ["yesterday", "2026-11-25 at noon"])
def test_a_time_that_is_none_is_refused_with_what_a_time_looks_like(tmp_path: Path, text: str) -> None:
    refusal = CliRunner().invoke(main, ["backup", "verify", str(tmp_path), "--at", text])
    assert refusal.exit_code == 1
    assert f"{text!r} is no time: give SECONDS:INCREMENT of the oplog, or a date such as" in refusal.output
