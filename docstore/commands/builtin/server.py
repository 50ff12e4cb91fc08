"""Commands of every server: ping, build information, the list of commands, the log."""

from __future__ import annotations

import platform

import docstore
from docstore import log
from docstore.bson.compilation import kernel_form
from docstore.bson.walk import STRING
from docstore.commands.arguments import Arguments
from docstore.commands.context import Context
from docstore.commands.declaration import (
    AUTHENTICATED,
    PUBLIC,
    Command,
    Parameter,
    Privilege,
    Resource,
    Result,
    Role,
    Type,
)
from docstore.commands.limits import MAX_DOCUMENT_BYTES
from docstore.commands.values import text_of
from docstore.errors import Code, CommandError

LOGS = {"global": log.RECENT, "startupWarnings": log.WARNINGS}
"""The newest lines of each log, kept in memory."""


def ping(_context: Context, _arguments: Arguments) -> Result:
    return {}


def build_info(context: Context, _arguments: Arguments) -> Result:
    """Return the emulated MongoDB version, on which drivers rely, and the real product (`docstore`)."""
    version = context.services.switches.face.version
    return {
        "version": version,
        "gitVersion": "none",
        "modules": [],
        "allocator": "system",
        "javascriptEngine": "v8",
        "sysInfo": "deprecated",
        "versionArray": [*map(int, version.split(".")), 0],
        "docstore": {
            "version": docstore.__version__,
            "python": platform.python_version(),
            "kernel": kernel_form(),
        },
        "buildEnvironment": {"target_arch": platform.machine(), "target_os": platform.system().lower()},
        "bits": 64,
        "debug": False,
        "maxBsonObjectSize": MAX_DOCUMENT_BYTES,
        "storageEngines": ["inMemory", "rocksdb"],
    }


def features(_context: Context, _arguments: Arguments) -> Result:
    """Return the JavaScript features that old shells ask for."""
    return {"js": {"utf8": True}}


def whatsmyuri(context: Context, _arguments: Arguments) -> Result:
    return {"you": context.connection.remote}


def list_commands(context: Context, _arguments: Arguments) -> Result:
    return {
        "commands": {
            command.name: {
                "help": command.help,
                "requiresAuth": command.privilege.resource is not Resource.NONE,
                "secondaryOk": command.role is Role.ANY,
                "adminOnly": command.admin_only,
                **({} if command.role is Role.ANY else {"secondaryOverrideOk": command.role is Role.SECONDARY_OK}),
                "apiVersions": ["1"] if command.stable else [],
                "deprecatedApiVersions": [],
            }
            for command in context.services.table
        }
    }


def get_last_error(_context: Context, _arguments: Arguments) -> Result:
    """Refuse the command, which is gone.

    Clients that write with OP_INSERT, OP_UPDATE and OP_DELETE send it with OP_QUERY; `docstore.commands.legacy.opcodes`
    answers them.
    """
    raise CommandError(5739000, "getLastError command is not supported")


def get_log(_context: Context, arguments: Arguments) -> Result:
    name = arguments.value
    if name == "*":
        return {"names": list(LOGS)}
    log_buffer = LOGS.get(name)
    if log_buffer is None:
        raise CommandError(Code.OperationFailed, f"No log named '{name}'")
    return {"totalLinesWritten": len(log_buffer.lines), "log": list(log_buffer.lines)}


def log_rotate(context: Context, arguments: Arguments) -> Result:
    code, data = arguments.value
    kind = text_of(data) if code == STRING else ""
    audit = context.services.audit
    if kind not in ("", "server") and (kind != "audit" or audit is None):
        raise CommandError(Code.NoSuchKey, f"there is no log of the kind '{kind}'")
    try:
        if audit is not None and kind != "server":
            audit.rotate()
        if kind != "audit":
            # Standard error cannot be rotated; the real server replies ok then too.
            log.rotate()
    except OSError as error:
        raise CommandError(Code.OperationFailed, f"Log rotation failed: {error.strerror}") from None
    return {}


def log_application_message(_context: Context, _arguments: Arguments) -> Result:
    """Succeed; the audit log records it as any other successful command (`docstore.commands.audit.events`)."""
    return {}


def rotate_certificates(context: Context, _arguments: Arguments) -> Result:
    """Reload the certificates. Without TLS there are none, and the reply is ok, as by the real server."""
    security = context.services.transport_security
    if security is not None:
        security.rotate()
    return {}


COMMANDS: tuple[Command, ...] = (
    Command("ping", ping, privilege=PUBLIC, role=Role.ANY, stable=True, help="answers ok"),
    Command(
        "buildInfo", build_info, aliases=("buildinfo",), privilege=PUBLIC, role=Role.ANY, tolerant=True,
        help="version and build of this server",
    ),
    Command(
        "features", features, privilege=AUTHENTICATED, role=Role.ANY, help="what the server's JavaScript can do"
    ),
    Command(
        "whatsmyuri", whatsmyuri, privilege=PUBLIC, role=Role.ANY, tolerant=True,
        help="the caller's own address, host:port",
    ),
    Command("listCommands", list_commands, privilege=PUBLIC, role=Role.ANY, help="every command of this server"),
    Command(
        "getLastError", get_last_error, aliases=("getlasterror",), privilege=PUBLIC, role=Role.ANY, tolerant=True,
        refuses="a write is acknowledged in its own reply",
    ),
    Command(
        "getLog", get_log, privilege=Privilege("getLog", Resource.CLUSTER), role=Role.ANY,
        user_first=True, admin_only=True,
        value=Type.STRING, help="the newest log lines",
    ),
    Command(
        "logRotate", log_rotate, privilege=Privilege("logRotate", Resource.CLUSTER), role=Role.ANY, admin_only=True,
        help="begin a new log file",
    ),
    Command(
        "rotateCertificates", rotate_certificates, privilege=Privilege("rotateCertificates", Resource.CLUSTER),
        role=Role.ANY, admin_only=True, parameters=(Parameter("message", Type.STRING),),
        help="read the files of certificates anew, for later connections",
    ),
    Command(
        "logApplicationMessage", log_application_message, privilege=Privilege("applicationMessage", Resource.CLUSTER),
        role=Role.ANY, admin_only=True, value=Type.STRING, help="have a message of one's own in the audit log",
    ),
)  # fmt: skip
