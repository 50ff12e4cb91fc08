"""Log lines in the format of MongoDB 6.0: one JSON object a line.

    {"t":{"$date":"..."},"s":"I","c":"NETWORK","id":...,"ctx":"...","msg":"...","attr":{...}}

`component("NETWORK").info("Connection accepted", remote="127.0.0.1:5000")`: the message is constant text, everything
that varies is an attribute. `id` is the real server's for well-known messages; else it is derived from component and
message, so it is the same for every occurrence. `ctx` names the connection (an attribute of that name), else the
thread that logged.

An attribute of more than `MAX_ATTRIBUTE_LETTERS` is shown as the beginning of its text, and `truncated` names its type
and size, as with the real server's default of `maxLogSizeKB`.

If client data is redacted, attributes that may hold it show its shape and no values: all but numbers and those that
are named in `_SHOWN`. Names of collections, codes and times stay.

Rotation by an outside program is safe: a log file that was moved or removed is opened anew.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import sys
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from bson import json_util

_ROOT = "docstore"
_PREFIX = f"{_ROOT}."
_STARTUP = "startupWarnings"
_SEVERITIES = ((logging.CRITICAL, "F"), (logging.ERROR, "E"), (logging.WARNING, "W"), (logging.INFO, "I"))
_RECENT_LINES = 1024
MAX_ATTRIBUTE_LETTERS = 10 * 1024
_SHOWN = frozenset((
    "addresses", "appName", "backupId", "before", "begin", "buildInfo", "commonPoint", "config", "date", "db",
    "dbpath", "decision", "directory", "dropped", "end", "engine", "family", "file", "files", "host", "hostAndPort",
    "keyspace", "kind", "lastApplied", "lastEntry", "line", "loop", "mechanism", "milliseconds", "name", "newState",
    "newSyncSource", "notValidAfter", "notValidBefore", "note", "ns", "oldState", "oldSyncSource", "path", "phase",
    "planSummary", "protocol", "remote", "remoteHost", "role", "shard", "source", "start", "state", "subject",
    "tlsVersion", "type", "url", "user", "what", "work",
))  # fmt: skip
"""Attributes that a redacted log shows: names, addresses, paths, times and states, no values of clients."""
_REDACTED = "###"
_THREADS = {"MainThread": "main"}
_IDS = {
    "Connection accepted": 22943, "Connection ended": 22944, "client metadata": 51800, "Slow query": 51803,
    "Accepted connection with TLS": 23218,
    "Successfully rotated X509 certificates.": 4913400, "Certificate information": 4913010,
    "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted":
        22120,
    "Waiting for connections": 23016, "Build Info": 23403,
    "Replica set state transition": 21358, "Member is in new state": 21215, "Member is now in state DOWN": 21216,
    "New replica set config in use": 21392, "Found self in config": 21393, "Changed sync source": 21088,
    "Starting an election, since we've seen no PRIMARY in election timeout period": 4615652,
    "Starting an election for a priority takeover": 4615660, "Starting an election due to step up request": 4615661,
    "Conducting a dry run election to see if we could be elected": 21438, "VoteRequester processResponse": 51799,
    "Dry election run succeeded, running for election": 21444, "Election succeeded, assuming primary role": 21450,
    "Not running for primary, we received insufficient votes": 21440, "Responding to vote request": 23980,
    "Scheduling priority takeover": 4615601, "Canceling priority takeover callback": 21484,
    "Entering primary catch-up mode": 21359, "Exited primary catch-up mode": 21363,
    "Transition to primary complete; database writes are now permitted": 21331,
    "replSetReconfig admin command received from client": 21352,
}  # fmt: skip


COMPONENTS = {
    "accessControl": "ACCESS", "command": "COMMAND", "control": "CONTROL", "network": "NETWORK", "replication": "REPL",
    "replication.initialSync": "INITSYNC", "replication.rollback": "ROLLBACK", "sharding": "SHARDING",
    "sharding.migration": "MIGRATE", "storage": "STORAGE", "transaction": "TXN",
}  # fmt: skip
"""The components whose verbosity can be set, under the paths that `logComponentVerbosity` has for them."""
INHERITED = -1
"""The verbosity of a component that has none of its own."""


class Component:
    """Logs under one of MongoDB's component names."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{name}")

    def debug(self, message: str, /, **attributes: Any) -> None:
        self._log(logging.DEBUG, message, attributes)

    def info(self, message: str, /, **attributes: Any) -> None:
        self._log(logging.INFO, message, attributes)

    def warning(self, message: str, /, **attributes: Any) -> None:
        self._log(logging.WARNING, message, attributes)

    def startup_warning(self, message: str, /, **attributes: Any) -> None:
        """Log a warning about how the process was started, which shells print when they connect."""
        self._log(logging.WARNING, message, {**attributes, "tags": [_STARTUP]})

    def error(self, message: str, /, **attributes: Any) -> None:
        """`exc_info=exception` adds its traceback."""
        self._log(logging.ERROR, message, attributes)

    def fatal(self, message: str, /, **attributes: Any) -> None:
        """Log an error that stops the process. `exc_info=exception` adds its traceback."""
        self._log(logging.CRITICAL, message, attributes)

    def _log(self, level: int, message: str, attributes: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            error = attributes.pop("exc_info", None)
            # The source line is not needed: the message leads there.
            traced = None if error is None else (type(error), error, error.__traceback__)
            record = logging.LogRecord(self._logger.name, level, "", 0, "%s", (message,), traced)
            record.attributes = attributes
            self._logger.handle(record)


def component(name: str) -> Component:
    """The logger of a component: NETWORK, COMMAND, REPL, STORAGE, SHARDING, CONTROL, ..."""
    return Component(name)


class JsonFormatter(logging.Formatter):
    """Formats one record as one line, which all handlers share."""

    def format(self, record: logging.LogRecord) -> str:
        line: str | None = getattr(record, "line", None)
        if line is None:
            line = record.line = self._line(record)
        return line

    def _line(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix(_PREFIX) if record.name.startswith(_PREFIX) else "-"
        message = record.getMessage()
        severity = next((letter for level, letter in _SEVERITIES if record.levelno >= level), "D1")
        attributes = dict(getattr(record, "attributes", {}))
        context = attributes.pop("ctx", _THREADS.get(record.threadName or "", record.threadName))
        if record.exc_info:
            attributes["traceback"] = self.formatException(record.exc_info)
        tags = attributes.pop("tags", None)
        if _settings.redact:
            attributes = {key: value if key in _SHOWN else _redacted(value) for key, value in attributes.items()}
        # Some are as wide as the real server makes them, so that lines stand in columns.
        parts = [
            f'{{"t":{{"$date":"{_time(record.created)}"}},',
            f'"s":"{severity}",'.ljust(10),
            f'"c":"{name}",'.ljust(16),
            f'"id":{_id_of(name, message)},'.ljust(14),
            f'"ctx":{_encode(context)},"msg":{_encode(message)}',
        ]
        if attributes:
            text = _encode(attributes)
            truncated: dict[str, Any] = {}
            if len(text) > MAX_ATTRIBUTE_LETTERS:
                attributes, truncated = _truncated(attributes)
                text = _encode(attributes)
            parts.append(f',"attr":{text}')
            if truncated:
                parts.append(f',"truncated":{_encode(truncated)}')
        if tags:
            parts.append(f',"tags":{_encode(tags)}')
        parts.append("}")
        return "".join(parts)


def _truncated(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes with long ones cut, and what is said of those: their types and sizes."""
    shown, cut = {}, {}
    for name, value in attributes.items():
        text = value if isinstance(value, str) else _encode(value)
        if len(text) > MAX_ATTRIBUTE_LETTERS:
            kind = "string" if isinstance(value, str) else "object" if isinstance(value, Mapping) else "array"
            cut[name] = {"type": kind, "size": len(text)}
            value = text[:MAX_ATTRIBUTE_LETTERS]
        shown[name] = value
    return shown, cut


@lru_cache(maxsize=1024)
def _id_of(name: str, message: str) -> int:
    return _IDS.get(message) or 1_000_000 + zlib.crc32(f"{name} {message}".encode()) % 9_000_000


@lru_cache(maxsize=4)
def _second(second: int) -> tuple[str, str]:
    """Return the text before and after the milliseconds of a time in that second."""
    text = datetime.fromtimestamp(second).astimezone().isoformat()
    return text[:19], text[19:]


def _time(created: float) -> str:
    second = int(created)
    prefix, suffix = _second(second)
    return f"{prefix}.{int((created - second) * 1000):03}{suffix}"


def _redacted(value: Any) -> Any:
    """The shape of a value; a number that is no part of one is the log's own."""
    return value if value is None or isinstance(value, int | float) else _shape(value)


def _shape(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _shape(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shape(inner) for inner in value]
    return _REDACTED


def _extended(value: Any) -> Any:
    """BSON values as extended JSON, anything else as its text."""
    try:
        return json_util.default(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)


_encode = json.JSONEncoder(default=_extended, separators=(",", ":")).encode


class RecentLines(logging.Handler):
    """The newest lines in memory, for getLog."""

    def __init__(self, tag: str | None = None) -> None:
        """`tag`: of the lines that are kept; None: all."""
        super().__init__()
        self._tag = tag
        self.lines: deque[str] = deque(maxlen=_RECENT_LINES)
        self.setFormatter(JsonFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if self._tag is None or self._tag in getattr(record, "attributes", {}).get("tags", ()):
            self.lines.append(self.format(record))


@dataclass(slots=True)
class _Settings:
    verbosity: int = 0
    components: dict[str, int] = field(default_factory=dict)
    quiet: bool = False
    path: Path | None = None
    rename: bool = True
    redact: bool = False


_settings = _Settings()
RECENT = RecentLines()
"""The lines of getLog "global"."""
WARNINGS = RecentLines(_STARTUP)
WARNINGS.setLevel(logging.WARNING)
"""The lines of getLog "startupWarnings"."""


def configure(path: Path | None, *, append: bool, verbosity: int = 0, quiet: bool = False, rename: bool = True) -> None:
    """Send log lines to a file, or without one to standard output, where programs that start servers look for them.

    Errors: OSError when the file cannot be written.
    `verbosity` above 0 shows debug lines. `quiet`: see `set_quiet`. `rename`: `rotate` renames the old file. Without
    `append` an existing file is kept under a name with its time of ending, as the real server does.
    """
    handler: logging.Handler
    if path is None:
        handler = logging.StreamHandler(sys.stdout)
    else:
        if not append and path.exists():
            keep(path, datetime.fromtimestamp(path.stat().st_mtime, UTC))
        handler = logging.handlers.WatchedFileHandler(path, encoding="utf-8")
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    for root_handler in (handler, RECENT, WARNINGS):
        root.addHandler(root_handler)
    root.setLevel(logging.INFO)
    set_verbosity(verbosity)
    set_quiet(quiet)
    _settings.path = path
    _settings.rename = rename


def rotate() -> bool:
    """Start a new log file and keep the old one under another name; or only reopen the file, if another program
    rotates it. False when the log goes to standard output. Errors: OSError.
    """
    path = _settings.path
    if path is None:
        return False
    if _settings.rename and path.exists():
        keep(path, datetime.now(UTC))
    # The handler sees at its next line that its file is no longer where it was.
    component("CONTROL").info("Log rotated", file=str(path))
    return True


def keep(path: Path, ended: datetime) -> None:
    """Rename a finished file to a name with the time of its end. Errors: OSError."""
    path.rename(path.with_name(f"{path.name}.{ended.strftime('%Y-%m-%dT%H-%M-%S')}"))


def set_verbosity(level: int) -> None:
    """0 to 5, as the real server's; above 0 shows debug lines."""
    _settings.verbosity = min(max(level, 0), 5)
    logging.getLogger(_ROOT).setLevel(logging.DEBUG if level > 0 else logging.INFO)


def verbosity() -> int:
    """Return the level of `set_verbosity`."""
    return _settings.verbosity


def set_component_verbosity(path: str, level: int) -> None:
    """Set the level of one of `COMPONENTS` and of its sub-components without a level of their own. `INHERITED`: that
    of its parent.
    """
    _settings.components[path] = min(max(level, INHERITED), 5)
    for component_path, name in COMPONENTS.items():
        own = component_verbosity(component_path)
        if own == INHERITED and "." in component_path:
            own = component_verbosity(component_path.partition(".")[0])
        threshold = logging.NOTSET if own == INHERITED else logging.DEBUG if own > 0 else logging.INFO
        logging.getLogger(_PREFIX + name).setLevel(threshold)


def component_verbosity(path: str) -> int:
    """Return the level of that component itself, from `set_component_verbosity`."""
    return _settings.components.get(path, INHERITED)


def set_quiet(quiet: bool) -> None:
    """Leave out the lines of connections that come and go."""
    _settings.quiet = quiet


def is_quiet() -> bool:
    """True if lines about connections are left out."""
    return _settings.quiet


def set_redaction(redact: bool) -> None:
    """Show no values that clients have sent."""
    _settings.redact = redact


def is_redacted() -> bool:
    """True if clients' values are redacted."""
    return _settings.redact
