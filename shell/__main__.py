"""The `mongo` command: connect, run scripts, or talk.

Exit codes are those of the classic shell: 0, or what `quit(code)` says; 1 when no server can be reached; 252 and 253
when `--eval` or a file fails.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from getpass import getpass
from importlib import import_module
from pathlib import Path

import bson
import click

import docstore
from shell.address import MECHANISMS, Address, AddressError, parse_address
from shell.bindings.screen import Screen, has_colours
from shell.bindings.session import Interrupted, ScriptFailure, Session, Unfinished
from shell.deployment import ANY_MEMBER, Deployment, Unreachable
from shell.repl import interactive

UNREACHABLE, EVAL_FAILED, FILE_FAILED, INTERRUPTED = 1, 252, 253, 130
STARTUP_FILE = Path("~/.mongorc.js")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, metavar="[ADDRESS] [FILE.js]...")
@click.option("--host", help="Server to connect to: HOST[:PORT] or SET/HOST:PORT,HOST:PORT.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to connect to.")
@click.option("-u", "--username", help="User to be.")
@click.option("-p", "--password", is_flag=False, flag_value="", help="The user's password; asked for when left out.")
@click.option("--authenticationDatabase", "source", help="Database that knows the user.")
@click.option("--authenticationMechanism", "mechanism", type=click.Choice(MECHANISMS), help="How to authenticate.")
@click.option("--eval", "expression", help="Run a script and print its value.")
@click.option("--quiet", is_flag=True, help="Print no banner.")
@click.option("--nodb", is_flag=True, help="Do not connect; `connect()` can do so later.")
@click.option("--norc", is_flag=True, help="Do not run .mongorc.js at the start.")
@click.option("--shell", "stay", is_flag=True, help="Stay at the prompt after running files or --eval.")
@click.version_option(docstore.__version__, message="Docstore shell version %(version)s")
def main(
    words: tuple[str, ...],
    host: str | None,
    port: int | None,
    username: str | None,
    password: str | None,
    source: str | None,
    mechanism: str | None,
    expression: str | None,
    quiet: bool,
    nodb: bool,
    norc: bool,
    stay: bool,
) -> None:
    """An interactive JavaScript shell.

    ADDRESS is HOST[:PORT][/DATABASE], a database of the server on this machine, or mongodb://HOST,HOST/DATABASE.
    """
    files = [Path(word) for word in words if word.endswith(".js")]
    addresses = [word for word in words if not word.endswith(".js")]
    if len(addresses) > 1 or (nodb and (addresses or host or port or username)):
        raise click.UsageError("give at most one address, and none with --nodb")
    if username is None and (password is not None or source is not None or mechanism is not None):
        raise click.UsageError("a password, an authentication database or a mechanism needs --username")
    try:
        address = None if nodb else parse_address(addresses[0] if addresses else "", host=host, port=port)
    except AddressError as error:
        raise click.UsageError(str(error)) from error
    if address is not None and username is not None:
        address = address.with_credentials(username, password or getpass("Enter password: "), source, mechanism)
    talk = stay or not (files or expression is not None)
    sys.exit(_run(address, files, expression, quiet=quiet, talk=talk, startup=talk and not norc))


def _run(
    address: Address | None, files: list[Path], expression: str | None, *, quiet: bool, talk: bool, startup: bool
) -> int:
    if not quiet:
        print(f"Docstore shell version: {docstore.__version__}")
    if talk and sys.stdin.isatty():  # while the server is asked and the isolate made, which need little of Python
        threading.Thread(target=import_module, args=("shell.terminal",), daemon=True).start()
    deployment = None
    if address is not None:
        if not quiet:
            print(f"connecting to: {address}/{address.database}", flush=True)
        deployment = Deployment(address)
        try:
            reply = bson.decode(deployment.run(bson.encode({"buildInfo": 1, "$db": "admin"}), preference=ANY_MEMBER))
        except Unreachable as error:
            print(f"Error: {error}\nexception: connect failed\nexiting with code {UNREACHABLE}")
            return UNREACHABLE
        if not quiet and "version" in reply:
            print(f"server version: {reply['version']}", flush=True)
    terminal = sys.stdout.isatty()
    session = Session(deployment, Screen(sys.stdout, live=terminal, colour=talk and has_colours(terminal)))
    try:
        code = _scripts(session, files, expression, startup=startup)
        if code is None and talk:
            code = interactive(session, quiet=quiet)
        return code or 0
    finally:
        session.close()


def _scripts(session: Session, files: list[Path], expression: str | None, *, startup: bool) -> int | None:
    """Run what the command line asks for; the exit code when that ends the shell."""
    own = STARTUP_FILE.expanduser()
    if startup and own.exists():
        code = _step(session, partial(_run_file, session, own), FILE_FAILED)
        if session.host.exit_code is not None:
            return code  # a failure of one's own file is told, and the shell goes on
    steps: list[tuple[Callable[[], None], int]] = []
    if expression is not None:
        steps.append((partial(session.show, expression), EVAL_FAILED))
    steps += [(partial(_run_file, session, path), FILE_FAILED) for path in files]
    for run, failure_code in steps:
        code = _step(session, run, failure_code)
        if code is not None:
            if code == failure_code and session.host.exit_code is None:
                print(f"exiting with code {code - 256}", flush=True)
            return code
    return None


def _run_file(session: Session, path: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScriptFailure(f"failed to load: {path}: {error}") from error
    session.run_file(text, str(path))


def _step(session: Session, run: Callable[[], None], failure_code: int) -> int | None:
    try:
        run()
    except (ScriptFailure, Unfinished) as error:
        if session.host.exit_code is None:
            session.screen.write_failure(f"{error}\n")
            return failure_code
    except Interrupted:
        return INTERRUPTED
    return session.host.exit_code


if __name__ == "__main__":
    main()
