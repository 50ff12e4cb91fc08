"""What is typed in docs/walkthrough.md prints what the page shows, on other ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.documented import DOCUMENTS, shell_of_page
from tests.harness.transcript import transcripts

pytestmark = pytest.mark.cluster


def test_the_walk_is_as_it_is_printed(tmp_path: Path) -> None:
    commands = transcripts(DOCUMENTS / "walkthrough.md")
    typed = [each for command in commands for each in (command.started, *command.lines)]
    with shell_of_page(tmp_path, [each.text for each in typed]) as shell:
        for command in commands:
            output = shell.run(command.started.text, command.script)
            shown = command.lines or [command.started]
            for expected, answer in zip(shown, command.answers(output), strict=True):
                assert answer.form == expected.form, expected.text
