"""Messages and exit status of the tools: 0 on success, else 1, as for MongoDB's tools since 100.0.

All messages go to standard error, one line each with the time in front: standard output is data alone.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import IO, Any

import click
from pymongo.errors import OperationFailure

_EVERY = 3.0
"""Seconds between two lines of progress of a collection."""
_BAR = 24
_SCHEMES = ("mongodb://", "mongodb+srv://")


class ToolFailed(click.ClickException):
    """A failure of a tool; the message is for its user."""

    exit_code = 1
    label = "Failed"
    """The word before the message."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"{_stamp()}\t{self.label}: {self.message}", err=True, file=file)


def failure_of(error: Exception) -> ToolFailed:
    """Return a short failure for an error of the driver or of a file."""
    details = error.details if isinstance(error, OperationFailure) else None
    return ToolFailed(str(details["errmsg"]) if details and "errmsg" in details else str(error))


class _WrongOptions(ToolFailed):
    def __init__(self, error: click.UsageError) -> None:
        super().__init__(error.format_message())
        self._command = error.ctx.info_name if error.ctx is not None else None

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"{_stamp()}\terror parsing command line options: {self.message}", err=True, file=file)
        if self._command is not None:
            click.echo(f"{_stamp()}\ttry '{self._command} --help' for more information", err=True, file=file)


class ToolCommand(click.Command):
    """A command whose wrong options end it with 1, like any failure; click's own code for them is 2."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            raise _WrongOptions(error) from error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Treat an argument that is a connection string as `--uri`, if the tool has that option."""
        if not any(param.name == "uri" for param in self.params):
            return super().parse_args(ctx, args)
        valued = {
            name
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag and not param._flag_needs_value
            for name in param.opts
        }
        expanded_args: list[str] = []
        for position, argument in enumerate(args):
            if argument.startswith(_SCHEMES) and not (position and args[position - 1] in valued):
                expanded_args.append("--uri")
            expanded_args.append(argument)
        return super().parse_args(ctx, expanded_args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and flush its output at the end, so that a full disk ends it with 1."""
        # Files that it creates are private to its owner.
        os.umask(0o077)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except click.UsageError as error:
            raise _WrongOptions(error) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                # click ends the process without a word, as a reader that has enough expects.
                raise
            _discard_output()
            raise ToolFailed(str(error)) from error
        except BaseException:
            # What ended the command may have been its output, by another name.
            try:
                sys.stdout.flush()
            except OSError:
                _discard_output()
            raise


def _discard_output() -> None:
    """Discard unwritable standard output, so that the process does not try it again at its end."""
    with suppress(io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Terminal:
    """The standard error of a tool. In quiet mode only failures are printed."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def say(self, text: str) -> None:
        if not self._quiet:
            click.echo(f"{_stamp()}\t{text}", err=True)

    @contextmanager
    def progress(self) -> Iterator[Progress]:
        """Yield a progress table; every three seconds each entry is printed as a line."""
        table, stopped = Progress(), threading.Event()

        def tell() -> None:
            while not stopped.wait(_EVERY):
                for line in table.lines():
                    self.say(line)

        teller = threading.Thread(target=tell, name="progress", daemon=True)
        if not self._quiet:
            teller.start()
        try:
            yield table
        finally:
            stopped.set()
            if not self._quiet:
                teller.join()


class Progress:
    """The progress of each namespace. Any thread may report it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, int | None]] = {}

    def begin(self, name: str, total: int | None = None) -> None:
        """`total`: the final count, if known."""
        with self._lock:
            self._counts[name] = (0, total)

    def reach(self, name: str, count: int) -> None:
        with self._lock:
            self._counts[name] = (count, self._counts[name][1])

    def end(self, name: str) -> None:
        with self._lock:
            del self._counts[name]

    def lines(self) -> list[str]:
        with self._lock:
            return [progress_line(name, count, total) for name, (count, total) in sorted(self._counts.items())]


def progress_line(name: str, count: int, total: int | None) -> str:
    """`[####....]  shop.orders  1000/2500  (40.0%)`, or without a total `shop.orders  1000`."""
    if not total:
        return f"{name}  {count}"
    part = min(count / total, 1.0)
    full = int(part * _BAR)
    return f"[{'#' * full}{'.' * (_BAR - full)}]  {name}  {count}/{total}  ({part:.1%})"


@contextmanager
def text_input() -> Iterator[IO[str]]:
    """Open standard input as UTF-8, without a byte order mark."""
    text = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    try:
        yield text
    finally:
        text.detach()


@contextmanager
def text_output() -> Iterator[IO[str]]:
    """Open standard output as UTF-8."""
    text = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", newline="")
    try:
        yield text
    finally:
        text.flush()
        text.detach()


def _stamp() -> str:
    now = datetime.now(UTC)
    return f"{now:%Y-%m-%dT%H:%M:%S}.{now.microsecond // 1000:03}+0000"
