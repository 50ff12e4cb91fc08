"""The `mongostat` command: activity of a server, one line per interval.

Each line is the difference of two replies of `serverStatus`, per second. Columns of sections that the server does not
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
        """Return the increase per second of a counter."""
        change = _value(self.after, path, 0) - _value(self.before, path, 0)
        return int(max(0, round(change / self.seconds)))


def _value(status: Status, path: tuple[str, ...], default: Any) -> Any:
    value: Any = status
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return default
        value = value[name]
    return value


def _operations(name: str) -> Callable[[Interval], str]:
    """Return the column of an operation: clients' operations and, after a bar or star, replicated ones."""

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
    replication = interval.after["repl"]
    if replication.get("isWritablePrimary", replication.get("ismaster")):
        return "PRI"
    return "SEC" if replication.get("secondary") else _STATES.get(replication.get("myState", 0), "UNK")


def _time(interval: Interval) -> str:
    return time.strftime("%b %e %H:%M:%S", time.localtime()) + f".{int(time.time() * 1000) % 1000:03}"


_BYTES: dict[str, Callable[[Interval], int]] = {
    "vsize": lambda interval: interval.after["mem"]["virtual"] << 20,
    "res": lambda interval: interval.after["mem"]["resident"] << 20,
    "net_in": lambda interval: interval.rate("network", "bytesIn"),
    "net_out": lambda interval: interval.rate("network", "bytesOut"),
}
"""The columns that are sizes."""

Column = tuple[str, tuple[str, ...], Callable[[Interval], str]]
_COLUMNS: tuple[Column, ...] = (
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
    ("vsize", ("mem", "virtual"), lambda interval: _size(_BYTES["vsize"](interval)).upper()),
    ("res", ("mem", "resident"), lambda interval: _size(_BYTES["res"](interval)).upper()),
    ("qrw", ("globalLock", "currentQueue"), _queue("currentQueue")),
    ("arw", ("globalLock", "activeClients"), _queue("activeClients")),
    ("net_in", ("network",), lambda interval: _size(_BYTES["net_in"](interval))),
    ("net_out", ("network",), lambda interval: _size(_BYTES["net_out"](interval))),
    ("conn", ("connections",), lambda interval: str(interval.after["connections"]["current"])),
    ("set", ("repl", "setName"), lambda interval: str(interval.after["repl"]["setName"])),
    ("repl", ("repl",), _state),
    ("time", (), _time),
)
"""Names, the section that each needs, and its text."""


@click.command("mongostat", cls=ToolCommand, context_settings={"help_option_names": ["--help"]})
@connection_options
@click.option("-n", "--rowcount", type=click.IntRange(0), default=0, help="Lines to print; 0 for no end [0].")
@click.option("-o", "--fields", "only", metavar="FIELDS", help="Print these columns: names, or paths in serverStatus.")
@click.option("-O", "additional", metavar="FIELDS", help="Print these columns too, behind the others.")
@click.option(
    "--humanReadable", "is_readable", type=click.BOOL, default=True, show_default=True,
    help="Sizes in their units; else in bytes.",
)  # fmt: skip
@click.option("--noheaders", is_flag=True, help="Leave out the names of the columns.")
@click.option("--json", "as_json", is_flag=True, help="Print each line as JSON.")
@click.argument("seconds", type=click.IntRange(1), default=1, metavar="[SECONDS]")
@click.version_option(docstore.__version__, message="Docstore mongostat version %(version)s")
def main(
    rowcount: int,
    noheaders: bool,
    as_json: bool,
    seconds: int,
    only: str | None,
    additional: str | None,
    is_readable: bool,
    **options: Any,
) -> None:
    """Print what a server has done in each SECONDS, as numbers of one second.

    FIELDS are separated by commas: names of columns, or paths such as network.numRequests; behind a path may stand
    .diff(), what it has grown by, or .rate(), that in a second, and then =HEADER.
    """
    if only is not None and additional is not None:
        raise click.UsageError("columns are named by -o or by -O")
    columns = _columns(only, additional, is_readable=is_readable)
    try:
        with connect(**options) as client:
            host = "{}:{}".format(*(client.address or ("", "")))
            for number, interval in enumerate(_intervals(client, rowcount, seconds)):
                row = {name: text(interval) for name, section, text in columns if _has(interval, section)}
                if as_json:
                    click.echo(json.dumps({host: row}, separators=(",", ":")))
                    continue
                widths = {name: max(len(name), len(text)) for name, text in row.items()}
                if not noheaders and not number % _HEADER_EVERY:
                    click.echo(" ".join(name.rjust(widths[name]) for name in row))
                click.echo(" ".join(text.rjust(widths[name]) for name, text in row.items()))
    except PyMongoError as error:
        raise failure_of(error) from error


def _columns(only: str | None, additional: str | None, *, is_readable: bool) -> list[Column]:
    """Return the columns of the options. Errors: click.UsageError."""
    standard = [
        standard_column if is_readable or standard_column[0] not in _BYTES else _in_bytes(standard_column)
        for standard_column in _COLUMNS
    ]
    columns_by_name = {name: column for column in standard for name in (column[0],)}
    named = [_column(text, columns_by_name) for text in (only or additional or "").split(",") if text]
    return named if only is not None else [*standard, *named]


def _in_bytes(column: Column) -> Column:
    name, section, _ = column
    return name, section, lambda interval: str(_BYTES[name](interval))


def _column(text: str, columns: Mapping[str, Column]) -> Column:
    """Parse a column. Errors: click.UsageError."""
    field, _, header = text.partition("=")
    if field in columns:
        name, section, format_value = columns[field]
        return header or name, section, format_value
    path, _, method = field.rpartition(".")
    if not method.endswith("()"):
        path, method = field, ""
    if method not in ("", "diff()", "rate()") or not path:
        raise click.UsageError(f"{text} is no column: a path may end in .diff() or .rate()")
    parts = tuple(path.split("."))
    return header or field, parts, lambda interval: _format_value(interval, parts, method)


def _format_value(interval: Interval, path: tuple[str, ...], method: str) -> str:
    """Return a value of serverStatus, or the change of a number; empty for the change of another type."""
    now = _value(interval.after, path, None)
    if not method:
        return str(now)
    before = _value(interval.before, path, None)
    if not isinstance(now, (int, float)) or not isinstance(before, (int, float)):
        return ""
    return f"{now - before:g}" if method == "diff()" else f"{(now - before) / interval.seconds:.4g}"


def _has(interval: Interval, section: tuple[str, ...]) -> bool:
    return all(_value(status, section, None) is not None for status in (interval.before, interval.after))


def _intervals(client: Client, count: int, seconds: int) -> Iterator[Interval]:
    """Yield intervals: `count` of them, or without end if it is 0."""
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
