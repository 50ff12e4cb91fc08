"""Command-line options: typed groups, declared once and shared by the executables.

An executable picks its groups:

    @program("mongod", NETWORK, LOGGING, PROCESS, STORAGE, REPLICATION, ROLE)
    def main(options: Options) -> None:
        '''What the program is, for --help.'''

`Options` holds one frozen value per group (a group that was not picked has its defaults); `Options.parsed` is what was
given, in the layout of MongoDB's configuration files. Such a file is read with `--config`; the command line wins over
it.

Always true: an option that is accepted has the effect that its help describes. Unknown options are refused, and those
that MongoDB has and we have not are refused with a sentence of their own; both with exit code 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import yaml

MONGOD_PORT = 27017
SHARD_PORT = 27018
CONFIG_PORT = 27019
LOOPBACK = "127.0.0.1"

DIRECTORY_PER_DB_NOTICE = (
    "--directoryperdb has nothing to separate: each node keeps all its databases in one engine directory below --dbpath"
)


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """`port` None: the default of the node's role; 0: a free one."""

    addresses: tuple[str, ...] = (LOOPBACK,)
    port: int | None = None
    max_connections: int = 65_536


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    path: Path | None = None
    append: bool = False
    verbosity: int = 0


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    fork: bool = False
    pid_file: Path | None = None


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """`dbpath` None: the default of the node's role. `engine`: "rocksdb" or "inMemory"."""

    dbpath: Path | None = None
    engine: str = "rocksdb"


@dataclass(frozen=True, slots=True)
class ReplicationOptions:
    set_name: str | None = None
    oplog_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RoleOptions:
    """At most one of the two."""

    shardsvr: bool = False
    configsvr: bool = False


@dataclass(frozen=True, slots=True)
class RouterOptions:
    """`config_db`: "set/host,host" or a bare "host,host", as written."""

    config_db: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """Everything an executable was told."""

    network: NetworkOptions = NetworkOptions()
    logging: LoggingOptions = LoggingOptions()
    process: ProcessOptions = ProcessOptions()
    storage: StorageOptions = StorageOptions()
    replication: ReplicationOptions = ReplicationOptions()
    role: RoleOptions = RoleOptions()
    router: RouterOptions = RouterOptions()
    parameters: Mapping[str, str] = field(default_factory=dict)
    """--setParameter, by name."""
    parsed: Mapping[str, Any] = field(default_factory=dict)
    """What was given, nested as in a configuration file, for getCmdLineOpts."""
    argv: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    """What the log should say about options whose meaning differs from MongoDB's."""

    @property
    def port(self) -> int:
        """The port to listen on: the one given, else that of the role."""
        if self.network.port is not None:
            return self.network.port
        return SHARD_PORT if self.role.shardsvr else CONFIG_PORT if self.role.configsvr else MONGOD_PORT

    @property
    def dbpath(self) -> Path:
        """Where the data is: the directory given, else that of the role."""
        if self.storage.dbpath is not None:
            return self.storage.dbpath
        return Path("/data/configdb" if self.role.configsvr else "/data/db")


@dataclass(frozen=True, slots=True)
class Setting:
    """One option: its spelling on the command line and its dotted name in a configuration file."""

    flag: str
    key: str
    kind: click.ParamType[Any] | type | None = None
    """None for a flag that takes no value."""
    help: str = ""
    metavar: str | None = None
    repeated: bool = False

    def option(self) -> click.Option:
        """Fresh for each program: click keeps state in it."""
        shape: dict[str, Any] = {"is_flag": True, "default": None}
        if self.kind is not None:
            shape = {"type": self.kind, "multiple": self.repeated}
        return click.Option([self.flag, self.name], help=self.help, metavar=self.metavar, **shape)

    @property
    def name(self) -> str:
        """The name of its value, a Python identifier."""
        return self.key.replace(".", "_")


@dataclass(frozen=True, slots=True)
class Group:
    settings: tuple[Setting, ...]


_FILE = click.Path(path_type=Path, dir_okay=False)
_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_PORT = click.IntRange(0, 65_535)

NETWORK = Group((
    Setting("--port", "net.port", _PORT, "Port to listen on; 0 takes a free one and names it in the ready line."),
    Setting("--bind_ip", "net.bindIp", str, "Comma-separated addresses to listen on [127.0.0.1].", "ADDRESSES"),
    Setting("--bind_ip_all", "net.bindIpAll", None, "Listen on every address. There is no authentication yet."),
    Setting("--maxConns", "net.maxIncomingConnections", click.IntRange(5, 1_000_000), "Most connections at once."),
))  # fmt: skip
LOGGING = Group((
    Setting("--logpath", "systemLog.path", _FILE, "Write the log to this file instead of standard error."),
    Setting("--logappend", "systemLog.logAppend", None, "Append to the log file; else an old one is renamed."),
    Setting("--verbose", "systemLog.verbosity", click.IntRange(0, 5), "Above 0: also log what is for debugging."),
))  # fmt: skip
PROCESS = Group((
    Setting("--fork", "processManagement.fork", None, "Go to the background; return when the server is ready."),
    Setting("--pidfilepath", "processManagement.pidFilePath", _FILE, "Write the process id to this file."),
))  # fmt: skip
STORAGE = Group((
    Setting("--dbpath", "storage.dbPath", _DIRECTORY, "Directory of the data."),
    Setting("--directoryperdb", "storage.directoryPerDB", None,
            "Taken for compatibility: a node keeps all databases in one engine directory, and the log says so."),
    Setting("--storageEngine", "storage.engine", click.Choice(["rocksdb", "inMemory"]), "How data is kept [rocksdb]."),
))  # fmt: skip
REPLICATION = Group((
    Setting("--replSet", "replication.replSetName", str, "Be a member of this replica set.", "NAME"),
    Setting("--oplogSize", "replication.oplogSizeMB", click.IntRange(1, 1 << 20), "Size of the oplog.", "MB"),
))  # fmt: skip
ROLE = Group((
    Setting("--shardsvr", "sharding.shardsvr", None, "Be a shard's member; default port 27018."),
    Setting("--configsvr", "sharding.configsvr", None, "Be a config server; default port 27019."),
))  # fmt: skip
ROUTER = Group((
    Setting("--configdb", "sharding.configDB", str, "The config servers: set/host:port,... or host:port,...",
    "SERVERS"),
))  # fmt: skip
PARAMETERS = Group((
    Setting("--setParameter", "setParameter", str, "Set a server parameter; may be repeated.", "NAME=VALUE", True),
))  # fmt: skip

UNSUPPORTED = {
    **dict.fromkeys(
        ("auth", "keyFile", "clusterAuthMode", "transitionToAuth", "enableEncryption", "encryptionKeyFile"),
        "there is no authentication or encryption yet",
    ),
    **dict.fromkeys(
        (
            "tlsMode", "tlsCertificateKeyFile", "tlsCAFile", "tlsAllowInvalidCertificates", "tlsClusterFile", "sslMode",
            "sslPEMKeyFile", "sslCAFile", "sslAllowInvalidCertificates", "sslOnNormalPorts",
        ),
        "TLS is not there yet",
    ),
    **dict.fromkeys(
        ("nojournal", "nodur"), "every write is in the write-ahead log before it is acknowledged, always"
    ),
    **dict.fromkeys(
        (
            "journal", "dur", "smallfiles", "noprealloc", "nssize", "syncdelay", "quota", "wiredTigerCacheSizeGB",
            "wiredTigerCollectionBlockCompressor", "journalCommitInterval", "repair", "upgrade",
        ),
        "it belongs to another storage engine",
    ),
    **dict.fromkeys(
        ("master", "slave", "source", "only", "autoresync", "slavedelay"),
        "master/slave replication is gone; use --replSet",
    ),
    **dict.fromkeys(("rest", "httpinterface", "jsonp", "nohttpinterface"), "there is no HTTP interface"),
    **dict.fromkeys(
        (
            "syslog", "quiet", "ipv6", "unixSocketPrefix", "nounixsocket", "filePermissions", "shutdown", "profile",
            "slowms", "slowOpSampleRate", "noscripting", "notablescan", "networkMessageCompressors", "objcheck",
            "noauth", "cpu", "sysinfo", "localThreshold", "timeZoneInfo", "logRotate", "timeStampFormat",
            "redactClientLogData", "traceExceptions", "enableMajorityReadConcern", "serviceExecutor", "test",
            "chunkSize",
        ),
        "it is not implemented",
    ),
}  # fmt: skip
"""MongoDB's options that are known and refused, each with the reason."""


class _Program(click.Command):
    """A click command that reads `--config` and names the options it knows but does not have."""

    def __init__(self, name: str, settings: tuple[Setting, ...], run: Callable[[Options], None]) -> None:
        self._settings = settings
        config = click.Option(
            ["--config", "-f", "config_file"], type=click.Path(path_type=Path, dir_okay=False), is_eager=True,
            expose_value=False, callback=self._read_config, help="Read options from this YAML file.",
        )  # fmt: skip
        options = [each.option() for each in settings]
        super().__init__(name, params=[config, *options], callback=self._call, help=run.__doc__)
        self._run = run

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-")
            reason = UNSUPPORTED.get(name)
            if reason is None:
                raise
            raise click.UsageError(f"--{name} is not supported: {reason}.", ctx) from None

    def _read_config(self, ctx: click.Context, _option: click.Parameter, path: Path | None) -> None:
        if path is None:
            return
        try:
            tree = yaml.safe_load(path.read_text()) or {}
        except OSError as error:
            raise click.UsageError(f"cannot read {path}: {error.strerror}", ctx) from None
        except yaml.YAMLError as error:
            raise click.UsageError(f"{path} is not YAML: {error}", ctx) from None
        by_key = {each.key: each.name for each in self._settings}
        ctx.default_map = {}
        for key, value in _flatten(tree):
            if key == "sharding.clusterRole" and f"sharding.{value}" in by_key:
                key, value = f"sharding.{value}", True
            if key == "systemLog.destination" and value == "file":
                continue
            if key not in by_key:
                raise click.UsageError(f"{path}: {key} is not supported", ctx)
            ctx.default_map[by_key[key]] = value

    def _call(self, **values: Any) -> None:
        given = {each.key: values[each.name] for each in self._settings if _was_given(values.get(each.name))}
        try:
            options = _build(given)
        except ValueError as error:
            raise click.UsageError(str(error)) from None
        self._run(options)


def program(name: str, *groups: Group) -> Callable[[Callable[[Options], None]], click.Command]:
    """Make a function of `Options` the body of an executable with the options of these groups."""
    settings = tuple(setting for group in groups for setting in group.settings)
    return lambda run: _Program(name, settings, run)


def _was_given(value: Any) -> bool:
    # 0 equals False, and port 0 is a port.
    return value is not None and value is not False and value != ()


def _flatten(tree: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if not isinstance(tree, Mapping):
        raise click.UsageError("a configuration file holds nested names and values")
    pairs: list[tuple[str, Any]] = []
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key == "setParameter" and isinstance(value, Mapping):
            pairs.append((key, tuple(f"{parameter}={setting}" for parameter, setting in value.items())))
        elif isinstance(value, Mapping):
            pairs += _flatten(value, f"{key}.")
        else:
            pairs.append((key, value))
    return pairs


def _build(given: Mapping[str, Any]) -> Options:
    """The typed value. Errors: ValueError with a sentence for what does not go together."""
    role = RoleOptions(bool(given.get("sharding.shardsvr")), bool(given.get("sharding.configsvr")))
    if role.shardsvr and role.configsvr:
        raise ValueError("--shardsvr and --configsvr exclude each other")
    logging = LoggingOptions(
        given.get("systemLog.path"), bool(given.get("systemLog.logAppend")), given.get("systemLog.verbosity", 0)
    )
    process = ProcessOptions(bool(given.get("processManagement.fork")), given.get("processManagement.pidFilePath"))
    if process.fork and logging.path is None:
        raise ValueError("--fork needs --logpath: the background process has nowhere else to write its log")
    if logging.append and logging.path is None:
        raise ValueError("--logappend needs --logpath")
    oplog_mb = given.get("replication.oplogSizeMB")
    return Options(
        network=_network(given),
        logging=logging,
        process=process,
        storage=StorageOptions(given.get("storage.dbPath"), given.get("storage.engine", "rocksdb")),
        replication=ReplicationOptions(
            _set_name(given.get("replication.replSetName")), None if oplog_mb is None else oplog_mb * 1024 * 1024
        ),
        role=role,
        router=RouterOptions(given.get("sharding.configDB", "")),
        parameters=_parameters(given.get("setParameter", ())),
        parsed=_nest(given),
        argv=tuple(sys.argv),
        notices=(DIRECTORY_PER_DB_NOTICE,) if given.get("storage.directoryPerDB") else (),
    )


def _network(given: Mapping[str, Any]) -> NetworkOptions:
    addresses: tuple[str, ...] = (LOOPBACK,)
    if "net.bindIp" in given:
        if "net.bindIpAll" in given:
            raise ValueError("--bind_ip and --bind_ip_all exclude each other")
        addresses = tuple(address.strip() for address in given["net.bindIp"].split(","))
        if not all(addresses):
            raise ValueError(f"--bind_ip {given['net.bindIp']} holds an empty address")
    elif "net.bindIpAll" in given:
        addresses = ("0.0.0.0",)
    return NetworkOptions(addresses, given.get("net.port"), given.get("net.maxIncomingConnections", 65_536))


def _set_name(name: str | None) -> str | None:
    if name is not None and ("/" in name or "," in name):
        raise ValueError(f"--replSet takes a set's name only, not {name}")
    return name


def _parameters(pairs: tuple[str, ...]) -> dict[str, str]:
    parameters = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"--setParameter {pair} is not NAME=VALUE")
        parameters[name] = value
    return parameters


def _nest(given: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for key, value in given.items():
        *path, last = key.split(".")
        branch = tree
        for name in path:
            branch = branch.setdefault(name, {})
        branch[last] = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
    return tree
