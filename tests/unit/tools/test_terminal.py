"""What the tools say while they work."""

from __future__ import annotations

import re

import pytest

from docstore.tools import terminal
from docstore.tools.terminal import Progress, Terminal, progress_line


def test_lines_of_progress() -> None:
    assert progress_line("shop.orders", 1000, None) == "shop.orders  1000"
    assert progress_line("shop.orders", 1000, 0) == "shop.orders  1000"
    assert progress_line("shop.orders", 1000, 2500) == "[#########...............]  shop.orders  1000/2500  (40.0%)"
    assert progress_line("shop.orders", 3000, 2500) == "[########################]  shop.orders  3000/2500  (100.0%)"


def test_what_is_under_way_is_told_until_it_ends() -> None:
    progress = Progress()
    progress.begin("b", 4)
    progress.begin("a")
    progress.reach("b", 1)
    progress.reach("a", 7)
    assert progress.lines() == ["a  7", "[######..................]  b  1/4  (25.0%)"]
    progress.end("a")
    assert len(progress.lines()) == 1


def test_progress_is_said_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(terminal, "_EVERY", 0.001)
    told = ""
    with Terminal(quiet=False).progress() as progress:
        progress.begin("a")
        while not told:
            told = capsys.readouterr().err
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+0000\ta  0", told.splitlines()[0])
    Terminal(quiet=True).say("nothing")
    assert "nothing" not in capsys.readouterr().err
