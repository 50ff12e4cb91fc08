"""The `mongostat` command: what a server does, a line every second.

Each line is the difference of two replies of `serverStatus`, a second. Columns of sections that the server does not
have are left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click
from pymongo.errors import PyMongoError

import docstore
from docstore.tools.connection import Client, connect, connection_options
from docstore.tools.terminal import ToolCommand, failure_of
from docstore.tools.text.extended_json import EXACT

Status = Mapping[str, Any]
_HEADER_EVERY = 10
_UNITS = ("b", "k", "m", "g", "t")
_STATES = {1: "PRI", 2: "SEC", 3: "REC", 7: "ARB", 9: "RBK"}


@dataclass(frozen=True, slots=True)
class Interval:
    """Two replies, and the seconds between them."""

    before: Status
    after: Status
    seconds: float

    def rate(self, *path: str) -> int:
        """What was counted in a second."""
        change = _value(self.after, path, 0) - _value(self.before, path, 0)
        return int(max(0, round(change / self.seconds)))


def _value(status: Status, path: tuple[str, ...], default: Any) -> Any:
    found: Any = status
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return default
        found = found[name]
    return found


def _operations(name: str) -> Callable[[Interval], str]:
    """Those of clients, and behind a star or a bar those that were replicated."""

    def column(interval: Interval) -> str:
        own, replicated = interval.rate("opcounters", name), interval.rate("opcountersRepl", name)
        if not own:
            return f"*{replicated}"
        return f"{own}|{replicated}" if replicated else str(own)

    return column


def _commands(interval: Interval) -> str:
    return f"{interval.rate('opcounters', 'command')}|{interval.rate('opcountersRepl', 'command')}"


def _cache_share(statistic: str) -> Callable[[Interval], str]:
    def column(interval: Interval) -> str:
        cache = interval.after["wiredTiger"]["cache"]
        return f"{cache[statistic] / max(1, cache['maximum bytes configured']):.1%}"

    return column


def _queue(name: str) -> Callable[[Interval], str]:
    def column(interval: Interval) -> str:
        queue = interval.after["globalLock"][name]
        return f"{queue['readers']}|{queue['writers']}"

    return column


def _state(interval: Interval) -> str:
    found = interval.after["repl"]
    if found.get("isWritablePrimary", found.get("ismaster")):
        return "PRI"
    return "SEC" if found.get("secondary") else _STATES.get(found.get("myState", 0), "UNK")


def _time(interval: Interval) -> str:
    return time.strftime("%b %e %H:%M:%S", time.localtime()) + f".{int(time.time() * 1000) % 1000:03}"


_COLUMNS: tuple[tuple[str, tuple[str, ...], Callable[[Interval], str]], ...] = (
    ("insert", ("opcounters",), _operations("insert")),
    ("query", ("opcounters",), _operations("query")),
    ("update", ("opcounters",), _operations("update")),
    ("delete", ("opcounters",), _operations("delete")),
    ("getmore", ("opcounters",), lambda interval: str(interval.rate("opcounters", "getmore"))),
    ("command", ("opcounters",), _commands),
    ("dirty", ("wiredTiger", "cache"), _cache_share("tracked dirty bytes in the cache")),
    ("used", ("wiredTiger", "cache"), _cache_share("bytes currently in the cache")),
    (
        "flushes",
        ("wiredTiger", "transaction", "transaction checkpoints"),
        lambda interval: str(interval.rate("wiredTiger", "transaction", "transaction checkpoints")),
    ),
    ("vsize", ("mem", "virtual"), lambda interval: _size(interval.after["mem"]["virtual"] << 20).upper()),
    ("res", ("mem", "resident"), lambda interval: _size(interval.after["mem"]["resident"] << 20).upper()),
    ("qrw", ("globalLock", "currentQueue"), _queue("currentQueue")),
    ("arw", ("globalLock", "activeClients"), _queue("activeClients")),
    ("net_in", ("network",), lambda interval: _size(interval.rate("network", "bytesIn"))),
    ("net_out", ("network",), lambda interval: _size(interval.rate("network", "bytesOut"))),
    ("conn", ("connections",), lambda interval: str(interval.after["connections"]["current"])),
    ("set", ("repl", "setName"), lambda interval: str(interval.after["repl"]["setName"])),
    ("repl", ("repl",), _state),
    ("time", (), _time),
)
"""Names, the section that each needs, and its text."""


@click.command("mongostat", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("-n", "--rowcount", type=click.IntRange(0), default=0, help="Lines to print; 0 for no end [0].")
@click.option("--noheaders", is_flag=True, help="Leave out the names of the columns.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as JSON.")
@click.argument("seconds", type=click.IntRange(1), default=1, metavar="[SECONDS]")
@click.version_option(docstore.__version__, message="Docstore mongostat version %(version)s")
def main(rowcount: int, noheaders: bool, as_json: bool, seconds: int, **options: Any) -> None:
    """Print what a server has done in each SECONDS, as numbers of one second."""
    try:
        with connect(**options) as client:
            host = "{}:{}".format(*(client.address or ("", "")))
            for number, interval in enumerate(_intervals(client, rowcount, seconds)):
                row = {name: text(interval) for name, section, text in _COLUMNS if _has(interval, section)}
                if as_json:
                    click.echo(json.dumps({host: row}, separators=(",", ":")))
                    continue
                widths = {name: max(len(name), len(text)) for name, text in row.items()}
                if not noheaders and not number % _HEADER_EVERY:
                    click.echo(" ".join(name.rjust(widths[name]) for name in row))
                click.echo(" ".join(text.rjust(widths[name]) for name, text in row.items()))
    except PyMongoError as error:
        raise failure_of(error) from error


def _has(interval: Interval, section: tuple[str, ...]) -> bool:
    return all(_value(status, section, None) is not None for status in (interval.before, interval.after))


def _intervals(client: Client, count: int, seconds: int) -> Iterator[Interval]:
    """As many as are asked for, or without an end."""
    client.admin.command("ping")
    before, since = _status(client), time.monotonic()
    number = 0
    while not count or number < count:
        time.sleep(seconds)
        after, now = _status(client), time.monotonic()
        yield Interval(before, after, now - since)
        before, since = after, now
        number += 1


def _status(client: Client) -> Status:
    return client.get_database("admin").with_options(EXACT).command("serverStatus")


def _size(count: int) -> str:
    """Bytes in the largest unit of which there is one, with three digits: `155b`, `60.2k`."""
    size, unit = float(count), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.3g}{_UNITS[unit]}"
