"""The `mongo` command: connect, run scripts, or talk.

Exit codes are those of the classic shell: 0, or what `quit(code)` says; 1 when no server can be reached; 252 and 253
when `--eval` or a file fails.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import bson
import click

import docstore
from shell.address import Address, AddressError, parse_address
from shell.bindings.session import Interrupted, ScriptFailure, Session, Unfinished
from shell.deployment import Deployment, Unreachable
from shell.repl import interactive

UNREACHABLE, EVAL_FAILED, FILE_FAILED, INTERRUPTED = 1, 252, 253, 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, metavar="[ADDRESS] [FILE.js]...")
@click.option("--host", help="Server to connect to: HOST[:PORT] or SET/HOST:PORT,HOST:PORT.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to connect to.")
@click.option("--eval", "expression", help="Run a script and print its value.")
@click.option("--quiet", is_flag=True, help="Print no banner.")
@click.option("--nodb", is_flag=True, help="Do not connect; `connect()` can do so later.")
@click.option("--shell", "stay", is_flag=True, help="Stay at the prompt after running files or --eval.")
@click.version_option(docstore.__version__, message="Docstore shell version %(version)s")
def main(
    words: tuple[str, ...],
    host: str | None,
    port: int | None,
    expression: str | None,
    quiet: bool,
    nodb: bool,
    stay: bool,
) -> None:
    """An interactive JavaScript shell.

    ADDRESS is HOST[:PORT][/DATABASE], a database of the server on this machine, or mongodb://HOST,HOST/DATABASE.
    """
    files = [Path(word) for word in words if word.endswith(".js")]
    addresses = [word for word in words if not word.endswith(".js")]
    if len(addresses) > 1 or (nodb and addresses):
        raise click.UsageError("give at most one address, and none with --nodb")
    try:
        address = None if nodb else parse_address(addresses[0] if addresses else "", host=host, port=port)
    except AddressError as error:
        raise click.UsageError(str(error)) from error
    sys.exit(_run(address, files, expression, quiet=quiet, stay=stay))


def _run(address: Address | None, files: list[Path], expression: str | None, *, quiet: bool, stay: bool) -> int:
    if not quiet:
        print(f"Docstore shell version: {docstore.__version__}")
    deployment = None
    if address is not None:
        if not quiet:
            print(f"connecting to: {address}/{address.database}", flush=True)
        deployment = Deployment(address)
        try:
            deployment.run(bson.encode({"ping": 1, "$db": "admin"}), any_member=True)
        except Unreachable as error:
            print(f"Error: {error}\nexception: connect failed\nexiting with code {UNREACHABLE}")
            return UNREACHABLE
    session = Session(deployment, sys.stdout)
    try:
        code = _scripts(session, files, expression)
        if code is None and (stay or not (files or expression is not None)):
            code = interactive(session, quiet=quiet)
        return code or 0
    finally:
        session.close()


def _scripts(session: Session, files: list[Path], expression: str | None) -> int | None:
    """Run what the command line asks for; the exit code when that ends the shell."""
    if expression is not None:
        code = _step(session, lambda: session.show(expression), EVAL_FAILED)
        if code is not None:
            return code
    for path in files:
        code = _step(session, partial(_run_file, session, path), FILE_FAILED)
        if code is not None:
            return code
    return None


def _run_file(session: Session, path: Path) -> None:
    session.run_file(path.read_text(encoding="utf-8"), str(path))


def _step(session: Session, run: Callable[[], None], failure_code: int) -> int | None:
    try:
        run()
    except (ScriptFailure, Unfinished, OSError) as error:
        if session.host.exit_code is None:
            print(f"{error}\nexiting with code {failure_code - 256}", flush=True)
            return failure_code
    except Interrupted:
        return INTERRUPTED
    return session.host.exit_code


if __name__ == "__main__":
    main()
