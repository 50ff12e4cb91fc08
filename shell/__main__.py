"""The `mongo` command: connect, run scripts, or talk.

Exit codes are those of the classic shell: 0, or what `quit(code)` says; 1 when no server can be reached; 252 and 253
when `--eval` or a file fails.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from getpass import getpass
from importlib import import_module
from pathlib import Path
from typing import Any

import bson
import click

import docstore
from shell.address import EXTERNAL, MECHANISMS, X509, Address, AddressError, parse_address
from shell.bindings.screen import Screen, has_colours
from shell.bindings.session import Interrupted, ScriptFailure, Session, Unfinished
from shell.deployment import ANY_MEMBER, Deployment, Unreachable
from shell.encryption import Encryption
from shell.repl import interactive

UNREACHABLE, EVAL_FAILED, FILE_FAILED, INTERRUPTED = 1, 252, 253, 130
STARTUP_FILE = Path("~/.mongorc.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line. `named`: an address and files, in any order; `expression`: the argument of `--eval`; `stay`:
    `--shell`. An empty password means to ask for one.
    """

    named: tuple[str, ...]
    host: str | None
    port: int | None
    username: str | None
    password: str | None
    source: str | None
    mechanism: str | None
    tls: bool
    ca_file: str | None
    certificate_key_file: str | None
    certificate_password: str | None
    crl_file: str | None
    invalid_certificates: bool
    invalid_hostnames: bool
    expression: str | None
    quiet: bool
    nodb: bool
    norc: bool
    stay: bool

    @property
    def files(self) -> list[Path]:
        """The scripts to run."""
        return [Path(name) for name in self.named if name.endswith(".js")]

    @property
    def talks(self) -> bool:
        """True if the shell shows its prompt."""
        return self.stay or not (self.files or self.expression is not None)

    def address(self) -> Address | None:
        """Return the address and the user; None to connect nowhere. May ask for a password. Error: click.UsageError."""
        addresses = [name for name in self.named if not name.endswith(".js")]
        if len(addresses) > 1 or (self.nodb and (addresses or self.host or self.port or self.username)):
            raise click.UsageError("give at most one address, and none with --nodb")
        certified = self.mechanism == X509
        if certified and (self.password is not None or self.source not in (None, EXTERNAL)):
            raise click.UsageError(f"a user of {X509} has no password and is of {EXTERNAL}")
        if self.username is None and not certified and (self.password, self.source, self.mechanism) != (None,) * 3:
            raise click.UsageError("a password, an authentication database or a mechanism needs --username")
        encryption = self._encryption()
        if self.nodb:
            return None
        try:
            address = parse_address(addresses[0] if addresses else "", host=self.host, port=self.port)
        except AddressError as error:
            raise click.UsageError(str(error)) from error
        if encryption is not None:
            address = replace(address, encryption=encryption)
        if certified:
            return address.with_credentials(self.username or "", "", EXTERNAL, X509)
        if self.username is None:
            return address
        password = self.password or getpass("Enter password: ")
        return address.with_credentials(self.username, password, self.source, self.mechanism)

    def _encryption(self) -> Encryption | None:
        """Error: click.UsageError."""
        settings = (
            self.ca_file, self.certificate_key_file, self.certificate_password, self.crl_file,
            self.invalid_certificates or None, self.invalid_hostnames or None,
        )  # fmt: skip
        if not self.tls:
            if any(setting is not None for setting in settings):
                raise click.UsageError("options that begin with --tls need --tls")
            return None
        if self.nodb:
            raise click.UsageError(
                "--tls is for a connection, and --nodb makes none: connect to mongodb://...?tls=true"
            )
        return Encryption(
            ca_file=self.ca_file,
            certificate_key_file=self.certificate_key_file,
            password=self.certificate_password,
            crl_file=self.crl_file,
            invalid_certificates=self.invalid_certificates,
            invalid_hostnames=self.invalid_hostnames,
        )


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("named", nargs=-1, metavar="[ADDRESS] [FILE.js]...")
@click.option("--host", help="Server to connect to: HOST[:PORT] or SET/HOST:PORT,HOST:PORT.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port to connect to.")
@click.option("-u", "--username", help="User to be.")
@click.option("-p", "--password", is_flag=False, flag_value="", help="The user's password; asked for when left out.")
@click.option("--authenticationDatabase", "source", help="Database that knows the user.")
@click.option("--authenticationMechanism", "mechanism", type=click.Choice(MECHANISMS), help="How to authenticate.")
@click.option("--tls", is_flag=True, help="Encrypt connections.")
@click.option("--tlsCAFile", "ca_file", help="Certificates of the authorities that are trusted, in PEM.")
@click.option("--tlsCertificateKeyFile", "certificate_key_file", help="A certificate and its key for servers to see.")
@click.option("--tlsCertificateKeyFilePassword", "certificate_password", help="What that key is encrypted with.")
@click.option("--tlsCRLFile", "crl_file", help="The list of certificates that were revoked, in PEM.")
@click.option("--tlsAllowInvalidCertificates", "invalid_certificates", is_flag=True, help="Take any certificate.")
@click.option("--tlsAllowInvalidHostnames", "invalid_hostnames", is_flag=True, help="Take those for other hosts.")
@click.option("--eval", "expression", help="Run a script and print its value.")
@click.option("--quiet", is_flag=True, help="Print no banner.")
@click.option("--nodb", is_flag=True, help="Do not connect; `connect()` can do so later.")
@click.option("--norc", is_flag=True, help="Do not run .mongorc.js at the start.")
@click.option("--shell", "stay", is_flag=True, help="Stay at the prompt after running files or --eval.")
@click.version_option(docstore.__version__, message="Docstore shell version %(version)s")
def main(**given: Any) -> None:
    """An interactive JavaScript shell.

    ADDRESS is HOST[:PORT][/DATABASE], a database of the server on this machine, or mongodb://HOST,HOST/DATABASE.
    """
    # Files that it creates are private to their owner.
    os.umask(0o077)
    options = Options(**given)
    sys.exit(_run(options, options.address()))


def _run(options: Options, address: Address | None) -> int:
    if not options.quiet:
        print(f"Docstore shell version: {docstore.__version__}")
    if options.talks and sys.stdin.isatty():
        # While the server is asked and the isolate made, which need little of Python.
        threading.Thread(target=import_module, args=("shell.terminal",), daemon=True).start()
    deployment = None
    if address is not None:
        deployment = _connected(address, quiet=options.quiet)
        if deployment is None:
            return UNREACHABLE
    terminal = sys.stdout.isatty()
    session = Session(deployment, Screen(sys.stdout, live=terminal, colour=options.talks and has_colours(terminal)))
    try:
        code = _scripts(session, options)
        if code is None and options.talks:
            if deployment is not None and not options.quiet:
                print_startup_warnings(deployment)
            code = interactive(session, quiet=options.quiet)
        return code or 0
    finally:
        session.close()


def _connected(address: Address, *, quiet: bool) -> Deployment | None:
    """Return a deployment that answers; None, after a message, if there is none."""
    if not quiet:
        print(f"connecting to: {address}/{address.database}", flush=True)
    try:
        deployment = Deployment(address)
        reply = bson.decode(deployment.run(bson.encode({"buildInfo": 1, "$db": "admin"}), preference=ANY_MEMBER))
    except Unreachable as error:
        print(f"Error: {error}\nexception: connect failed\nexiting with code {UNREACHABLE}")
        return None
    if not quiet and "version" in reply:
        print(f"server version: {reply['version']}", flush=True)
    return deployment


def print_startup_warnings(deployment: Deployment) -> None:
    """Print the server's startup warnings, if the user may read them."""
    try:
        command = bson.encode({"getLog": "startupWarnings", "$db": "admin"})
        reply = bson.decode(deployment.run(command, preference=ANY_MEMBER))
    except Unreachable:
        return
    lines = [json.loads(line) for line in reply.get("log", ())]
    if lines:
        print("---\nThe server generated these startup warnings when booting:")
        for line in lines:
            print(f"        {line['t']['$date']}: {line['msg']}")
        print("---", flush=True)


def _scripts(session: Session, options: Options) -> int | None:
    """Run the scripts of the command line. Return the exit code if that ends the shell."""
    own = STARTUP_FILE.expanduser()
    if options.talks and not options.norc and own.exists():
        code = _step(session, partial(_run_file, session, own), FILE_FAILED)
        if session.host.exit_code is not None:
            return code  # the user's own file failed: report it and continue
    steps: list[tuple[Callable[[], None], int]] = []
    if options.expression is not None:
        steps.append((partial(session.show, options.expression), EVAL_FAILED))
    steps += [(partial(_run_file, session, path), FILE_FAILED) for path in options.files]
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
