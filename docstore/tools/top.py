"""The `mongotop` command: on which collections a server spends its time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import click
from pymongo.errors import PyMongoError

import docstore
from docstore.tools.connection import Client, connect, connection_options
from docstore.tools.limits import MAX_TABLE_COLLECTIONS
from docstore.tools.terminal import ToolCommand, ToolFailed, failure_of
from docstore.tools.text.extended_json import EXACT

_KINDS = {"total": "total", "read": "readLock", "write": "writeLock"}

Times = dict[str, dict[str, dict[str, int]]]
"""By namespace, and by total, read and write: `time` in milliseconds and `count`."""


@click.command("mongotop", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("-n", "--rowcount", type=click.IntRange(0), default=0, help="Tables to print; 0 for no end [0].")
@click.option("--json", "as_json", is_flag=True, help="Print each table as a line of JSON.")
@click.argument("seconds", type=click.IntRange(1), default=1, metavar="[SECONDS]")
@click.version_option(docstore.__version__, message="Docstore mongotop version %(version)s")
def main(rowcount: int, as_json: bool, seconds: int, **options: Any) -> None:
    """Print on which collections a server has spent time in each SECONDS, in milliseconds."""
    try:
        with connect(**options) as client:
            if client.admin.command("hello").get("msg") == "isdbgrid":
                raise ToolFailed("cannot run mongotop against a mongos")
            for times in _differences(client, rowcount, seconds):
                now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                if as_json:
                    click.echo(json.dumps({"totals": times, "time": now}, separators=(",", ":")))
                else:
                    click.echo(_table(times, now))
    except PyMongoError as error:
        raise failure_of(error) from error


def _differences(client: Client, count: int, seconds: int) -> Iterator[Times]:
    """Yield the times of intervals: `count` of them, or without end if it is 0."""
    before = _totals(client)
    number = 0
    while not count or number < count:
        time.sleep(seconds)
        after = _totals(client)
        yield {namespace: _difference(before.get(namespace, {}), usage) for namespace, usage in after.items()}
        before = after
        number += 1


def _totals(client: Client) -> dict[str, Any]:
    totals = client.get_database("admin").with_options(EXACT).command("top")["totals"]
    return {name: usage for name, usage in totals.items() if isinstance(usage, dict)}


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, dict[str, int]]:
    times_by_kind: dict[str, dict[str, int]] = {}
    for kind, name in _KINDS.items():
        earlier = before.get(name, {"time": 0, "count": 0})
        spent = max(0, after[name]["time"] - earlier["time"]) // 1000
        times_by_kind[kind] = {"time": spent, "count": max(0, after[name]["count"] - earlier["count"])}
    return times_by_kind


def _table(times: Times, now: str) -> str:
    """Return a table of the collections with most time."""
    order = sorted(times, key=lambda name: (-times[name]["total"]["time"], name))[:MAX_TABLE_COLLECTIONS]
    width = max(map(len, ("ns", *order)))
    lines = [f"{'ns':>{width}}    {'total':>6}    {'read':>6}    {'write':>6}    {now}"]
    for name in order:
        spent = [f"{times[name][kind]['time']}ms" for kind in _KINDS]
        lines.append(f"{name:>{width}}    " + "    ".join(f"{text:>6}" for text in spent))
    return "\n".join(lines) + "\n"
