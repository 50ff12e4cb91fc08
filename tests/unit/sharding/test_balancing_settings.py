"""The settings of balancing: what the documents of config.settings mean at a moment."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from docstore.errors import Code, CommandError
from docstore.sharding.balancing.settings import BalancingSettings, balancing_settings, parse_window
from docstore.sharding.split import DEFAULT_CHUNK_BYTES

MINUTE, HOUR = 60, 3600
DAY = {"start": "9:30", "stop": "17:00"}
NIGHT = {"start": "23:00", "stop": "06:00"}


@pytest.mark.parametrize(
    ("window", "second", "inside"),
    [
        (DAY, 9 * HOUR + 30 * MINUTE - 1, False),
        (DAY, 9 * HOUR + 30 * MINUTE, True),
        (DAY, 17 * HOUR, True),
        (DAY, 17 * HOUR + 1, False),
        (NIGHT, 23 * HOUR - 1, False),
        (NIGHT, 23 * HOUR, True),
        (NIGHT, 0, True),
        (NIGHT, 6 * HOUR, True),
        (NIGHT, 6 * HOUR + 1, False),
    ],
)  # fmt: skip
def test_chunks_are_balanced_within_the_window(window: dict[str, str], second: int, inside: bool) -> None:
    assert parse_window(window).contains(second) is inside
    assert balancing_settings({"balancer": {"activeWindow": window}}, second).active is inside
    assert not balancing_settings({"balancer": {"activeWindow": window, "stopped": True}}, second).active


@pytest.mark.parametrize(
    "window",
    [
        None, 5, "9:00", {}, {"start": "9:00"}, {"start": "9:00", "stop": "24:00"}, {"start": "9:60", "stop": "10:00"},
        {"start": "9", "stop": "10"}, {"start": 9, "stop": 10}, {"start": "9:00", "stop": "09:00"},
    ],
)  # fmt: skip
def test_a_window_that_is_none_turns_balancing_off(window: Any) -> None:
    with pytest.raises(CommandError) as refused:
        parse_window(window)
    assert refused.value.code == Code.BadValue
    settings = balancing_settings({"balancer": {"activeWindow": window}}, 0)
    assert not settings.active
    assert settings.problem == refused.value.message


@pytest.mark.parametrize(
    ("balancer", "mode", "active"),
    [
        ({}, "full", True),
        ({"mode": "full", "stopped": False}, "full", True),
        ({"mode": "autoSplitOnly"}, "autoSplitOnly", False),
        ({"mode": "off"}, "off", False),
        ({"mode": "full", "stopped": True}, "off", False),
        ({"mode": "sometimes"}, "off", False),
    ],
)
def test_the_mode_says_whether_chunks_are_balanced(balancer: dict[str, Any], mode: str, active: bool) -> None:
    settings = balancing_settings({"balancer": balancer}, 0)
    assert (settings.mode, settings.active) == (mode, active)
    assert bool(settings.problem) is (balancer.get("mode") == "sometimes")


def test_sizes_of_chunks_are_megabytes() -> None:
    for value, size in ((1, 1 << 20), (0.5, 1 << 19), (64, 64 << 20)):
        assert balancing_settings({"chunksize": {"value": value}}, 0).chunk_bytes == size
    for value in ("x", None, True, 0, -1, float("nan"), float("inf")):
        settings = balancing_settings({"chunksize": {"value": value}}, 0)
        assert (settings.chunk_bytes, settings.active) == (DEFAULT_CHUNK_BYTES, False)
        assert settings.problem


def test_settings_go_over_the_wire() -> None:
    for settings in (BalancingSettings(), BalancingSettings("off", False, 5, False, "a problem")):
        assert BalancingSettings.from_document(bson.decode(bson.encode(settings.document()))) == settings
