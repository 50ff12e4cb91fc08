"""Construction of the services that all commands of a process share: registries, parameters, fail points."""

from __future__ import annotations

import asyncio
import random
import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic, time
from typing import Any

from docstore import log
from docstore.buffers import BUFFERS
from docstore.commands.access.control import AccessControl
from docstore.commands.access.transport_security import TransportSecurity
from docstore.commands.audit.log import AuditLog, no_audit_parameter
from docstore.commands.builtin import TEST_COMMANDS
from docstore.commands.context import Context, Services, Transactions
from docstore.commands.cursors import CursorRegistry
from docstore.commands.declaration import CommandTable
from docstore.commands.dispatch import Dispatcher
from docstore.commands.fail_points.registry import FailPoints
from docstore.commands.host import Host, Switches
from docstore.commands.limits import FACES
from docstore.commands.operations.registry import OperationRegistry
from docstore.commands.parameters import ParameterTable, ServerParameter, truth, whole_number
from docstore.commands.parts import Parts
from docstore.commands.sessions.registry import TIMEOUT_MINUTES, ClientSessions
from docstore.errors import Code, CommandError
from docstore.js.script_thread import Turns, wait_on_thread
from docstore.net.access.audit import audit_log
from docstore.net.access.key_file import cluster_keys
from docstore.net.memory.allocator import resident_bytes
from docstore.net.process import Process, StartError
from docstore.net.scheduling.scheduler import Scheduler
from docstore.net.tls.certificates import TlsCertificates, tls_certificates
from docstore.options import Options
from docstore.security.cluster_keys import ClusterKeys
from docstore.security.time_proofs import TimeProofs
from docstore.security.users import UserDirectory

_MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProcessSecurity:
    """`keys` authenticate the cluster's processes, `certificates` encrypt connections, `audit` logs client actions."""

    keys: ClusterKeys | None = None
    certificates: TlsCertificates | None = None
    audit: AuditLog | None = None

    @property
    def proofs(self) -> TimeProofs | None:
        return None if self.keys is None else self.keys.proofs


NO_SECURITY = ProcessSecurity()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestExecution:
    """The functions by which a process executes requests: the fields of `Services` that have these names.

    Without `operations` the process gets a new registry.
    """

    carry_out: Callable[[Context, Callable[[], Any]], Awaitable[Any]]
    transactions: Transactions
    operations: OperationRegistry | None = None


def security_of(process: Process, options: Options) -> ProcessSecurity:
    """Return the security that the options ask for. Errors: StartError."""
    return ProcessSecurity(
        cluster_keys(options.security), tls_certificates(options.tls), audit_log(process, options.audit)
    )


def services_of(
    table: CommandTable,
    host: Host,
    parameters: ParameterTable,
    execution: RequestExecution,
    *,
    parts: Parts,
    users: UserDirectory,
    security: ProcessSecurity,
) -> Services:
    """Return the services of one process; see `Services`.

    `parts`: the scheduler among them. `users`: the user directory. `parameters` receives the services' own parameters
    too.
    """
    certificates, audit = security.certificates, security.audit
    access = AccessControl(
        users, keys=security.keys, random_bytes=secrets.token_bytes, aside=asyncio.to_thread, pause=asyncio.sleep
    )
    services = Services(
        table=table,
        host=host,
        sessions=ClientSessions(monotonic, lambda: uuid.uuid4().bytes),
        cursors=CursorRegistry(monotonic, lambda: secrets.randbits(64)),
        operations=execution.operations or OperationRegistry(monotonic),
        clock=monotonic,
        wall_clock=time,
        parts=parts,
        parameters=parameters,
        access=access,
        transport_security=certificates,
        audit=audit,
        observers=[] if audit is None else [audit.observe],
        fail_points=FailPoints(asyncio.sleep, random.random),
        transactions=execution.transactions,
        carry_out=execution.carry_out,
        run_on_thread=partial(Turns, scripts=None),
        supervised_pause=partial(wait_on_thread, parts[Scheduler].pause),
        memory=resident_bytes,
    )
    parameters.add(
        (
            *access.parameters(),
            *_of_registries(services),
            *_of_switches(services.switches),
            _test_commands(table),
            _of_buffers(),
            _tls_mode(certificates),
            _cluster_mode(access, certificates),
            *(() if certificates is None else (certificates.parameter(),)),
            no_audit_parameter() if audit is None else audit.parameter(),
        )
    )
    return services


def _of_registries(services: Services) -> tuple[ServerParameter, ...]:
    cursors, sessions = services.cursors, services.sessions

    def put_cursor_timeout(value: Any) -> None:
        cursors.idle_seconds = whole_number("cursorTimeoutMillis", value) / 1000

    def put_monitor_frequency(value: Any) -> None:
        seconds = whole_number("clientCursorMonitorFrequencySecs", value)
        if seconds < 1:
            raise CommandError(Code.BadValue, "clientCursorMonitorFrequencySecs must be at least 1")
        cursors.monitor_seconds = seconds

    def put_session_timeout(value: Any) -> None:
        sessions.timeout_seconds = whole_number("localLogicalSessionTimeoutMinutes", value) * 60.0

    return (
        ServerParameter(
            name="cursorTimeoutMillis", get=lambda: int(cursors.idle_seconds * 1000), assign=put_cursor_timeout
        ),
        ServerParameter(
            name="clientCursorMonitorFrequencySecs", get=lambda: cursors.monitor_seconds, assign=put_monitor_frequency
        ),
        ServerParameter(
            name="localLogicalSessionTimeoutMinutes",
            get=lambda: int(sessions.timeout_seconds // 60) or TIMEOUT_MINUTES,
            assign=put_session_timeout,
            startup_only=True,
        ),
    )


def _of_switches(switches: Switches) -> tuple[ServerParameter, ...]:
    def require(value: Any) -> None:
        switches.require_api_version = truth(value)

    return (
        ServerParameter(name="featureCompatibilityVersion", get=lambda: {"version": switches.face.feature_version}),
        ServerParameter(name="requireApiVersion", get=lambda: switches.require_api_version, assign=require),
        *log_parameters(),
    )


def log_parameters() -> tuple[ServerParameter, ...]:
    """Return the parameters of the log."""
    return (
        ServerParameter(
            name="logLevel", get=log.verbosity, assign=lambda value: log.set_verbosity(whole_number("logLevel", value))
        ),
        ServerParameter(name="logComponentVerbosity", get=_component_verbosity, assign=_put_component_verbosity),
        ServerParameter(
            name="redactClientLogData", get=log.is_redacted, assign=lambda value: log.set_redaction(truth(value))
        ),
        ServerParameter(name="quiet", get=log.is_quiet, assign=lambda value: log.set_quiet(truth(value))),
    )


def _component_verbosity() -> dict[str, Any]:
    """Return the verbosity of the whole log, and of each component with its subcomponents."""
    verbosities: dict[str, Any] = {"verbosity": log.verbosity()}
    for path in log.COMPONENTS:
        *above, name = path.split(".")
        parent = verbosities[above[0]] if above else verbosities
        parent[name] = {"verbosity": log.component_verbosity(path)}
    return verbosities


def _put_component_verbosity(value: Any) -> None:
    """Set the verbosity of some components. Errors: TypeMismatch, BadValue; nothing has changed then."""
    if not isinstance(value, Mapping):
        raise CommandError(Code.TypeMismatch, f"logComponentVerbosity takes a document, not {value!r}")
    for path, level in list(_said_of_components("", value)):
        if path:
            log.set_component_verbosity(path, level)
        else:
            log.set_verbosity(level)


def _said_of_components(path: str, value: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield (path of a component, verbosity); the empty path is the whole log. Errors: BadValue."""
    for name, inner in value.items():
        below = f"{path}.{name}" if path else name
        if name == "verbosity":
            yield path, whole_number(f"the verbosity of {path or 'the log'}", inner)
        elif below not in log.COMPONENTS:
            raise CommandError(Code.BadValue, f"this server's log has no component {below}")
        elif isinstance(inner, Mapping):
            yield from _said_of_components(below, inner)
        else:
            yield below, whole_number(f"the verbosity of {below}", inner)


def _of_buffers() -> ServerParameter:
    """Return the parameter that limits the buffers of all cursors and operations before they spill."""

    def assign(value: Any) -> None:
        megabytes = whole_number("cursorMemoryLimitMB", value)
        if megabytes <= 0:
            raise CommandError(
                Code.BadValue, f"Invalid value for parameter cursorMemoryLimitMB: {megabytes} is not greater than 0"
            )
        BUFFERS.limit = megabytes * _MEBIBYTE

    return ServerParameter(name="cursorMemoryLimitMB", get=lambda: BUFFERS.limit // _MEBIBYTE, assign=assign)


def _tls_mode(certificates: TransportSecurity | None) -> ServerParameter:
    if certificates is None:

        def refuse(value: Any) -> None:
            raise CommandError(
                Code.BadValue, f"Illegal state transition for tlsMode, attempt to change from disabled to {value}"
            )

        return ServerParameter(name="tlsMode", get=lambda: "disabled", assign=refuse)
    return ServerParameter(name="tlsMode", get=lambda: certificates.mode_name, assign=certificates.change_mode)


def _cluster_mode(access: AccessControl, certificates: TransportSecurity | None) -> ServerParameter:
    """Return the parameter of the authentication mode between cluster processes."""
    keys = access.keys
    if keys is None:
        return ServerParameter(name="clusterAuthMode", get=lambda: "undefined")

    def assign(value: Any) -> None:
        try:
            if certificates is None or certificates.mode_name in ("disabled", "allowTLS"):
                raise ValueError("need to enable SSL for outgoing connections")
            keys.change_mode(value)
        except ValueError as error:
            raise CommandError(Code.BadValue, f"Illegal state transition for clusterAuthMode, {error}") from None

    return ServerParameter(name="clusterAuthMode", get=lambda: keys.mode.value, assign=assign)


def _test_commands(table: CommandTable) -> ServerParameter:
    """Return the parameter that enables test commands."""

    def assign(value: Any) -> None:
        if truth(value) and TEST_COMMANDS[0].name not in table:
            table.add(TEST_COMMANDS)

    return ServerParameter(
        name="enableTestCommands", get=lambda: TEST_COMMANDS[0].name in table, assign=assign, startup_only=True
    )


def apply_options(dispatcher: Dispatcher, options: Options) -> None:
    """Apply the command line options of commands. Errors: StartError for an invalid parameter."""
    switches = dispatcher.services.switches
    switches.compressors = options.network.compressors
    switches.scripting = options.storage.scripting
    switches.face = FACES[options.emulate]
    dispatcher.services.table.hide_newer(switches.face)
    dispatcher.services.access.enabled = options.security.auth
    switches.slow_ms = options.logging.slow_ms
    set_parameters(dispatcher.services.parameters, options)
    if dispatcher.services.transport_security is not None:
        dispatcher.services.transport_security.begin()
    audit = dispatcher.services.audit
    if audit is not None:
        audit.note(None, "startup", {"startupOptions": options.parsed})


def set_parameters(table: ParameterTable, options: Options) -> None:
    """Apply --setParameter. Errors: StartError for an invalid parameter."""
    for name, text in options.parameters.items():
        try:
            table.assign(name, _value(text), starting=True)
        except CommandError as error:
            raise StartError(f"--setParameter {name}={text}: {error.message}", 2) from None


def _value(text: str) -> Any:
    """Return a parameter's value as in a command."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
