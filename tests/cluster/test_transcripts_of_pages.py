"""What the transcripts of pages type prints what they show, on other ports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.documented import DOCUMENTS, shell_of_page
from tests.harness.transcript import transcripts

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("page", ["walkthrough", "cql"])
def test_a_transcript_is_as_it_is_printed(tmp_path: Path, page: str) -> None:
    commands = transcripts(DOCUMENTS / f"{page}.md")
    typed = [each for command in commands for each in (command.started, *command.lines)]
    with shell_of_page(tmp_path, [each.text for each in typed]) as shell:
        for command in commands:
            output = shell.run(command.started.text, command.script)
            shown = command.lines or [command.started]
            for expected, answer in zip(shown, command.answers(output), strict=True):
                assert answer.form == expected.form, expected.text
