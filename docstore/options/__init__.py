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

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import yaml

import docstore
from docstore.options.unsupported import UNSUPPORTED

MONGOD_PORT = 27017
SHARD_PORT = 27018
CONFIG_PORT = 27019
LOOPBACK = "127.0.0.1"
COMPRESSORS = ("snappy", "zstd", "zlib")

DIRECTORY_PER_DB_NOTICE = (
    "--directoryperdb has nothing to separate: each node keeps all its databases in one engine directory below --dbpath"
)


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """`port` None: the default of the node's role; 0: a free one. `compressors`: those that clients may agree on."""

    addresses: tuple[str, ...] = (LOOPBACK,)
    port: int | None = None
    max_connections: int = 65_536
    compressors: tuple[str, ...] = COMPRESSORS


@dataclass(frozen=True, slots=True)
class LoggingOptions:
    path: Path | None = None
    append: bool = False
    verbosity: int = 0
    quiet: bool = False
    rotate: str = "rename"
    """What a rotation does: "rename" keeps the old lines under another name, "reopen" leaves that to someone else."""
    slow_ms: int = 100
    """Operations at least as long are logged."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    fork: bool = False
    pid_file: Path | None = None
    shutdown: bool = False
    """Stop the server of the data directory instead of starting one."""


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """`dbpath` None: the default of the node's role. `engine`: "rocksdb" or "inMemory"."""

    dbpath: Path | None = None
    engine: str = "rocksdb"
    scripting: bool = True
    """Whether JavaScript is run for clients."""
    repair: bool = False
    """Repair the data and end."""
    cache_bytes: int = 64 << 20
    """Most that the block cache takes."""


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
    """`config_db`: "set/host,host" or a bare "host,host", as written. `hints`: a directory for writes that wait for a
    primary.
    """

    config_db: str = ""
    hints: str | None = None


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


class _Verbosity(click.ParamType[int]):
    """A level: "", "v" to "vvvvv", or 0 to 5."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value)
        level = len(text) if set(text) <= {"v"} else int(text) if text.isdecimal() else -1
        if not 0 <= level <= 5:
            self.fail(f"{text} is no level from 0 to 5", param, ctx)
        return level


_FILE = click.Path(path_type=Path, dir_okay=False)
_DIRECTORY = click.Path(path_type=Path, file_okay=False)
_PORT = click.IntRange(0, 65_535)

NETWORK = Group((
    Setting("--port", "net.port", _PORT, "Port to listen on; 0 takes a free one and names it in the ready line."),
    Setting("--bind_ip", "net.bindIp", str, "Comma-separated addresses to listen on [127.0.0.1].", "ADDRESSES"),
    Setting("--bind_ip_all", "net.bindIpAll", None, "Listen on every address. There is no authentication yet."),
    Setting("--ipv6", "net.ipv6", None, "Listen on IPv6 addresses too."),
    Setting("--maxConns", "net.maxIncomingConnections", click.IntRange(5, 1_000_000), "Most connections at once."),
    Setting("--networkMessageCompressors", "net.compression.compressors", str,
            "Compressors to agree on with clients, or disabled [snappy,zstd,zlib].", "LIST"),
))  # fmt: skip
LOGGING = Group((
    Setting("--logpath", "systemLog.path", _FILE, "Write the log to this file instead of standard error."),
    Setting("--logappend", "systemLog.logAppend", None, "Append to the log file; else an old one is renamed."),
    Setting("--logRotate", "systemLog.logRotate", click.Choice(["rename", "reopen"]),
            "What a rotation does with the log file [rename]."),
    Setting("--verbose", "systemLog.verbosity", _Verbosity(), "Also log what is for debugging: -v to -vvvvv, 0 to 5.",
            "LEVEL"),
    Setting("--quiet", "systemLog.quiet", None, "Leave out the log lines of connections that come and go."),
    Setting("--slowms", "operationProfiling.slowOpThresholdMs", click.IntRange(0),
            "Log operations that take as long as this [100].", "MS"),
))  # fmt: skip
PROCESS = Group(
    (
        Setting("--fork", "processManagement.fork", None, "Go to the background; return when the server is ready."),
        Setting("--pidfilepath", "processManagement.pidFilePath", _FILE, "Write the process id to this file."),
    )
)
SHUTDOWN = Group((
    Setting("--shutdown", "shutdown", None, "Stop the server that has the data directory open, and wait for its end."),
))  # fmt: skip
STORAGE = Group((
    Setting("--dbpath", "storage.dbPath", _DIRECTORY, "Directory of the data."),
    Setting("--directoryperdb", "storage.directoryPerDB", None,
            "Taken for compatibility: a node keeps all databases in one engine directory, and the log says so."),
    Setting("--journal", "storage.journal.enabled", None,
            "Taken for compatibility: every write is in the write-ahead log before it is acknowledged, always."),
    Setting("--storageEngine", "storage.engine", click.Choice(["rocksdb", "inMemory"]), "How data is kept [rocksdb]."),
    Setting("--rocksdbCacheSizeGB", "storage.rocksdb.engineConfig.cacheSizeGB", click.FloatRange(0.001, 10_000),
            "Most that the cache of blocks read from disk takes [0.0625].", "GB"),
    Setting("--repair", "storage.repair", None,
            "Save what can be read of a damaged database, rebuild indexes and counters from the documents, and end."),
))  # fmt: skip
SCRIPTING = Group((
    Setting("--noscripting", "security.noscripting", None, "Refuse what would run JavaScript."),
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
    Setting("--wideColumnHintsPath", "wideColumn.hintsPath", str,
            "Keep writes at consistency level ANY in this directory while they have no primary.", "DIR"),
))  # fmt: skip
PARAMETERS = Group((
    Setting("--setParameter", "setParameter", str, "Set a server parameter; may be repeated.", "NAME=VALUE", True),
))  # fmt: skip

_TRUE_ANYWAY = (
    ("systemLog.destination", "file"),
    ("security.authorization", "disabled"),
    ("net.tls.mode", "disabled"),
    ("net.unixDomainSocket.enabled", False),
    ("replication.enableMajorityReadConcern", True),
)
"""What a configuration file may say because it is so."""


def _spelled_out(argument: str) -> str:
    """-v, -vv, ... and --verbose without a level as the option with its level; others as they are."""
    if re.fullmatch("-v+", argument):
        return f"--verbose={argument[1:]}"
    return "--verbose=v" if argument == "--verbose" else argument


class _Program(click.Command):
    """A click command that reads `--config` and names the options it knows but does not have."""

    def __init__(self, name: str, settings: tuple[Setting, ...], run: Callable[[Options], None]) -> None:
        self._settings = settings
        config = click.Option(
            ["--config", "-f", "config_file"], type=click.Path(path_type=Path, dir_okay=False), is_eager=True,
            expose_value=False, callback=self._read_config, help="Read options from this YAML file.",
        )  # fmt: skip
        version = click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=self._show_version,
            help="Say which version this is.",
        )  # fmt: skip
        options = [each.option() for each in settings]
        super().__init__(
            name,
            params=[config, version, *options],
            callback=self._call,
            help=run.__doc__,
            context_settings={"help_option_names": ["-h", "--help"]},
        )
        self._run = run

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, [_spelled_out(each) for each in args])
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
            if (key, value) in _TRUE_ANYWAY:
                continue
            if key == "storage.journal.enabled" and not value:
                raise click.UsageError(f"{path}: {UNSUPPORTED['nojournal']}", ctx)
            if key == "security.javascriptEnabled" and "security.noscripting" in by_key:
                key, value = "security.noscripting", not value
            if key not in by_key:
                raise click.UsageError(f"{path}: {key} is not supported", ctx)
            ctx.default_map[by_key[key]] = value

    def _show_version(self, ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
        if asked:
            click.echo(f"{self.name} version {docstore.__version__}")
            ctx.exit()

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
            pairs.append((key, tuple(f"{parameter}={_as_text(setting)}" for parameter, setting in value.items())))
        elif isinstance(value, Mapping):
            pairs += _flatten(value, f"{key}.")
        else:
            pairs.append((key, value))
    return pairs


def _as_text(setting: Any) -> str:
    return str(setting).lower() if isinstance(setting, bool) else str(setting)


def _build(given: Mapping[str, Any]) -> Options:
    """The typed value. Errors: ValueError with a sentence for what does not go together."""
    role = RoleOptions(bool(given.get("sharding.shardsvr")), bool(given.get("sharding.configsvr")))
    if role.shardsvr and role.configsvr:
        raise ValueError("--shardsvr and --configsvr exclude each other")
    logging = LoggingOptions(
        given.get("systemLog.path"),
        bool(given.get("systemLog.logAppend")),
        given.get("systemLog.verbosity", 0),
        bool(given.get("systemLog.quiet")),
        given.get("systemLog.logRotate", "rename"),
        given.get("operationProfiling.slowOpThresholdMs", 100),
    )
    process = ProcessOptions(
        bool(given.get("processManagement.fork")),
        given.get("processManagement.pidFilePath"),
        bool(given.get("shutdown")),
    )
    if process.fork and logging.path is None:
        raise ValueError("--fork needs --logpath: the background process has nowhere else to write its log")
    if logging.rotate == "reopen" and not logging.append:
        raise ValueError("--logRotate reopen needs --logappend: else what was logged would be lost")
    if logging.append and logging.path is None:
        raise ValueError("--logappend needs --logpath")
    oplog_mb = given.get("replication.oplogSizeMB")
    return Options(
        network=_network(given),
        logging=logging,
        process=process,
        storage=StorageOptions(
            given.get("storage.dbPath"),
            given.get("storage.engine", "rocksdb"),
            not given.get("security.noscripting"),
            bool(given.get("storage.repair")),
            int(given.get("storage.rocksdb.engineConfig.cacheSizeGB", 1 / 16) * (1 << 30)),
        ),
        replication=ReplicationOptions(
            _set_name(given.get("replication.replSetName")), None if oplog_mb is None else oplog_mb * 1024 * 1024
        ),
        role=role,
        router=RouterOptions(given.get("sharding.configDB", ""), given.get("wideColumn.hintsPath")),
        parameters=_parameters(given.get("setParameter", ())),
        parsed=_nest(given),
        argv=tuple(sys.argv),
        notices=(DIRECTORY_PER_DB_NOTICE,) if given.get("storage.directoryPerDB") else (),
    )


def _network(given: Mapping[str, Any]) -> NetworkOptions:
    ipv6 = bool(given.get("net.ipv6"))
    addresses: tuple[str, ...] = (LOOPBACK, "::1") if ipv6 else (LOOPBACK,)
    if "net.bindIp" in given:
        if "net.bindIpAll" in given:
            raise ValueError("--bind_ip and --bind_ip_all exclude each other")
        addresses = tuple(address.strip() for address in given["net.bindIp"].split(","))
        if not all(addresses):
            raise ValueError(f"--bind_ip {given['net.bindIp']} holds an empty address")
    elif "net.bindIpAll" in given:
        addresses = ("0.0.0.0", "::") if ipv6 else ("0.0.0.0",)
    if not ipv6 and any(":" in address for address in addresses):
        raise ValueError("an IPv6 address in --bind_ip needs --ipv6")
    return NetworkOptions(
        addresses, given.get("net.port"), given.get("net.maxIncomingConnections", 65_536), _compressors(given)
    )


def _compressors(given: Mapping[str, Any]) -> tuple[str, ...]:
    text = given.get("net.compression.compressors")
    if text is None:
        return COMPRESSORS
    names = () if text == "disabled" else tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in COMPRESSORS:
            raise ValueError(f"--networkMessageCompressors: there is no compressor {name}")
    return names


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


_ROLES = {"sharding.shardsvr": "shardsvr", "sharding.configsvr": "configsvr"}


def _nest(given: Mapping[str, Any]) -> dict[str, Any]:
    """As the real server shows it: roles as one name, parameters as a document of texts."""
    tree: dict[str, Any] = {}
    for key, value in given.items():
        if key in _ROLES:
            key, value = "sharding.clusterRole", _ROLES[key]
        elif key == "setParameter":
            tree[key] = _parameters(value)
            continue
        *path, last = key.split(".")
        branch = tree
        for name in path:
            branch = branch.setdefault(name, {})
        branch[last] = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
    return tree
