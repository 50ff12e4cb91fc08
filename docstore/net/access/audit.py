"""Destinations of the audit log: a file, standard output, or syslog.

A failed write to a file stops the process: it must not act unaudited.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import syslog
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import time
from typing import Any

import bson
import yaml
from bson import json_util
from bson.codec_options import DatetimeConversion
from bson.json_util import DatetimeRepresentation, JSONMode, JSONOptions

from docstore.commands.audit.log import AuditLog
from docstore.errors import CommandError
from docstore.kernel.match.predicate import Predicate
from docstore.log import keep
from docstore.net.process import Process, StartError
from docstore.options.values import AuditOptions
from docstore.query.filter.compile import compile_filter
from docstore.query.filter.parse import parse_filter

_EXIT_CODE = 2
_JSON = JSONOptions(
    json_mode=JSONMode.LEGACY,
    datetime_representation=DatetimeRepresentation.ISO8601,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    tz_aware=True,
)


def audit_log(process: Process, options: AuditOptions) -> AuditLog | None:
    """Return the audit log of a process; None if it has none. Errors: StartError."""
    if options.destination is None:
        return None
    event_filter = _filter(options.filter)
    rotate: Callable[[], None] = _nothing
    if options.destination == "file":
        assert options.path is not None, "the options say so"
        file = AuditFile(options.path, as_bson=options.format == "BSON", rename=options.rename)
        write, rotate = file.write, file.rotate
        process.rotations.append(rotate)
    elif options.destination == "console":
        write = _to_console
    else:
        syslog.openlog(process.name, syslog.LOG_PID, syslog.LOG_USER)
        write = _to_syslog
    return AuditLog(write, time, uuid.uuid4(), predicate=event_filter, rotate=rotate)


class AuditFile:
    """A file opened for appending, readable by its owner only. Errors: StartError if it cannot be opened."""

    def __init__(self, path: Path, *, as_bson: bool, rename: bool) -> None:
        self._path = path
        self._as_bson = as_bson
        self._rename = rename
        try:
            self._descriptor = self._open()
        except OSError as error:
            raise StartError(f"cannot write the audit log {path}: {error.strerror}", _EXIT_CODE) from None

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, message: bytes) -> None:
        data = message if self._as_bson else as_json(message).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            raise AssertionError(f"the audit log {self._path} cannot be written: {error.strerror}") from error

    def rotate(self) -> None:
        """Rename the file and start a new one; or reopen the path. Errors: OSError."""
        if self._rename and self._path.exists():
            keep(self._path, datetime.now(UTC))
        old, self._descriptor = self._descriptor, self._open()
        os.close(old)


def as_json(message: bytes) -> str:
    """Return a message as one line; one with values that JSON has no form for as its BSON, in base64.

    Clients choose parts of it, and none may evade the log by what it chooses.
    """
    try:
        return json_util.dumps(bson.decode(message, _JSON), json_options=_JSON)
    except Exception:
        return json.dumps({"bson": base64.b64encode(message).decode()})


def _nothing() -> None:
    """Do nothing: there is no file to rotate."""


def _to_console(message: bytes) -> None:
    sys.stdout.write(as_json(message) + "\n")
    sys.stdout.flush()


def _to_syslog(message: bytes) -> None:
    syslog.syslog(syslog.LOG_INFO, as_json(message))


def _filter(text: str | None) -> Predicate | None:
    """Return the predicate of a filter, written in JSON; names need no quotes. Errors: StartError."""
    if text is None:
        return None
    try:
        tree: Any = yaml.safe_load(text)
        if not isinstance(tree, dict):
            raise StartError(f"--auditFilter {text} is no document", _EXIT_CODE)
        condition = json_util.loads(json.dumps(tree), json_options=_JSON)
        return compile_filter(parse_filter(bson.encode(condition)))
    except (yaml.YAMLError, TypeError, ValueError, CommandError) as error:
        reason = error.message if isinstance(error, CommandError) else str(error)
        raise StartError(f"--auditFilter {text} is no filter: {reason}", _EXIT_CODE) from None
