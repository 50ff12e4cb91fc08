"""Fail points, by which drivers' test suites make commands fail, stall or lose their connection.

* `failCommand` does all that to the commands it names.
* `maxTimeAlwaysTimeOut` makes every maxTimeMS expire at once.
* `failGetMoreAfterCursorCheckout` fails a getMore after the checkout, and ends its cursor.
* `stopReplProducer` stops a secondary from fetching oplog entries.
* `onPrimaryTransactionalWrite` closes the connection after a retryable write, or fails the write before its commit. It
  fires once per write unit: a statement, or several inserts.

They exist only in a process started with `enableTestCommands`. While one is active, the dispatcher consults
`docstore.commands.fail_points.failures` for every command. Connections between processes of this project are exempt
unless `failInternalCommands` is set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from docstore.bson import document_to_python, get_field
from docstore.bson.walk import OBJECT, STRING, Value
from docstore.commands.values import NUMBERS, integer_of, number_of, text_of, type_name
from docstore.errors import Code, CommandError

CONFIGURE = "configureFailPoint"
FAIL_COMMAND = "failCommand"
TIME_OUT = "maxTimeAlwaysTimeOut"
WRITE = "onPrimaryTransactionalWrite"
GET_MORE = "failGetMoreAfterCursorCheckout"
HOLD = "stopReplProducer"


class InducedError(CommandError):
    """An error raised by a fail point. If it has its own labels, the server adds none."""

    def __init__(self, code: int, labels: tuple[str, ...] | None) -> None:
        super().__init__(code, "Failing command via 'failCommand' failpoint", labels=labels or ())
        self.labelled = labels is not None


class Failure(NamedTuple):
    """The effect of a fail point on one command. `write_concern_error`: the encoded document for its reply."""

    error: CommandError | None = None
    hang_up: bool = False
    seconds: float | None = None
    write_concern_error: bytes | None = None
    labels: tuple[str, ...] | None = None
    watched: tuple[FailPoint, int] | None = None
    """Close the connection if that point has fired more than this number of times by the end of the command."""


class FailPoint:
    """The mode and data of one fail point. `random()` returns a number from 0 to 1."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.active = False
        self.times_entered = 0
        self.data: dict[str, Any] = {}
        self.raw = b"\x05\0\0\0\0"
        self._times: int | None = None
        self._skip = 0
        self._probability = 1.0

    def configure(self, mode: Value, raw: bytes | None) -> int:
        """Set the mode and the data; return how often it has fired. Errors: BadValue, TypeMismatch."""
        self._times, self._skip, self._probability, self.active = _mode(mode)
        self.raw = raw or b"\x05\0\0\0\0"
        self.data = document_to_python(self.raw)
        return self.times_entered

    def fires(self) -> bool:
        """True if the point fires now, for an event that matches it."""
        if self._skip:
            self._skip -= 1
            return False
        if self._probability < 1.0 and self._random() >= self._probability:
            return False
        if self._times is not None:
            self._times -= 1
            self.active = self._times > 0
        self.times_entered += 1
        return True


class FailPoints:
    """The fail points of one process. `sleep(seconds)` waits."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]], random: Callable[[], float]) -> None:
        self.sleep = sleep
        self.by_name = {name: FailPoint(random) for name in (FAIL_COMMAND, TIME_OUT, WRITE, GET_MORE, HOLD)}
        self.command, self._time_out, self.write = (self.by_name[name] for name in (FAIL_COMMAND, TIME_OUT, WRITE))
        self.active = False
        self.watch_writes: Callable[[Callable[[], None] | None], None] = lambda _refuse: None
        """Installs a function to call before a unit of a retryable write is committed; None for none."""
        self.hold_log: Callable[[bool], None] | None = None
        """Called with True to pause oplog fetching; None if the process is no replica set member."""

    def configure(self, name: str, mode: Value, raw: bytes | None) -> int:
        """Configure a fail point. Errors: FailPointSetFailed for an unknown one, BadValue, TypeMismatch."""
        point = self.by_name.get(name)
        if point is None or (name == HOLD and self.hold_log is None):
            raise CommandError(Code.FailPointSetFailed, f"{name} not found")
        if name == HOLD and mode[0] != STRING:
            raise CommandError(Code.BadValue, f"'{HOLD}' is on or off: its mode is a string")
        count = point.configure(mode, raw)
        self.active = any(fail_point.active for fail_point in self.by_name.values())
        self.watch_writes(self._refuse_write if self.write.active else None)
        if self.hold_log is not None:
            self.hold_log(self.by_name[HOLD].active)
        return count

    def _refuse_write(self) -> None:
        """Raise the configured error before the commit of a retryable write's unit, if the point fires."""
        if self.write.active and self.write.fires():
            code = self.write.data.get("failBeforeCommitExceptionCode")
            if code is not None:
                raise CommandError(int(code), "Failing write due to failpoint. The write must not be reflected.")

    def times_out(self) -> bool:
        """True if a command with a time limit must time out."""
        return self._time_out.active and self._time_out.fires()


def _mode(mode: Value) -> tuple[int | None, int, float, bool]:
    """Return (times left, times to skip, probability, active)."""
    code, data = mode
    if code == STRING:
        text = text_of(data)
        if text not in ("off", "alwaysOn"):
            raise CommandError(Code.BadValue, f"unknown mode: {text}")
        return None, 0, 1.0, text == "alwaysOn"
    if code != OBJECT:
        raise CommandError(Code.TypeMismatch, "'mode' must be a string or JSON object")
    for name in ("times", "skip", "activationProbability"):
        field = get_field(data, name)
        if field is None:
            continue
        if field[0] not in NUMBERS:
            raise CommandError(
                Code.TypeMismatch, f'Expected field "{name}" to have numeric type, but found {type_name(field[0])}'
            )
        if name == "activationProbability":
            probability = float(number_of(*field))
            if not 0 <= probability <= 1:
                raise CommandError(Code.BadValue, "activationProbability must be between 0.0 and 1.0")
            return None, 0, probability, probability > 0
        number = integer_of(*field)
        if number < 0:
            raise CommandError(Code.BadValue, f"'{name}' option to 'mode' must be positive")
        return (number, 0, 1.0, number > 0) if name == "times" else (None, number, 1.0, True)
    raise CommandError(
        Code.BadValue,
        "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'",
    )
