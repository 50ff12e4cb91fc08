"""The board and the alerts that are shipped name figures that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from docstore.console.metrics import process, replication, sharding

DEPLOY = Path(__file__).resolve().parents[3] / "scripts" / "deploy"
_ENDINGS = re.compile(r"_(total|sum|count)$")


def made() -> set[str]:
    """The names of all metrics."""
    texts = [Path(module.__file__ or "").read_text() for module in (process, replication, sharding)]
    names = {name for text in texts for name in re.findall(r'"(docstore_\w+)"', text)}
    return names | {f"docstore_storage_{process._snake(key)}" for key in process._ENGINE}


def named(text: str) -> set[str]:
    return {name if name in made() else _ENDINGS.sub("", name) for name in re.findall(r"\bdocstore_\w+", text)}


def test_the_alerts_are_about_figures_that_there_are() -> None:
    groups: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "prometheus-alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"]
        assert named(rule["expr"]) <= made() | {"docstore_scrape_failed"}, rule["alert"]
    read = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    assert read["rule_files"] == ["prometheus-alerts.yml"]
    assert read["scrape_configs"][0]["job_name"] == "docstore"


def test_the_board_is_about_figures_that_there_are() -> None:
    board = json.loads((DEPLOY / "grafana-board.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert asked
    for expression in asked:
        assert named(expression) <= made()
        assert '{job=~"$job",instance=~"$instance"' in expression
